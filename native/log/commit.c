/* One commit, from writing the data to ringing the doorbell, in one call.
 *
 * No Python runs in between, so neither a signal handler nor Ctrl-C can leave a commit half done: anything that ends it early
 * counts as the death of the process.  The caller holds the file's lock.
 *
 * The order (docs/durability.md): data; slot; sync; publish; in the strict order a second sync.  One sync covers data and slot,
 * and after a crash the slot's CRC of the group tells whether both are on the disk.  If nothing is to be confirmed, there is
 * neither slot nor sync.
 */
#include "commit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "big_endian.h"
#include "file_status.h"
#include "index.h"
#include "staging_area.h"

#define PREPARE_BYTES_FIRST ((uint64_t)1 << 20)
#define ZEROED_BYTES ((uint64_t)64 << 10)
#define PAGE_BYTES 4096

int binlog_write(int fd, const uint8_t *data, size_t bytes, int64_t offset)
{
    while (bytes > 0) {
        ssize_t written = pwrite(fd, data, bytes, offset);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (written == 0)
            return -ENOSPC; /* write(2) may return 0 for a full device; retrying would never end */
        data += written;
        bytes -= (size_t)written;
        offset += written;
    }
    return 0;
}

/* Reads the whole header, even if a signal interrupts a read: 0, -ENODATA if the file is shorter, or -errno. */
int commit_read_header(int fd, uint8_t *header)
{
    for (size_t done = 0; done < LOG_HEADER_BYTES;) {
        ssize_t bytes = pread(fd, header + done, LOG_HEADER_BYTES - done, (off_t)done);
        if (bytes < 0 && errno != EINTR)
            return -errno;
        if (bytes == 0)
            return -ENODATA;
        done += bytes > 0 ? (size_t)bytes : 0;
    }
    return 0;
}

/* A failed sync is never retried: the kernel may have dropped the dirty pages, and would report success (fsync(2)). */
static int sync_data(int fd)
{
    int result;
    do
        result = fdatasync(fd);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : -errno;
}

static int is_no_space(int result)
{
    return result == -ENOSPC || result == -EDQUOT || result == -EFBIG;
}

static int allocate(const struct binlog_file *file, uint64_t end)
{
    int result;
    do
        result = posix_fallocate(file->fd, (off_t)file->file_bytes, (off_t)(end - file->file_bytes));
    while (result == EINTR); /* fallocate(2) may be interrupted; it keeps the space allocated by then */
    return result;
}

/* Extends the file beyond `end`, in steps that grow with it, so that few syncs must record a new size. */
static int make_room(struct binlog_file *file, uint64_t tail, uint64_t end)
{
    int known, named;
    if (end <= file->file_bytes)
        return 0;
    if ((known = file_status(file->fd, &file->file_bytes, &named)) != 0)
        return known;
    if (end <= file->file_bytes)
        return 0;
    uint64_t step = tail < PREPARE_BYTES_FIRST ? PREPARE_BYTES_FIRST : tail;
    if (step > file->prepare_bytes)
        step = file->prepare_bytes;
    uint64_t reach = file->file_bytes + step < end ? end : file->file_bytes + step;
    int result = allocate(file, reach);
    if (result != 0 && reach > end) /* a nearly full disk, or a limit on the file's size, may have room for this group alone */
        result = allocate(file, end);
    if (result == 0 && file_status(file->fd, &file->file_bytes, &named) != 0)
        file->file_bytes = 0;
    return -result;
}

/* Writes zeros from the group to the end of its block of ZEROED_BYTES, if the group is the first to enter that block.
 *
 * The sync that first writes an allocated page must change the file's extents.  Zeros have that cost once a block, because they
 * go to the disk with the group, and the page reads as zeros anyway.  Large groups fill such pages themselves, and for a file of
 * one block it would not pay.
 */
