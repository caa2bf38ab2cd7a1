"""The bugs that can be seeded: each must be found, and without them nothing."""

from __future__ import annotations

SEEDED_BUGS = {
    "window-unsynced": "a member names messages that are not durable",
    "death-uncounted": "a delivery that killed its member is not counted",
    "ack-unsynced": "an acknowledgement returns before it is durable",
    "letter-repeated": "a dead letter is appended again after a death",
    "ack-before-letter": "a dying item is acknowledged before its dead letter is durable",
    "letter-unsynced": "a dead letter is appended before its number is durable",
    "prune-unconfirmed": "messages are pruned by acknowledgements that a power cut may take back",
    "late-ack": "an acknowledgement of an earlier delivery counts",
    "living-buried": "a member that joins takes all others for dead",
    "suspects-together": "items that a dead member had started together are handed out together",
    "start-unchecked": "an item that a member lost is handed out, although its start did not count",
    "rule-differs": "one process assigns returned items before new ones, another in turn",
    "key-ignored": "messages with the same key are delivered side by side",
    "checkpoint-early": "files before a checkpoint are removed before the checkpoint is appended",
    "items-forgotten": "a member forgets the items of an operation that was interrupted",
}
