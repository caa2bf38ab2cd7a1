"""The mistakes that can be planted: each must be found, and without them nothing."""

from __future__ import annotations

SEEDED_BUGS = {
    "no-sync": "a commit is confirmed without its sync",
    "tail-before-data": "the tail is published before the data and the slot are synced",
    "no-group-crc": "a pending commit is believed without its CRC",
    "pending-dropped": "on another boot a pending commit is discarded",
    "slot-over-foreign": "a pending commit is adopted though another program has moved the tail",
    "one-slot": "all commits use one slot, and so write over the confirmed one",
    "sync-retried": "a failed sync is tried once more",
    "poison-untold": "a failed sync is not written into the file",
    "sealed-reused": "what a recovery drops is written over, in place of sealing the file",
    "staged-twice": "a dead leader's group is staged again though it is in the file",
    "note-ignored": "a dead leader's note is cleared unread",
    "note-first": "a dead leader's note is settled before the file is",
    "nonce-ignored": "a slot with the note's counter is taken for the note's",
    "half-settled": "the places told after a death in the middle of telling begin anew",
    "confirmed-restaged": "what was staged is staged again though its commit was confirmed before it failed",
    "overtaken-believed": "a group that had its slot and was overtaken is taken to be in the file, unread",
    "foreign-unsynced": "another program's tail is confirmed without a sync",
    "foreign-believed": "a fresh descriptor vouches for what another program wrote",
    "boot-ignored": "another boot is taken for the same",
    "not-strict": "a log that another program writes too is not synced after publishing",
    "fresh-vouches": "a fresh descriptor vouches for bytes written before it was opened",
    "pending-left": "a pending commit that does not hold stays in its slot",
    "slot-late": "a recovery's slot is synced with the live block that counts on it, and not before",
    "move-unsynced": "a writer goes to the next file without syncing the closed one",
    "close-believed": "a fresh descriptor vouches for a close that another one wrote",
    "aside-kept": "what a recovery that died had set aside is taken for what is there now",
    "turn-late": "a turn is noted only after its records are in the log",
    "name-unsynced": "a file is used before its name is durable",
}
