/* The shared-memory staging area of one directory: rings, and the leader's note.  See staging_area.c for the rules of access. */
#ifndef BINLOG_AREA_H
#define BINLOG_AREA_H

#include "binlog.h" /* first, because it asks for features that only Linux has */

#include <pthread.h>
#include <stdatomic.h>

#define RING_COUNT 64
#define RING_BYTES ((uint64_t)256 * 1024)
#define ENTRY_BYTES 32                       /* the size of an entry's fields; entries start at multiples of it */
#define PAYLOAD_BYTES_MAX (RING_BYTES / 4)   /* a larger record goes to the file directly */
#define LET_STAGE_NS ((int64_t)30 * 1000) /* the longest wait of a leader for the writers that it woke */
#define AREA_RINGS_AT ((uint64_t)32768)   /* the start of ring 0 */

enum entry_state { ENTRY_STAGED = 1, ENTRY_TAKEN, ENTRY_DONE, ENTRY_FAILED, ENTRY_UNKNOWN, ENTRY_WITHDRAWN, ENTRY_PAD };

struct entry {
    _Atomic uint32_t state;
    uint32_t bytes;           /* of payload: framed records, or the unused bytes of a pad */
    uint32_t record_count;           /* in the payload */
    uint32_t mode;            /* enum binlog_mode */
    _Atomic uint32_t awaited; /* the owner's: a thread will fetch the outcome */
    uint32_t number;          /* outcome: the file ... */
    uint64_t offset;          /* ... and the offset in it, or an errno and a step */
};

struct ring {
    _Alignas(64) _Atomic uint64_t head;   /* the owner's: every entry before it is completely staged */
    _Alignas(64) _Atomic uint64_t resolved; /* the leader's: every entry before it has its outcome */
    _Alignas(64) _Atomic uint32_t waiting; /* the owner's: it sleeps until its outcome is set */
};

struct note_range {
    uint32_t ring;
    uint32_t bytes; /* of the group, taken from this ring */
    uint64_t from, to;
};

struct note {
    _Atomic uint32_t state; /* enum binlog_note_state */
    uint32_t number;
    uint64_t counter;       /* of the commit slot, 0 for a group that is not confirmed */
    uint64_t offset, bytes; /* the group's place in the file */
    uint32_t nonce, crc;    /* of the slot; of the group's bytes */
    uint32_t range_count, unused;
    struct note_range ranges[RING_COUNT];
};

struct shared {
    _Atomic uint64_t magic; /* written last */
    uint64_t signature;     /* of this very layout */
    uint64_t device, inode;
    uint8_t uuid[16];
    uint64_t last_counter; /* the last commit of a group: file, counter, nonce */
    uint32_t last_number, last_nonce;
    _Atomic uint32_t failed_number; /* the file in which a write or sync failed, 0 for none */
    uint32_t failed_errno;
    _Atomic uint32_t ring_limit; /* no ring from here on was ever used */
    uint64_t recent_rings[2]; /* bit i: ring i had records in one of the last two synced groups */
    struct note note;
    /* The futex word of all waiters; it changes with each group that has outcomes.  A waiter in ring i waits for bit i % 32
     * (FUTEX_WAIT_BITSET), so that one call wakes the waiters of the group and hardly any others. */
    _Alignas(64) _Atomic uint32_t wake_seq;
    /* Hints that save a writer a system call; they may be out of date after a crash. */
    _Alignas(64) _Atomic uint32_t led;      /* a process leads */
    _Atomic uint32_t deputised; /* a waiter is deputy */
    struct ring rings[RING_COUNT];
};

_Static_assert(sizeof(struct entry) == ENTRY_BYTES, "entries start at multiples of their own size");
_Static_assert(sizeof(struct shared) <= AREA_RINGS_AT, "the rings begin after it");

/* This process's mapping of a staging area. */
struct binlog_area {
    int fd;
    int ring;    /* this writer's, -1 for none */
    int retired; /* this writer stages nothing more */
    uint32_t generation;          /* a forked child has another one, and no mapping */
    uint64_t serial;              /* of the descriptor */
    struct shared *shared;
    uint64_t free;                /* of our ring: memory before this offset may be overwritten */
    uint32_t next_ring;           /* the ring to gather first, round robin */
    pthread_mutex_t stage_mutex;  /* one thread of this writer stages at a time */
    uint64_t wake_rings;          /* bit i: a waiter in ring i has its outcome */
    uint64_t allocated;           /* bit i: the memory of ring i is allocated, and may be touched */
};

struct gathered {
    size_t bytes;
    uint32_t record_count;
    int sync;
    int more; /* the buffer is full, and records are left */
};

void note_prepare(struct note *note, uint64_t counter, uint32_t nonce);
void note_slotted(struct note *note);

int area_has_memory(struct binlog_area *area, uint32_t ring);
int64_t area_stage(struct binlog_area *area, const struct binlog_append *request, int awaited);
void area_gather(struct binlog_area *area, const struct binlog_file *file, int own_first,
                 struct gathered *gathered);
void area_place(struct binlog_area *area, uint64_t offset, uint32_t crc, size_t bytes);
void area_set_outcomes(struct binlog_area *area, int result, int step);
void area_requeue(struct binlog_area *area);
void area_wake_staged(struct binlog_area *area);
void area_wake(struct binlog_area *area);
void area_let_stage(const struct binlog_area *area, int has_request);
void area_remember(struct binlog_area *area, int synced);
uint64_t area_head(const struct binlog_area *area);
int area_is_resolved(const struct binlog_area *area, uint64_t head);
uint32_t area_wake_seq(const struct binlog_area *area);
int area_await(struct binlog_area *area, uint32_t seen, int64_t timeout_ns);
int area_withdraw(struct binlog_area *area, const struct binlog_append *request);
int64_t area_now_ns(void);

#endif
