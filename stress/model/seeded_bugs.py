"""The bugs that can be seeded: each must be found, and without them nothing."""

from __future__ import annotations

SEEDED_BUGS = {
    "no-sync": "a commit is confirmed without its sync",
    "tail-before-data": "the tail is published before the data and the slot are synced",
    "no-group-crc": "a pending commit is trusted without its CRC",
    "pending-dropped": "on another boot a pending commit is discarded",
    "slot-over-foreign": "a pending commit is adopted though another program has moved the tail",
    "one-slot": "all commits use one slot, and therefore overwrite the confirmed one",
    "sync-retried": "a failed sync is retried once",
    "poison-unwritten": "a failed sync is not written into the file",
    "dropped-reused": "bytes that a recovery drops are overwritten, because it does not close the file",
    "staged-twice": "a dead leader's group is staged again though it is in the file",
    "note-ignored": "a dead leader's note is cleared unread",
    "note-first": "a dead leader's note is resolved before the file is recovered",
    "nonce-ignored": "a slot with the note's counter is taken for the note's",
    "half-resolved": "after a death half-way through resolving, offsets are counted from the start again",
    "confirmed-restaged": "staged records are staged again though their commit was confirmed before it failed",
    "overtaken-trusted": "a group that had its slot and was overtaken is assumed to be in the file",
    "foreign-unsynced": "another program's tail is confirmed without a sync",
    "foreign-trusted": "a fresh descriptor vouches for another program's bytes",
    "boot-ignored": "another boot is taken for the same",
    "not-strict": "a log that another program writes too is not synced after publishing",
    "fresh-vouches": "a fresh descriptor vouches for bytes written before it was opened",
    "pending-left": "a pending commit that does not hold stays in its slot",
    "slot-late": "a recovery's slot is synced with the live block that relies on it, and not before",
    "move-unsynced": "a writer moves to the next file without syncing the closed one",
    "close-trusted": "a fresh descriptor vouches for a close that another one wrote",
    "quarantine-trusted": "bytes that a dead recovery had put in quarantine are taken for the present ones",
    "producer-late": "a producer batch is noted only after its records are in the log",
    "name-unsynced": "a file is used before its name is durable",
}
