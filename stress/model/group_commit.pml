/*
 * Group commit: which process waits for which, and which dies when.  docs/durability.md describes the protocol.
 *
 * Writers stage a record in the shared area; the one that gets the file's lock leads, and commits what all have staged.
 * One waiter, the deputy, blocks on that lock, the others sleep on a futex.  Writers that do not see the area commit
 * their own records directly, and another program, which knows only the lock and the tail, appends too.  Any of them
 * may be killed between any two steps.
 *
 * The assertions are in file.pml, note.pml and here.  Beyond them:
 * - a record that was acknowledged is in the file and on the disk; one reported as not written never gets there;
 * - no state is a dead end (Spin's "invalid end state"): with TIMEOUTS=0, no wake-up is lost;
 * - with LIVENESS, every writer that lives returns, if each process that can take a step does so in the end.
 *
 * Every seeded bug is a name in an #if, and a line in spin_variants.py.  A bound, too, is set by -D. Not modelled:
 * power cuts, cutover, several threads in a process, memory that is not sequentially consistent.
 */

#ifndef WRITERS
#define WRITERS 2 /* with the area; 3 at most */
#endif
#ifndef RECORDS
#define RECORDS 1 /* of each of these */
#endif
#ifndef DIRECT_RECORDS
#define DIRECT_RECORDS 0 /* of a writer without the area */
#endif
#ifndef FOREIGN_RECORDS
#define FOREIGN_RECORDS 0 /* of another program */
#endif
#ifndef DEATHS
#define DEATHS 0 /* 2 at most */
#endif
#ifndef SYNC_ERRORS
#define SYNC_ERRORS 0
#endif
#ifndef DISK_FULLS
#define DISK_FULLS 0
#endif
#ifndef GROUP_MAX
#define GROUP_MAX WRITERS /* entries in a group, at most */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef GIVING_UP
#define GIVING_UP 0 /* a waiter that timed out may withdraw */
#endif
#ifndef LIMITS
#define LIMITS 0 /* how often a deputy times out while a thread of its own waits for the lock */
#endif

#ifndef STOPPED
#define STOPPED 0 /* a deputy that dies remains deputy, because it is only stopped; with VICTIM=deputy */
#endif
#ifndef DEATH_WHEN
#define DEATH_WHEN true /* with VICTIM=file_lock or VICTIM=deputy: the only one to die, while this holds */
#endif

#include "file.pml"
#include "note.pml"

#define DIRECT_RECORD BIT(WRITERS * RECORDS + count)

#if WITHDRAWN_BLINDLY
#define COMPARE_AND_WITHDRAW
#else
#define COMPARE_AND_WITHDRAW atomic
#endif

/* Staging ends with a full fence.  Without it, others see the entry only later. */
#if NO_FENCE
#define STAGING UNSEEN
#define BE_SEEN entry[me] = (entry[me] == UNSEEN -> STAGED : entry[me]);
#else
#define STAGING STAGED
#define BE_SEEN
#endif

byte deputy = NOBODY; /* a kernel lock too: released when its holder dies */
bool deputised; /* the hint that there is one, which saves asking the kernel; a death leaves it unchanged */
bool word_moved[WRITERS]; /* the wake word differs from the one that its owner read last */
bool asleep[WRITERS];

byte fulls_left = DISK_FULLS;
byte limits_left = LIMITS;
byte running = WRITERS + (DIRECT_RECORDS > 0) + (FOREIGN_RECORDS > 0);

chan kill = [0] of { byte };

/* The kernel's part when a process dies.  One that is stopped while it waits for the lock never gets it, but remains
 * deputy. */
inline free_locks()
{
    file_lock = (file_lock == me -> NOBODY : file_lock);
#if !STOPPED
    deputy = (deputy == me -> NOBODY : deputy);
#endif
    running--
}

inline commit_entries()
{
    write_note();
    if
    :: true ->
#if SLOTTED_EARLY
        note_state = SLOTTED;
#endif
        write_data(group);
        write_slot(group);
        note_state = SLOTTED;
#if MARKED_BEFORE_SYNC
        mark(taken, TAKEN, DONE);
#endif
        sync();
        if
        :: failed -> write_poison(); note_state = FAILED; mark(taken, TAKEN, FAILED); clear_note()
        :: else ->
            publish();
            note_state = CONFIRMED;
#if NOTE_CLEARED_EARLY
            clear_note();
#endif
#if !MARKED_AFTER_UNLOCK
            mark(taken, TAKEN, DONE);
            clear_note()
#endif
        fi
    :: fulls_left > 0 -> fulls_left--; mark(taken, TAKEN, FULL); clear_note()
    fi
}

