/*
 * The data file: the lock that decides, what the page cache says to every process, what the disk has.
 *
 * A set of records is a word with one bit a record.  "After the tail" is the one place where the next group goes: two
 * groups written there destroy each other.  All but the lock belongs to the lock's holder alone; his variables that
 * these inlines share: me, failed.
 *
 * Held by assertions: no record is published twice; nothing is published once the log is poisoned, nor over bytes that
 * are not there; no bytes of another program are written over; a log is poisoned only where there was cause.
 */

#define NOBODY 15

byte file_lock = NOBODY; /* the kernel frees it when its holder dies */

byte confirmed;       /* the counter of the last commit whose sync returned */
byte slot_counter[2]; /* the commit slots; that of counter c is c & 1 */
byte slot_nonce[2];   /* who wrote it; enough of a nonce here, for nobody leaves a note behind and lives */
int slot_group[2];    /* stands for the group's CRC; forgotten once published, since nobody asks any more */
int after_tail;       /* whose bytes lie after the tail; 0: nobody's, or what is left of them */
int published;        /* the records below the tail */
bool foreign_tail;    /* another program moved the tail */
bool mixed;           /* set for good where a foreign tail was met */
bool poison;

int dirty;   /* records whose bytes the kernel knows that it must still write */
int durable; /* records whose bytes are on the disk */
byte errors_left = SYNC_ERRORS;

/* Known to the properties alone. */
bool poison_has_cause;
bool failure_met;     /* by one who lived to tell */
bool foreign_writing; /* another program is at it, or died at it */
int told_unwritten;   /* records of which the writer was told that they are not in the file */

#define NEXT_SLOT ((confirmed + 1) & 1)
#define PENDING (slot_counter[NEXT_SLOT] == confirmed + 1)

inline lock_file()
{
    atomic { file_lock == NOBODY -> file_lock = me }
}

inline write_data(group)
{
    d_step {
        assert(!foreign_tail); /* else these bytes go over those of another program */
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

/* fdatasync.  An error is told once; it leaves the pages clean and the disk without them (seen on ext4, xfs, btrfs). */
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

/* An empty slot takes the counter, so that a group whose bytes were written over is known to be gone. */
inline adopt_foreign_tail()
{
    write_slot(0);
    sync();
    publish_or_poison()
}

/* The group and its slot are written again: a sync vouches only for what is dirty, and an error may have been told. */
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
    :: else -> write_data(slot_group[NEXT_SLOT]); /* as read and checked: in the page cache they may be gone by now */
#endif
#if ROLLED_UNDER_OWN_NONCE
        write_slot(slot_group[NEXT_SLOT]);
#endif
        sync();
        publish_or_poison()
    fi
}

/* What a dead writer or another program left in the file comes first, whoever has the lock. */
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
