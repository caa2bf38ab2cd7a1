/*
 * The data file: its lock, the page cache that every process sees, and the disk.
 *
 * A set of records is a word with one bit a record.  "After the tail" is the one place for the next group: two groups
 * written there destroy each other.  Everything but the lock belongs to the lock's holder; its variables that these
 * inlines share: me, failed.
 *
 * Assertions hold: no record is published twice; nothing is published after the log is poisoned, nor over bytes that
 * are missing; no bytes of another program are overwritten; a log is poisoned only for a cause.
 */

#define NOBODY 15

byte file_lock = NOBODY; /* the kernel releases it when its holder dies */

byte confirmed;       /* the counter of the last commit whose sync returned */
byte slot_counter[2]; /* the commit slots; that of counter c is c & 1 */
byte slot_nonce[2];   /* its writer; enough of a nonce here, because no writer leaves a note and lives */
int slot_group[2];    /* stands for the group's CRC; cleared after publishing, when it is not needed any more */
int after_tail;       /* the owner of the bytes after the tail; 0: none, or remains */
int published;        /* the records before the tail */
bool foreign_tail;    /* another program moved the tail */
bool mixed;           /* set for good after a foreign tail was met */
bool poison;

int dirty;   /* records whose bytes the kernel knows that it must still write */
int durable; /* records whose bytes are on the disk */
byte errors_left = SYNC_ERRORS;

/* Known only to the properties. */
bool poison_has_cause;
bool failure_met;     /* by a process that lived to report it */
bool foreign_writing; /* another program is writing, or died while it wrote */
int told_unwritten;   /* records whose writer learned that they are not in the file */

#define NEXT_SLOT ((confirmed + 1) & 1)
#define PENDING (slot_counter[NEXT_SLOT] == confirmed + 1)

inline lock_file()
{
    atomic { file_lock == NOBODY -> file_lock = me }
}

inline write_data(group)
{
    d_step {
        assert(!foreign_tail); /* otherwise these bytes would overwrite another program's */
        after_tail = group;
        dirty = dirty | group
    }
}

inline write_slot(group)
{
    d_step {
        slot_counter[NEXT_SLOT] = confirmed + 1;
        slot_nonce[NEXT_SLOT] = me;
        slot_group[NEXT_SLOT] = group
    }
}

/* fdatasync.  An error is reported once; it leaves the pages clean and the disk without them (seen on ext4, xfs,
 * btrfs). */
inline sync()
{
    atomic {
        if
        :: durable = durable | dirty; failed = false
        :: errors_left > 0 -> errors_left--; poison_has_cause = true; failed = true
        fi;
        dirty = 0
    }
#if SYNC_RETRIED
    ; failed = false
#endif
}

/* One write moves tail, counter and flags together. */
inline publish()
{
    d_step {
        assert(!failure_met);
        assert((published & slot_group[NEXT_SLOT]) == 0);
        assert((told_unwritten & slot_group[NEXT_SLOT]) == 0);
        assert(foreign_tail || after_tail == slot_group[NEXT_SLOT]);
        published = published | slot_group[NEXT_SLOT];
        mixed = mixed | foreign_tail;
        foreign_tail = false;
        after_tail = 0;
        slot_group[NEXT_SLOT] = 0;
        confirmed++
    }
}

inline write_poison()
{
    d_step {
        assert(poison_has_cause || foreign_writing);
#if !POISON_UNWRITTEN
        poison = true;
#endif
        failure_met = true
    }
}

inline publish_or_poison()
{
    if
    :: failed -> write_poison()
    :: else -> publish()
    fi
}

/* An empty slot takes the counter, so that a group whose bytes were overwritten is known to be gone. */
inline adopt_foreign_tail()
{
    write_slot(0);
    sync();
    publish_or_poison()
}

/* The group and its slot are written again: a sync covers only dirty pages, and an error may have been reported
 * already. */
inline roll_forward()
{
    if
#if ROLLED_UNCHECKED
    :: true -> write_data(after_tail);
#elif ROLLED_UNWRITTEN
    :: after_tail != slot_group[NEXT_SLOT] -> write_poison()
    :: else ->
#else
    :: after_tail != slot_group[NEXT_SLOT] -> write_poison()
    :: else -> write_data(slot_group[NEXT_SLOT]); /* as read and checked: the page cache may have dropped them by now */
#endif
#if ROLLED_UNDER_OWN_NONCE
        write_slot(slot_group[NEXT_SLOT]);
#endif
        sync();
        publish_or_poison()
    fi
}

/* The process that gets the lock first recovers what a dead writer or another program left in the file. */
inline adopt()
{
    if
    :: poison -> skip
#if !FOREIGN_TAIL_IGNORED
    :: !poison && foreign_tail -> adopt_foreign_tail()
#endif
#if !PENDING_DISCARDED
    :: !poison && !foreign_tail && PENDING -> roll_forward()
#endif
    :: else
    fi
}
