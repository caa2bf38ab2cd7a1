/* A staging area's life: made, joined, checked, left.  Python opens, sizes and names the file.
 *
 * Touching a page of shared memory that was never allocated allocates it, and is SIGBUS if there is no room (tmpfs(5)).
 * So memory is mapped and a ring is touched only after fallocate(2) has returned 0 for it, which it also does, and at
 * once, for what is allocated already.  Whatever only looks at a staging area reads it with pread(2), which allocates nothing.
 *
 * A staging area belongs to one directory of one kernel: it names device, inode and the log's UUID together, for a copied
 * directory has the same UUID and a new one may get an old inode.  It carries a signature of its own layout, so that
 * processes with another version of this file never share it.
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

/* Every size and offset that another process must agree on, mixed into one number (FNV-1a). */
static uint64_t layout_signature(void)
{
    const uint64_t facts[] = {
        RING_COUNT, RING_BYTES, ENTRY_BYTES, AREA_RINGS_AT, sizeof(struct shared), sizeof(struct ring),
        sizeof(struct note), sizeof(struct note_range), offsetof(struct shared, note), offsetof(struct shared, rings),
        offsetof(struct shared, turn), offsetof(struct ring, settled), offsetof(struct entry, offset),
        offsetof(struct note, ranges), ENTRY_PAD, 3 /* what the fields mean: raise it when that changes */,
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

/* 0 once the bytes are allocated; -ENOSPC if shared memory is full.  The C library's posix_fallocate would emulate the
 * call where a file system lacks it, and could overwrite what another process stores meanwhile. */
static int allocate(int fd, uint64_t start, uint64_t bytes)
{
    int result;
    do
        result = fallocate(fd, 0, (off_t)start, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : -errno;
}

/* Writes the header of a staging area that nobody can find yet.  0 or -errno. */
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

/* A copy of the header, read without touching the memory.  0; -EPROTO for another size; or -errno. */
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

/* 0 where it is this directory's; -EPROTO where it is another's, of another version, or was never finished. */
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
        uint64_t settled = atomic_load(&shared->rings[i].settled);
        uint64_t staged = atomic_load(&shared->rings[i].head) - settled;
        if (staged <= RING_BYTES) /* more makes no sense: nobody will ever gather that */
            bytes += (int64_t)staged;
    }
    return bytes;
}

/* The same of a staging area that is not joined; -EPROTO for another size, or -errno. */
int64_t binlog_area_staged_in(int fd)
{
    struct shared shared;
    int result = read_shared(fd, &shared);
    return result != 0 ? result : staged_bytes(&shared);
}

/* The index of our ring, -1 for none. */
int binlog_area_ring(const struct binlog_area *area)
{
    return area->ring;
}

/* Maps a staging area that was checked.  NULL with `result` where that cannot be, or its header is not allocated. */
struct binlog_area *binlog_area_map(int fd, int *result)
{
    struct binlog_area *area;
    if ((*result = allocate(fd, 0, AREA_RINGS_AT)) != 0)
        return NULL;
    *result = -ENOMEM;
    if (!(area = calloc(1, sizeof *area)))
        return NULL;
    void *base = mmap(NULL, (size_t)binlog_area_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    /* A forked child has no ring: it must not reach its parent's. */
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
    if (area->generation == binlog_fork_generation()) /* else it is not there, nor is the descriptor */
        munmap(area->shared, (size_t)binlog_area_bytes());
    binlog_fd_close_serial(area->fd, area->serial); /* which gives back every lock */
    free(area);
}

/* Whether a ring's memory is allocated, so that it may be touched; what the header says of a ring is no proof of that. */
int area_has_memory(struct binlog_area *area, uint32_t ring)
{
    uint64_t bit = (uint64_t)1 << ring;
    if (!(area->allocated & bit) && allocate(area->fd, AREA_RINGS_AT + ring * RING_BYTES, RING_BYTES) == 0)
        area->allocated |= bit;
    return (area->allocated & bit) != 0;
}

/* Takes over a ring without an owner and with nothing left in it.  The caller holds the log file's lock, and has
 * drained the rings.  0; -EAGAIN where there is none; -ENOSPC where shared memory is full. */
int binlog_area_claim(struct binlog_area *area)
{
    for (uint32_t i = 0; i < RING_COUNT; i++) {
        struct ring *ring = &area->shared->rings[i];
        if (binlog_byte_lock(area->fd, BINLOG_LOCK_RING_FIRST + i) != 0)
            continue;
        int allocated = area_has_memory(area, i);
        if (!allocated || atomic_load(&ring->settled) != atomic_load(&ring->head)) {
            binlog_byte_unlock(area->fd, BINLOG_LOCK_RING_FIRST + i);
            if (!allocated)
                return -ENOSPC;
            continue;
        }
        atomic_store(&ring->settled, 0);
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

/* Gives our ring back; what is still staged in it is written by whoever leads next. */
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

/* What a leader that died was doing. */
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

/* Under the log file's lock: 0, its group is in the file; 1, it is not, and is staged again; -ETIMEDOUT: nobody knows. */
void binlog_area_resolve(struct binlog_area *area, int outcome)
{
    if (outcome > 0)
        area_requeue(area);
    else
        area_settle(area, outcome, 0);
}

/* Wakes those who have their outcome by now.  After the unlock. */
void binlog_area_wake(struct binlog_area *area)
{
    area_wake(area);
}

/* Tells every process that a write or sync failed in the file.  Under its lock. */
void binlog_area_fail(struct binlog_area *area, uint32_t number, int error)
{
    area->shared->failed_errno = (uint32_t)error;
    atomic_store(&area->shared->failed_number, number);
}

/* The errno of a write or sync that failed in the file, 0 for none: what the file says of itself could not be written
 * where the disk takes no writes any more. */
int binlog_area_failed(struct binlog_area *area, uint32_t number)
{
    return atomic_load(&area->shared->failed_number) == number ? (int)area->shared->failed_errno : 0;
}

/* Under the log file's lock: the file that failed was sealed, or closed and that written again. */
void binlog_area_forgive(struct binlog_area *area)
{
    atomic_store(&area->shared->failed_number, 0);
}
