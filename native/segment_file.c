/* A segment's life: made, joined, checked, left.  The file is opened, sized and named by Python.
 *
 * A segment belongs to one directory of one kernel: it names device, inode and the log's UUID together, for a copied
 * directory has the same UUID and a new one may get an old inode.  It carries a signature of its own layout, so that
 * processes with another version of this file never share it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "segment.h"

#define SEGMENT_MAGIC UINT64_C(0x42494E4C4F475348) /* "BINLOGSH" */

/* Every size and offset that another process must agree on, mixed into one number (FNV-1a). */
static uint64_t layout_signature(void)
{
    const uint64_t facts[] = {
        RING_COUNT, RING_BYTES, ENTRY_BYTES, SEGMENT_RINGS_AT, sizeof(struct shared), sizeof(struct ring),
        sizeof(struct note), sizeof(struct note_range), offsetof(struct shared, note), offsetof(struct shared, rings),
        offsetof(struct shared, turn), offsetof(struct ring, settled), offsetof(struct entry, offset),
        offsetof(struct note, ranges), ENTRY_PAD, 3 /* what the fields mean: raise it when that changes */,
    };
    uint64_t signature = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        signature = (signature ^ facts[i]) * UINT64_C(0x100000001B3);
    return signature;
}

int64_t binlog_segment_bytes(void)
{
    return (int64_t)(SEGMENT_RINGS_AT + RING_COUNT * RING_BYTES);
}

/* What must be allocated before the segment is used at all. */
int64_t binlog_segment_header_bytes(void)
{
    return (int64_t)SEGMENT_RINGS_AT;
}

/* The index of our ring, -1 for none. */
int binlog_segment_ring(const struct binlog_segment *segment)
{
    return segment->ring;
}

/* NULL with `result` where it cannot be mapped, or is shorter than it must be. */
struct binlog_segment *binlog_segment_map(int fd, int *result)
{
    struct stat status;
    struct binlog_segment *segment;
    *result = -EINVAL;
    if (fstat(fd, &status) != 0 || status.st_size < binlog_segment_bytes())
        return NULL;
    *result = -ENOMEM;
    if (!(segment = calloc(1, sizeof *segment)))
        return NULL;
    void *base = mmap(NULL, (size_t)binlog_segment_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    /* A forked child has no ring: it must not reach its parent's. */
    if (base == MAP_FAILED || madvise(base, (size_t)binlog_segment_bytes(), MADV_DONTFORK) != 0) {
        *result = -errno;
        if (base != MAP_FAILED)
            munmap(base, (size_t)binlog_segment_bytes());
        free(segment);
        return NULL;
    }
    segment->fd = fd;
    segment->ring = -1;
    segment->generation = binlog_fork_generation();
    segment->shared = base;
    pthread_mutex_init(&segment->stage_mutex, NULL);
    *result = 0;
    return segment;
}

void binlog_segment_unmap(struct binlog_segment *segment)
{
    munmap(segment->shared, (size_t)binlog_segment_bytes());
    free(segment);
}

/* Under the lock on BINLOG_LOCK_INIT, for a segment that nobody has finished making. */
int binlog_segment_init(struct binlog_segment *segment, uint64_t device, uint64_t inode, const uint8_t *uuid)
{
    struct shared *shared = segment->shared;
    memset(shared, 0, sizeof *shared);
    shared->signature = layout_signature();
    shared->device = device;
    shared->inode = inode;
    memcpy(shared->uuid, uuid, sizeof shared->uuid);
    atomic_store_explicit(&shared->magic, SEGMENT_MAGIC, memory_order_release);
    return 0;
}

/* 0 where it is this directory's; -ENOENT where nobody finished making it; -EPROTO where it is another's or of another
 * version. */
int binlog_segment_check(struct binlog_segment *segment, uint64_t device, uint64_t inode, const uint8_t *uuid)
{
    const struct shared *shared = segment->shared;
    uint64_t magic = atomic_load_explicit(&shared->magic, memory_order_acquire);
    if (magic == 0)
        return -ENOENT;
    if (magic != SEGMENT_MAGIC || shared->signature != layout_signature() || shared->device != device ||
        shared->inode != inode || memcmp(shared->uuid, uuid, sizeof shared->uuid) != 0)
        return -EPROTO;
    return 0;
}

/* Takes over a ring without an owner and with nothing left in it.  The caller holds the log file's lock, and has
 * drained the rings.  0; -EAGAIN where there is none; -ENOSPC where shared memory is full: touching what was not
 * allocated would kill the process (posix_fallocate(3), SIGBUS). */
int binlog_segment_claim(struct binlog_segment *segment)
{
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        struct ring *ring = &segment->shared->rings[i];
        if (binlog_byte_lock(segment->fd, BINLOG_LOCK_RING_FIRST + i) != 0)
            continue;
        int allocated = posix_fallocate(segment->fd, (off_t)(SEGMENT_RINGS_AT + i * RING_BYTES), (off_t)RING_BYTES);
        if (allocated != 0 || atomic_load(&ring->settled) != atomic_load(&ring->head)) {
            binlog_byte_unlock(segment->fd, BINLOG_LOCK_RING_FIRST + i);
            if (allocated != 0)
                return -allocated;
            continue;
        }
        atomic_store(&ring->settled, 0);
        atomic_store(&ring->head, 0);
        atomic_store(&ring->waiting, 0);
        segment->free = 0;
        if (atomic_load(&segment->shared->ring_limit) <= i)
            atomic_store(&segment->shared->ring_limit, i + 1);
        segment->ring = (int)i;
        return 0;
    }
    return -EAGAIN;
}

