/* The life of a staging area: creating, joining, checking and leaving it.  Python opens, sizes and names the file.
 *
 * Touching a page of shared memory that was never allocated allocates it, and raises SIGBUS if there is no room (tmpfs(5)).  So
 * memory is mapped and a ring is touched only after fallocate(2) has returned 0 for it, which is fast if the memory is allocated
 * already.  A process that only inspects a staging area reads it with pread(2), which allocates nothing.
 *
 * A staging area belongs to one directory of one kernel.  It names the device, the inode and the log's UUID, because a copied
 * directory has the same UUID, and a new one may get an old inode.  It carries a signature of its own layout, so that processes
 * with another version of this file never share it.
 */
#include "staging_area.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AREA_MAGIC UINT64_C(0x42494E4C4F475348) /* "BINLOGSH" */

/* Hashes every size and offset that another process must agree on into one number (FNV-1a). */
static uint64_t layout_signature(void)
{
    const uint64_t facts[] = {
        RING_COUNT, RING_BYTES, ENTRY_BYTES, AREA_RINGS_AT, sizeof(struct shared), sizeof(struct ring),
        sizeof(struct note), sizeof(struct note_range), offsetof(struct shared, note), offsetof(struct shared, rings),
        offsetof(struct shared, wake_seq), offsetof(struct ring, resolved), offsetof(struct entry, offset),
        offsetof(struct note, ranges), ENTRY_PAD, 3 /* the meaning of the fields: raise it when that changes */,
    };
    uint64_t signature = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        signature = (signature ^ facts[i]) * UINT64_C(0x100000001B3);
    return signature;
}

int64_t binlog_area_bytes(void)
{
    return (int64_t)(AREA_RINGS_AT + RING_COUNT * RING_BYTES);
}

/* 0 if the bytes are allocated; -ENOSPC if shared memory is full.  The C library's posix_fallocate would emulate the call on a
 * file system that lacks it, and could overwrite a concurrent store of another process. */
static int allocate(int fd, uint64_t start, uint64_t bytes)
{
    int result;
    do
        result = fallocate(fd, 0, (off_t)start, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : -errno;
}

/* Writes the header of a staging area that no other process can find yet.  0 or -errno. */
int binlog_area_make(int fd, uint64_t device, uint64_t inode, const uint8_t *uuid)
{
    struct shared *shared = aligned_alloc(_Alignof(struct shared), AREA_RINGS_AT);
    if (!shared)
        return -ENOMEM;
    memset(shared, 0, AREA_RINGS_AT);
    shared->signature = layout_signature();
    shared->device = device;
    shared->inode = inode;
    memcpy(shared->uuid, uuid, sizeof shared->uuid);
    shared->magic = AREA_MAGIC;
    int result = ftruncate(fd, (off_t)binlog_area_bytes()) == 0 ? 0 : -errno;
    if (result == 0)
        result = binlog_write(fd, (const uint8_t *)shared, AREA_RINGS_AT, 0);
    free(shared);
    return result;
}

/* Copies the header without touching the memory.  0; -EPROTO for another size; or -errno. */
static int read_shared(int fd, struct shared *shared)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (status.st_size != binlog_area_bytes())
        return -EPROTO;
    ssize_t got = pread(fd, shared, sizeof *shared, 0);
    if (got < 0)
        return -errno;
    return (size_t)got == sizeof *shared ? 0 : -EPROTO;
}

/* 0 if it is this directory's; -EPROTO if it is another's, of another version, or was never finished. */
int binlog_area_check(int fd, uint64_t device, uint64_t inode, const uint8_t *uuid)
{
    struct shared shared;
    int result = read_shared(fd, &shared);
    if (result != 0)
        return result;
    if (shared.magic != AREA_MAGIC || shared.signature != layout_signature() || shared.device != device ||
        shared.inode != inode || memcmp(shared.uuid, uuid, sizeof shared.uuid) != 0)
        return -EPROTO;
    return 0;
}

/* Bytes that are staged and have no outcome, in all rings. */
static int64_t staged_bytes(const struct shared *shared)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        uint64_t resolved = atomic_load(&shared->rings[i].resolved);
        uint64_t staged = atomic_load(&shared->rings[i].head) - resolved;
        if (staged <= RING_BYTES) /* more is invalid: no leader will ever gather it */
            bytes += (int64_t)staged;
    }
    return bytes;
}

/* As staged_bytes, for a staging area that is not joined; -EPROTO for another size, or -errno. */
int64_t binlog_area_staged_in(int fd)
{
    struct shared shared;
    int result = read_shared(fd, &shared);
    return result != 0 ? result : staged_bytes(&shared);
}

/* The index of this writer's ring, -1 for none. */
int binlog_area_ring(const struct binlog_area *area)
{
    return area->ring;
}

