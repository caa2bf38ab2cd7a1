/* The shared-memory staging area of one directory: rings, and the leader's note.  See staging_area.c for who may write what. */
#ifndef BINLOG_AREA_H
#define BINLOG_AREA_H

#include "binlog.h" /* first, for it asks for what only Linux has */

#include <pthread.h>
#include <stdatomic.h>

#define RING_COUNT 64
#define RING_BYTES ((uint64_t)256 * 1024)
#define ENTRY_BYTES 32                       /* an entry's own fields; entries start at multiples of it */
#define PAYLOAD_BYTES_MAX (RING_BYTES / 4)   /* what is larger goes to the file directly */
#define LET_STAGE_NS ((int64_t)30 * 1000) /* a leader waits so long at most for those it woke */
#define AREA_RINGS_AT ((uint64_t)32768)   /* where ring 0 begins */

enum entry_state { ENTRY_STAGED = 1, ENTRY_TAKEN, ENTRY_DONE, ENTRY_FAILED, ENTRY_UNKNOWN, ENTRY_WITHDRAWN, ENTRY_PAD };

struct entry {
    _Atomic uint32_t state;
    uint32_t bytes;           /* of payload: framed records, or what a pad leaves unused */
    uint32_t units;           /* records in it */
    uint32_t mode;            /* enum binlog_mode */
    _Atomic uint32_t awaited; /* the owner's: somebody will fetch the outcome */
    uint32_t number;          /* outcome: the file ... */
    uint64_t offset;          /* ... and where in it, or an errno and a step */
};

struct ring {
    _Alignas(64) _Atomic uint64_t head;   /* the owner's: everything before it is staged, completely */
    _Alignas(64) _Atomic uint64_t settled; /* the leader's: every entry before it has its outcome */
    _Alignas(64) _Atomic uint32_t waiting; /* the owner's: it sleeps until its outcome is there */
};

struct note_range {
    uint32_t ring;
    uint32_t bytes; /* of the group, that were taken from here */
    uint64_t from, to;
};

struct note {
    _Atomic uint32_t state; /* enum binlog_note_state */
    uint32_t number;
    uint64_t counter;       /* of the commit slot, 0 for a group that is not confirmed */
    uint64_t offset, bytes; /* where the group goes */
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
    uint64_t recent_rings[2]; /* bit i: ring i had a part in one of the last two groups that were synced */
    struct note note;
    /* Futex word of all that wait for an outcome; it moves with each turn that has one.  Who waits in ring i waits for
     * bit i % 32 (FUTEX_WAIT_BITSET), so that one call wakes those whom it concerns and hardly any others. */
    _Alignas(64) _Atomic uint32_t turn;
    /* Hints that spare a writer asking the kernel, and may be out of date where somebody died. */
    _Alignas(64) _Atomic uint32_t led;      /* somebody leads */
    _Atomic uint32_t deputised; /* somebody is deputy */
    struct ring rings[RING_COUNT];
};

_Static_assert(sizeof(struct entry) == ENTRY_BYTES, "entries start at multiples of their own size");
_Static_assert(sizeof(struct shared) <= AREA_RINGS_AT, "the rings begin after it");

/* This process's hold on a staging area. */
struct binlog_area {
    int fd;
    int ring;    /* ours, -1 for none */
    int retired; /* nothing more is staged here */
    uint32_t generation;          /* a forked child has another one, and no mapping */
    uint64_t serial;              /* of the descriptor */
    struct shared *shared;
    uint64_t free;                /* of our ring: what lies before may be overwritten */
    uint32_t next_ring;           /* where gathering starts, in turn */
    pthread_mutex_t stage_mutex;  /* one thread of ours stages at a time */
    uint64_t wake_rings;          /* bit i: somebody waits in ring i for an outcome that is there now */
    uint64_t allocated;           /* bit i: ring i is known to have its memory, and may be touched */
};

struct gathered {
    size_t bytes;
    uint32_t units;
    int sync;
    int more; /* the buffer is full, and there is more */
};

void note_prepare(struct note *note, uint64_t counter, uint32_t nonce);
void note_slotted(struct note *note);

int area_has_memory(struct binlog_area *area, uint32_t ring);
int64_t area_stage(struct binlog_area *area, const struct binlog_append *request, int awaited);
void area_gather(struct binlog_area *area, const struct binlog_file *file, int own_first,
                    struct gathered *gathered);
void area_place(struct binlog_area *area, uint64_t offset, uint32_t crc, size_t bytes);
void area_settle(struct binlog_area *area, int result, int step);
void area_requeue(struct binlog_area *area);
void area_wake_staged(struct binlog_area *area);
void area_wake(struct binlog_area *area);
void area_let_stage(const struct binlog_area *area, int own);
void area_remember(struct binlog_area *area, int synced);
uint32_t area_turn(const struct binlog_area *area);
int area_await(struct binlog_area *area, uint32_t seen, int64_t timeout_ns);
int area_withdraw(struct binlog_area *area, const struct binlog_append *request);
int64_t area_now_ns(void);

#endif