static int write_ahead(const struct binlog_file *file, uint64_t start, uint64_t end)
{
    static const uint8_t zeros[ZEROED_BYTES];
    uint64_t from = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES, to = (end / ZEROED_BYTES + 1) * ZEROED_BYTES;
    if (start / ZEROED_BYTES == end / ZEROED_BYTES || end - start > ZEROED_BYTES / 2)
        return 0;
    if (to > file->file_bytes)
        to = file->file_bytes;
    int result = from < to ? binlog_write(file->fd, zeros, to - from, (int64_t)from) : 0;
    return is_no_space(result) ? 0 : result; /* the group itself may have room */
}

static uint64_t time_after(const struct binlog_file *file, const uint8_t *header, uint64_t counter)
{
    struct timespec now;
    struct slot last;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    /* Strictly increasing, even if the clock is set back. */
    if (slot_find(file, header, counter, &last) && last.time_ns >= time_ns)
        return last.time_ns + 1;
    return time_ns;
}

/* Distinguishes attempts at one counter.  Two attempts never share a nanosecond, because they hold the same lock.  The time is
 * mixed (splitmix64) with a seed of this process. */
static uint32_t new_nonce(uint64_t time_ns)
{
    static uint64_t seed;
    if (seed == 0 && getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uintptr_t)&seed;
    uint64_t mixed = seed ^ (time_ns + (uint64_t)getpid() * 0x9E3779B97F4A7C15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(mixed >> 32);
}

/* One write changes everything that readers see, and the doorbell is its last word.  So a reader that reads the doorbell, and the
 * tail in a later call, sees the tail that the doorbell announced. */
static int publish(const struct binlog_file *file, uint8_t *header, struct live *live, int *step)
{
    *step = BINLOG_STEP_PUBLISH;
    live->doorbell++;
    live_pack(file, header, live);
    put_u32(header + LOG_HEADER_DOORBELL, live->doorbell);
    return binlog_write(file->fd, header + LOG_HEADER_TAIL, PUBLISHED_BYTES, LOG_HEADER_TAIL);
}

static int confirm(struct binlog_file *file, uint8_t *header, struct live *live, struct note *note, int *step)
{
    uint8_t *bytes = header + slot_offset(live->confirmed_counter + 1);
    struct slot slot = {
        .counter = live->confirmed_counter + 1,
        .start = live->confirmed_end,
        .end = live->tail,
        .record_count = live->record_count,
        .time_ns = time_after(file, header, live->confirmed_counter),
        .group_crc = live->running_crc,
        .epoch = live->epoch,
    };
    int result;

    slot.nonce = new_nonce(slot.time_ns);
    slot_pack(file, bytes, &slot);
    note_prepare(note, slot.counter, slot.nonce);
    *step = BINLOG_STEP_SLOT;
    if ((result = binlog_write(file->fd, bytes, COMMIT_SLOT_BYTES, slot_offset(slot.counter))) != 0)
        return result;
    note_slotted(note);
    *step = BINLOG_STEP_SYNC;
    if ((result = sync_data(file->fd)) != 0)
        return result;
    live->confirmed_end = live->tail;
    live->confirmed_counter = slot.counter;
    live->running_crc = 0;
    file->counter = slot.counter;
    return 0;
}

/* Returns the CRC of the bytes with this CRC followed by the group. */
static uint32_t crc_with_group(uint32_t crc, const struct group *group)
{
    if (group->known_bytes > 0)
        crc = binlog_crc32c_rest(group->known_crc, crc, group->known_bytes);
    if (group->bytes == group->known_bytes)
        return crc;
    return binlog_crc32c(crc, group->data + group->known_bytes, group->bytes - group->known_bytes);
}

static int write_data(struct binlog_file *file, const struct group *group, uint64_t start)
{
    int result = make_room(file, start, start + group->bytes);
    if (result == 0 && group->sync)
        result = write_ahead(file, start, start + group->bytes);
    return result == 0 ? binlog_write(file->fd, group->data, group->bytes, (int64_t)start) : result;
}

static void count_group(struct binlog_counters *counters, const struct group *group, int synced)
{
    if (!counters)
        return;
    counters->groups += group->bytes > 0;
    counters->records += group->record_count;
    counters->syncs += (uint64_t)synced;
}

int commit_group(struct binlog_file *file, uint8_t *header, struct live *live, const struct group *group, int *step)
{
    uint64_t start = live->tail;
    struct index_commit indexed = {.group = group, .start = start, .count = live->record_count,
                                   .crc_before = live->running_crc};
    int result;

    if (group->bytes == 0 && (!group->sync || live->confirmed_end == live->tail))
        return 0;
    *step = BINLOG_STEP_DATA;
    if (!group->written && (result = write_data(file, group, start)) != 0)
        return result;
    live->tail = live->published_tail = start + group->bytes;
    live->record_count += group->record_count;
    live->running_crc = crc_with_group(live->running_crc, group);
    indexed.crc_after = live->running_crc;
    int strict = file->strict || (live->flags & (FLAG_FOREIGN_WRITERS | FLAG_STRICT)) != 0;
    if (strict)
        live->flags |= FLAG_STRICT;
    if (group->sync && live->confirmed_end < live->tail) {
        if ((result = confirm(file, header, live, group->note, step)) != 0)
            return result;
        indexed.confirmed = 1;
    }
    if (group->written) /* not earlier: after a failure, recovery must find the flag and resolve the batch */
        live->flags &= (uint16_t)~FLAG_INTENT;
    if ((result = publish(file, header, live, step)) != 0)
        return result;
    *step = BINLOG_STEP_PUBLISH_SYNC;
    if (group->sync && strict && (result = sync_data(file->fd)) != 0)
        return result;
    if (!group->written) /* Python writes the index, which needs the bytes */
        index_follow(file, live, &indexed);
    count_group(file->counters, group, indexed.confirmed != 0);
    return 0;
}

/* Whether the contents of the disk are unknown.  Before the slot nothing is announced, and bytes after the tail are ignored.  A
 * slot that could not be published for lack of space is rolled forward later. */
int commit_poisons(int result, int step)
{
    if (step == BINLOG_STEP_DATA || step == BINLOG_STEP_SLOT)
        return result == -EIO;
    return !(step == BINLOG_STEP_PUBLISH && is_no_space(result));
}

void commit_write_poison(const struct binlog_file *file, uint8_t *header, struct live *live, int number)
{
    live->flags |= FLAG_POISON;
    live->poison_errno = (uint16_t)number;
    live_pack(file, header, live);
    (void)binlog_write(file->fd, header + LOG_HEADER_TAIL, PUBLISHED_BYTES, LOG_HEADER_TAIL);
}

/* Appends in the classic order to a file that another program made, which has no fields for more: data, sync, tail, sync. */
int binlog_commit_foreign(int fd, const uint8_t *data, size_t bytes, int64_t offset, uint64_t tail, int *step)
{
    uint8_t tail_bytes[8];
    int result;

    *step = BINLOG_STEP_DATA;
    if ((result = binlog_write(fd, data, bytes, offset)) != 0)
        return result;
    *step = BINLOG_STEP_SYNC;
    if ((result = sync_data(fd)) != 0)
        return result;
    put_u64(tail_bytes, tail);
    *step = BINLOG_STEP_PUBLISH;
    if ((result = binlog_write(fd, tail_bytes, sizeof tail_bytes, LOG_HEADER_TAIL)) != 0)
        return result;
    *step = BINLOG_STEP_PUBLISH_SYNC;
    return sync_data(fd);
}

/* Makes the kernel write the dirty pages of a range, and with `wait` waits for it.  That makes nothing durable (the disk's own
 * cache is not flushed, see sync_file_range(2)), but shortens the sync that follows. 0 or -errno. */
int binlog_write_out(int fd, int64_t offset, int64_t bytes, int wait)
{
    unsigned flags = SYNC_FILE_RANGE_WRITE;
    if (wait)
        flags |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    return sync_file_range(fd, offset, bytes, flags) == 0 ? 0 : -errno;
}