/* Maps a staging area that was checked.  NULL with `result` if that fails, or if its header is not allocated. */
struct binlog_area *binlog_area_map(int fd, int *result)
{
    struct binlog_area *area;
    if ((*result = allocate(fd, 0, AREA_RINGS_AT)) != 0)
        return NULL;
    *result = -ENOMEM;
    if (!(area = calloc(1, sizeof *area)))
        return NULL;
    void *base = mmap(NULL, (size_t)binlog_area_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    /* A forked child has no ring, and must not reach its parent's. */
    if (base == MAP_FAILED || madvise(base, (size_t)binlog_area_bytes(), MADV_DONTFORK) != 0) {
        *result = -errno;
        if (base != MAP_FAILED)
            munmap(base, (size_t)binlog_area_bytes());
        free(area);
        return NULL;
    }
    area->fd = fd;
    area->ring = -1;
    area->generation = binlog_fork_generation();
    area->serial = binlog_fd_serial(fd);
    area->shared = base;
    pthread_mutex_init(&area->stage_mutex, NULL);
    *result = 0;
    return area;
}

void binlog_area_unmap(struct binlog_area *area)
{
    if (area->generation == binlog_fork_generation()) /* otherwise the child has neither the mapping nor the descriptor */
        munmap(area->shared, (size_t)binlog_area_bytes());
    binlog_fd_close_serial(area->fd, area->serial); /* which releases every lock */
    free(area);
}

/* Whether a ring's memory is allocated, so that it may be touched; the header's fields are no proof of that. */
int area_has_memory(struct binlog_area *area, uint32_t ring)
{
    uint64_t bit = (uint64_t)1 << ring;
    if (!(area->allocated & bit) && allocate(area->fd, AREA_RINGS_AT + ring * RING_BYTES, RING_BYTES) == 0)
        area->allocated |= bit;
    return (area->allocated & bit) != 0;
}

/* Claims an empty ring without an owner.  The caller holds the log file's lock, and has drained the rings.  0; -EAGAIN if there
 * is none; -ENOSPC if shared memory is full. */
int binlog_area_claim(struct binlog_area *area)
{
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        struct ring *ring = &area->shared->rings[i];
        if (binlog_byte_lock(area->fd, BINLOG_LOCK_RING_FIRST + i) != 0)
            continue;
        int allocated = area_has_memory(area, i);
        if (!allocated || atomic_load(&ring->resolved) != atomic_load(&ring->head)) {
            binlog_byte_unlock(area->fd, BINLOG_LOCK_RING_FIRST + i);
            if (!allocated)
                return -ENOSPC;
            continue;
        }
        atomic_store(&ring->resolved, 0);
        atomic_store(&ring->head, 0);
        atomic_store(&ring->waiting, 0);
        area->free = 0;
        if (atomic_load(&area->shared->ring_limit) <= i)
            atomic_store(&area->shared->ring_limit, i + 1);
        area->ring = (int)i;
        return 0;
    }
    return -EAGAIN;
}

/* Releases this writer's ring; the next leader commits the records still staged in it. */
void binlog_area_release(struct binlog_area *area)
{
    if (area->ring >= 0)
        binlog_byte_unlock(area->fd, BINLOG_LOCK_RING_FIRST + area->ring);
    area->ring = -1;
}

/* Whether no other writer has a ring. */
int binlog_area_alone(int fd)
{
    return binlog_bytes_locked(fd, BINLOG_LOCK_RING_FIRST, RING_COUNT) == 0;
}

int64_t binlog_area_staged(struct binlog_area *area)
{
    return staged_bytes(area->shared);
}

/* Copies the note of a dead leader. */
void binlog_area_note(struct binlog_area *area, struct binlog_note *note)
{
    const struct note *shared = &area->shared->note;
    note->state = (int)atomic_load_explicit(&shared->state, memory_order_acquire);
    note->number = shared->number;
    note->nonce = shared->nonce;
    note->crc = shared->crc;
    note->counter = shared->counter;
    note->offset = shared->offset;
    note->bytes = shared->bytes;
    note->last_counter = area->shared->last_counter;
    note->last_number = area->shared->last_number;
    note->last_nonce = area->shared->last_nonce;
}

/* Under the log file's lock.  0: the group is in the file.  1: it is not, and is staged again.  -ETIMEDOUT: it is unknown. */
void binlog_area_resolve(struct binlog_area *area, int outcome)
{
    if (outcome > 0)
        area_requeue(area);
    else
        area_set_outcomes(area, outcome, 0);
}

/* Wakes the waiters that have their outcome.  After the unlock. */
void binlog_area_wake(struct binlog_area *area)
{
    area_wake(area);
}

/* Reports to every process that a write or sync failed in the file.  Under its lock. */
void binlog_area_fail(struct binlog_area *area, uint32_t number, int error)
{
    area->shared->failed_errno = (uint32_t)error;
    atomic_store(&area->shared->failed_number, number);
}

/* The errno of a write or sync that failed in the file, 0 for none.  A disk that takes no writes cannot keep the poison flag in
 * the file. */
int binlog_area_failed(struct binlog_area *area, uint32_t number)
{
    return atomic_load(&area->shared->failed_number) == number ? (int)area->shared->failed_errno : 0;
}

/* Under the log file's lock: the failed file was closed, or its close was written again. */
void binlog_area_forgive(struct binlog_area *area)
{
    atomic_store(&area->shared->failed_number, 0);
}