/* Under the file's lock. */
inline lead()
{
#if RESOLVED_BEFORE_ROLLING
    resolve_note();
#endif
    adopt();
#if !RESOLVED_AFTER_GATHERING
    resolve_note();
#endif
    if
    :: poison -> mark(ALL_WRITERS, STAGED, FAILED)
    :: else ->
        gather();
#if RESOLVED_AFTER_GATHERING
        resolve_note();
#endif
        if
        :: taken != 0 -> commit_entries()
        :: else
        fi
    fi
}

inline unlock_file()
{
    d_step {
        file_lock = NOBODY;
        group = 0;
#if !MARKED_AFTER_UNLOCK
        taken = 0
#endif
    }
}

#define READ_WORD word_moved[me] = false

inline wake(who)
{
    d_step {
#if !WOKEN_WITHOUT_RAISING
        word_moved[who] = true;
#endif
        asleep[who] = false
    }
}

inline wake_resolved()
{
    resolved = resolved & ~BIT(me);
    do
    :: resolved != 0 -> d_step { wake(FIRST(resolved)); resolved = resolved & ~BIT(FIRST(resolved)) }
    :: else -> break
    od
}

/* A deputy whose own entry was resolved meanwhile does not lead; it wakes those that relied on it, which have staged. */
inline pass_on()
{
    unlock_file();
#if !PASSED_ON_SILENTLY
    resolved = IN_STATE(STAGED);
    wake_resolved()
#endif
}

#define RESOLVED (entry[me] != STAGED && entry[me] != TAKEN && entry[me] != UNSEEN)

/* Only a STAGED entry may be withdrawn: the record of a TAKEN one is being written. */
inline give_up()
{
    COMPARE_AND_WITHDRAW {
        if
        :: entry[me] == STAGED -> entry[me] = WITHDRAWN
        :: else
        fi
    }
}

/* A deputy times out.  Its thread is cancelled without the lock; one that got it meanwhile leads.  Others relied on a
 * deputy: those that have staged. */
inline withdraw_deputy()
{
#if LOCK_LEFT_BY_CANCELLED
    file_lock = (file_lock == NOBODY -> me : file_lock);
#endif
#if !HINT_LEFT_BY_WITHDRAWN
    deputised = false;
#endif
#if !DEPUTY_LEFT_BY_WITHDRAWN
    deputy = NOBODY;
#endif
#if !WITHDRAWN_SILENTLY
    resolved = IN_STATE(STAGED);
    wake_resolved();
#endif
    give_up()
}

/* Wake those that were resolved.  Then, because a deputy may have died: if anything is staged and there is no deputy,
 * wake the owner of an entry, to become one. */
inline after_unlock()
{
#if MARKED_AFTER_UNLOCK
    mark(taken, TAKEN, DONE);
    taken = 0;
#endif
    wake_resolved();
#if !NOT_LOOKED_AGAIN
    left = ALL_WRITERS;
    do
    :: left != 0 && entry[FIRST(left)] != STAGED -> left = left & ~BIT(FIRST(left))
    :: else -> break
    od;
    if
#if DEPUTY_PROBED_BY_LOCKING
    :: atomic { left != 0 && deputy == NOBODY -> deputy = me }; deputy = NOBODY; wake(FIRST(left))
#else
    :: left != 0 && deputy == NOBODY -> wake(FIRST(left))
#endif
    :: else
    fi;
    left = 0
#endif
}

/* futex(2): the kernel compares the word and puts its owner to sleep in one step. */
inline sleep()
{
    if
    :: word_moved[me]
    :: atomic { !word_moved[me] -> asleep[me] = true };
        if
        :: !asleep[me] -> doubted = false
#if TIMEOUTS
        :: atomic { asleep[me] -> asleep[me] = false; doubted = true }
#if GIVING_UP
        :: atomic { asleep[me] -> asleep[me] = false }; give_up()
#endif
#endif
        fi
    fi
}

inline tell()
{
    d_step {
        if
        :: entry[me] == DONE -> assert(published & durable & RECORD(me))
        :: entry[me] == FULL || entry[me] == WITHDRAWN ->
            assert(!(published & RECORD(me)));
            told_unwritten = told_unwritten | RECORD(me)
        :: else
        fi;
        entry[me] = FREE;
        staged[me]++
    }
}