/* Gives our ring back; what is still staged in it is written by whoever leads next. */
void binlog_segment_release(struct binlog_segment *segment)
{
    if (segment->ring >= 0)
        binlog_byte_unlock(segment->fd, BINLOG_LOCK_RING_FIRST + segment->ring);
    segment->ring = -1;
}

/* Whether no other writer has a ring. */
int binlog_segment_alone(struct binlog_segment *segment)
{
    return binlog_bytes_locked(segment->fd, BINLOG_LOCK_RING_FIRST, RING_COUNT) == 0;
}

/* Bytes that are staged and have no outcome, in all rings. */
int64_t binlog_segment_staged(struct binlog_segment *segment)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        struct ring *ring = &segment->shared->rings[i];
        uint64_t settled = atomic_load(&ring->settled);
        uint64_t staged = atomic_load(&ring->head) - settled;
        if (staged <= RING_BYTES) /* more makes no sense: nobody will ever gather that */
            bytes += (int64_t)staged;
    }
    return bytes;
}

/* What a leader that died was doing. */
void binlog_segment_note(struct binlog_segment *segment, struct binlog_note *note)
{
    const struct note *shared = &segment->shared->note;
    note->state = (int)atomic_load_explicit(&shared->state, memory_order_acquire);
    note->number = shared->number;
    note->nonce = shared->nonce;
    note->crc = shared->crc;
    note->counter = shared->counter;
    note->offset = shared->offset;
    note->bytes = shared->bytes;
    note->last_counter = segment->shared->last_counter;
    note->last_number = segment->shared->last_number;
    note->last_nonce = segment->shared->last_nonce;
}

/* Under the log file's lock: 0, its group is in the file; 1, it is not, and is staged again; -ETIMEDOUT: nobody knows. */
void binlog_segment_resolve(struct binlog_segment *segment, int outcome)
{
    if (outcome > 0)
        segment_requeue(segment);
    else
        segment_settle(segment, outcome, 0);
}

/* Wakes those who have their outcome by now.  After the unlock. */
void binlog_segment_wake(struct binlog_segment *segment)
{
    segment_wake(segment);
}

/* Tells every process that a write or sync failed in the file.  Under its lock. */
void binlog_segment_fail(struct binlog_segment *segment, uint32_t number, int error)
{
    segment->shared->failed_errno = (uint32_t)error;
    atomic_store(&segment->shared->failed_number, number);
}

/* The errno of a write or sync that failed in the file, 0 for none: what the file says of itself could not be written
 * where the disk takes no writes any more. */
int binlog_segment_failed(struct binlog_segment *segment, uint32_t number)
{
    return atomic_load(&segment->shared->failed_number) == number ? (int)segment->shared->failed_errno : 0;
}

/* Under the log file's lock: the file that failed was sealed, or closed and that written again. */
void binlog_segment_forgive(struct binlog_segment *segment)
{
    atomic_store(&segment->shared->failed_number, 0);
}
