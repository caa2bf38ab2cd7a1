/*
 * The shared area: an entry for each writer, and the leader's note, which records the outcome of the entries that it
 * took.
 *
 * Only staging and withdrawing are done without the file's lock.  Between two holders of that lock an entry is TAKEN
 * only if the leader that took it died: after it wrote its note if the note is not IDLE, otherwise before.
 *
 * Used only by a writer, whose variables these inlines share: me, i, left, room, group, taken, resolved, verdict.
 */

mtype = { FREE, UNSEEN, STAGED, TAKEN, DONE, FAILED, UNKNOWN, FULL, WITHDRAWN };
mtype = { IDLE, PREPARED, SLOTTED, CONFIRMED };

mtype entry[WRITERS] = FREE;
byte staged[WRITERS]; /* the index of the record in a writer's entry */

mtype note_state = IDLE;
byte note_counter;
byte note_nonce;
byte note_entries;

/* Sets of writers are words with one bit a writer. */
#define BIT(n) (1 << (n))
#define ALL_WRITERS (BIT(WRITERS) - 1)
#define FIRST(set) (((set) & 1) -> 0 : (((set) & 2) -> 1 : 2))
#define RECORD(w) BIT((w) * RECORDS + staged[w])

/* The writers whose entries are in a state. */
#define IF_IN(w, state) (w < WRITERS && entry[(w) % WRITERS] == state -> BIT(w) : 0)
#define IN_STATE(state) (IF_IN(0, state) | IF_IN(1, state) | IF_IN(2, state))

#if REQUEUE_FORGOTTEN
#define QUEUED_AGAIN TAKEN
#else
#define QUEUED_AGAIN STAGED
#endif

#if MARKED_BLINDLY
#define TO_MARK(from, result) (result == DONE -> ALL_WRITERS : IN_STATE(from))
#else
#define TO_MARK(from, result) IN_STATE(from)
#endif

/* From `from` to `result`, by compare-and-swap.  If a leader died between two of these, some of its writers have
 * their outcome, and may have staged again. */
inline mark(set, from, result)
{
    left = (set) & TO_MARK(from, result); /* in one step: no other process takes, and entries staged from now on come
                                           * later */
    do
    :: d_step {
        left != 0 ->
        i = FIRST(left);
        left = left & ~BIT(i);
        if
        :: TO_MARK(from, result) & BIT(i) ->
            entry[i] = result;
            resolved = resolved | (result == QUEUED_AGAIN -> 0 : BIT(i))
        :: else
        fi;
        i = 0
    }
    :: else -> break
    od
}

/* Two or more commits went by, and the slot is gone.  The process that found it pending rolled it forward, unless
 * another program had overwritten its bytes; and a note that says PREPARED may be older than its slot. */
inline find_overtaken_verdict()
{
    if
#if SLOTTED_TRUSTED_WHEN_MIXED
    :: note_state == SLOTTED -> verdict = DONE
#else
    :: note_state == SLOTTED && !mixed -> verdict = DONE
#endif
#if OVERTAKEN_QUEUED_AGAIN
    :: else -> verdict = QUEUED_AGAIN
#elif OVERTAKEN_ACKNOWLEDGED
    :: else -> verdict = DONE
#else
    :: else -> verdict = UNKNOWN
#endif
    fi
}

/* The outcome of the entries in a dead leader's note, when no slot is pending. */
inline find_verdict()
{
    if
    :: note_state == CONFIRMED -> verdict = DONE
    :: note_state == FAILED -> verdict = FAILED
    :: note_state != CONFIRMED && note_state != FAILED && note_counter > confirmed ->
        verdict = (poison -> FAILED : QUEUED_AGAIN)
    :: else ->
        if
        :: slot_counter[note_counter & 1] != note_counter -> find_overtaken_verdict()
#if NONCE_IGNORED
        :: else -> verdict = DONE
#else
        :: else -> verdict = (slot_nonce[note_counter & 1] == note_nonce -> DONE : QUEUED_AGAIN)
#endif
        fi
    fi
}

/* Old fields mean nothing after the state is IDLE; clearing them saves states. */
inline clear_note()
{
    atomic {
        note_state = IDLE;
#if !NOTE_STATE_FIRST
        note_counter = 0; note_nonce = 0; note_entries = 0
#endif
    }
}

inline write_note()
{
#if NOTE_STATE_FIRST
    note_state = PREPARED;
#endif
    d_step { note_counter = confirmed + 1; note_nonce = me; note_entries = taken };
    note_state = PREPARED
}

inline resolve_note()
{
    if
    :: note_state != IDLE ->
        atomic { find_verdict() };
        mark(note_entries, TAKEN, verdict);
        clear_note();
        verdict = 0
    :: else
    fi;
#if !ORPHANS_LEFT
    mark(ALL_WRITERS, TAKEN, QUEUED_AGAIN) /* taken by a leader that died before it wrote the note */
#endif
}

#if TAKEN_BLINDLY
#define COMPARE_AND_SWAP
#else
#define COMPARE_AND_SWAP atomic
#endif

inline gather()
{
    d_step { left = ALL_WRITERS; room = GROUP_MAX };
    do
    :: left != 0 && room != 0 -> COMPARE_AND_SWAP {
        i = FIRST(left);
        left = left & ~BIT(i);
        if
        :: entry[i] == STAGED -> entry[i] = TAKEN; taken = taken | BIT(i); group = group | RECORD(i); room--
        :: else
        fi;
        i = 0
    }
    :: else -> break
    od;
    atomic { left = 0; room = 0 }
}