proctype Writer(byte me)
{
    byte i, left, room, taken, resolved;
    int group;
    mtype verdict;
    bool failed;
    bool doubted; /* a wait timed out: the deputy that the hint announces may be dead */

    {
        do
        :: atomic { staged[me] < RECORDS -> entry[me] = STAGING };
            if
            :: atomic { file_lock == NOBODY -> file_lock = me }; goto leads
            :: true
            fi;
look:
#if !WORD_READ_AFTER_LOOKING && !WORD_READ_AFTER_TRYING
            READ_WORD; /* first: a process that is woken for something that it did not see below does not go to sleep */
#endif
            if
            :: RESOLVED -> tell()
            :: else ->
#if WORD_READ_AFTER_LOOKING
                READ_WORD;
#endif
                if
#if NO_DEPUTY
                :: atomic { file_lock == NOBODY -> file_lock = me }
#else
#if HINT_BELIEVED
                :: atomic { !deputised && deputy == NOBODY -> deputy = me };
#else
#if !DEPUTY_WAITED_FOR
                :: atomic { doubted && file_lock == NOBODY -> file_lock = me }
#endif
                :: atomic { (doubted || !deputised) && deputy == NOBODY -> deputy = me };
#endif
                    deputised = true;
#if LIMITS
                    if
                    :: lock_file()
                    :: atomic { limits_left > 0 -> limits_left-- }; withdraw_deputy(); goto look
                    fi;
#else
                    lock_file();
#endif
#if !DEPUTY_KEPT
                    deputised = false;
                    deputy = NOBODY;
#endif
                    if
                    :: RESOLVED -> pass_on(); goto look
                    :: else
                    fi
#endif
                :: else ->
                    BE_SEEN
#if WORD_READ_AFTER_TRYING
                    READ_WORD;
                    if
                    :: RESOLVED -> goto look
                    :: else
                    fi;
#endif
                    sleep();
                    goto look
                fi;
leads:
                BE_SEEN
                lead();
                unlock_file();
                after_unlock();
#if DEPUTY_KEPT
                deputised = false;
                deputy = (deputy == me -> NOBODY : deputy);
#endif
                goto look
            fi
        :: else -> break
        od;
        running--
    } unless {
        atomic {
            kill ? eval(me) -> free_locks();
            i = 0; left = 0; room = 0; taken = 0; resolved = 0; group = 0; verdict = 0 /* fewer states */
        }
    }
}

/* A writer that does not see the area. */
proctype Direct(byte me)
{
    byte count;
    bool failed;

    {
        do
        :: count < DIRECT_RECORDS ->
            lock_file();
            adopt();
            if
            :: poison
            :: else ->
                write_data(DIRECT_RECORD);
                write_slot(DIRECT_RECORD);
                sync();
                publish_or_poison();
                assert(failed || (published & durable & DIRECT_RECORD))
            fi;
            d_step { file_lock = NOBODY; failed = false; count++ }
        :: else -> break
        od;
        running--
    } unless { atomic { kill ? eval(me) -> free_locks(); count = 0 } }
}

/* Another program, which knows only the lock and the tail. */
proctype Foreign(byte me)
{
    byte count;

    {
        do
        :: count < FOREIGN_RECORDS ->
            lock_file();
            d_step { foreign_writing = true; after_tail = 0 };
            d_step { foreign_writing = false; foreign_tail = true };
            d_step { file_lock = NOBODY; count++ }
        :: else -> break
        od;
        running--
    } unless { atomic { kill ? eval(me) -> free_locks(); count = 0 } }
}

/* Kill one process, or none, between any two of its steps. */
inline end_a_life()
{
    if
#ifdef VICTIM
    :: atomic { VICTIM != NOBODY && DEATH_WHEN -> kill ! VICTIM }
#else
    :: kill ! 0
    :: kill ! 1
    :: kill ! 2
    :: kill ! 3
    :: kill ! 4
#endif
    :: true
    fi
}

proctype Killer()
{
end_first:
    end_a_life();
#if DEATHS > 1
end_second:
    end_a_life()
#endif
}

/* The page cache may drop a clean page at any time, and with it the bytes that a failed sync did not write. */
proctype Cache()
{
end_cache:
    do
    :: atomic { after_tail & ~(dirty | durable) -> after_tail = 0 }
    :: break
    od
}

init
{
    atomic { /* in this order there are fewer states */
        byte n;
#if DIRECT_RECORDS
        run Direct(WRITERS);
#endif
#if FOREIGN_RECORDS
        run Foreign(WRITERS + 1);
#endif
#if DEATHS
        run Killer();
#endif
#if SYNC_ERRORS
        run Cache();
#endif
        for (n : 0 .. WRITERS - 1) {
            run Writer(n)
        }
    }
}

#if LIVENESS
ltl all_return { <> (running == 0) }
#endif
