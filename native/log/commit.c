/* One commit, from the data's write to the bell, in one call.
 *
 * No Python runs in between, so neither a signal handler nor Ctrl-C can leave it half done: whatever ends it early
 * counts as the death of the process.  The caller holds the file's lock.
 *
 * The order (docs/durability.md): data; slot; sync; publish; in the strict order a second sync.  Data and slot go down in
 * one sync, and the slot's CRC of the group tells after a crash whether both did.  If nothing is to be confirmed, there is
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
            return -ENOSPC; /* write(2) allows it for a full device; a loop would never end */
        data += written;
        bytes -= (size_t)written;
        offset += written;
    }
    return 0;
}

/* The header whole, whatever a signal does; 0, -ENODATA where the file is shorter, or -errno. */
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

/* A failed sync is never tried again: the kernel may have dropped the dirty pages and would answer OK (fsync(2)). */
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
    while (result == EINTR); /* fallocate(2) may be interrupted; what was given by then stays */
    return result;
}

/* Lets the file reach beyond `end`, in steps that grow with it, so that few syncs must record a new size. */
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
    if (result != 0 && reach > end) /* a nearly full disk, or a limit on the file's size, may still have room for this */
        result = allocate(file, end);
    if (result == 0 && file_status(file->fd, &file->file_bytes, &named) != 0)
        file->file_bytes = 0;
    return -result;
}

/* Writes zeros to what follows the group in its stretch of ZEROED_BYTES, where the group is the first to reach into it.
 *
 * A page that was allocated and never written costs the sync that writes it a change of the file's extents.  Zeros cost it
 * as much only once a stretch, since they go to the disk along with the group; and they are what stands there anyway.
 * Large groups fill such pages by themselves, and in a file of one stretch it would not pay. */
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
    /* Strictly increasing, whatever is done to the clock. */
    if (slot_find(file, header, counter, &last) && last.time_ns >= time_ns)
        return last.time_ns + 1;
    return time_ns;
}

/* Tells one attempt at a counter from another.  Attempts at one counter never share a nanosecond, for they hold the same
 * lock; mixed (splitmix64) with a seed of this process. */
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

/* One write changes all that readers see, and the bell is its last word.  So a reader that reads the bell, and the tail in a
 * later call, sees the tail that the bell announced. */
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

/* The CRC of what came before, which has this CRC, and the group. */
static uint32_t crc_behind(uint32_t crc, const struct group *group)
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
    live->tail = live->own_tail = start + group->bytes;
    live->record_count += group->units;
    live->running_crc = crc_behind(live->running_crc, group);
    indexed.crc_after = live->running_crc;
    int strict = file->strict || (live->flags & (FLAG_MIXED | FLAG_STRICT)) != 0;
    if (strict)
        live->flags |= FLAG_STRICT;
    if (group->sync && live->confirmed_end < live->tail) {
        if ((result = confirm(file, header, live, group->note, step)) != 0)
            return result;
        indexed.confirmed = 1;
    }
    if (group->written) /* not before: a failure up to here leaves the flag, so that whoever recovers settles the turn */
        live->flags &= (uint16_t)~FLAG_ONCE;
    if ((result = publish(file, header, live, step)) != 0)
        return result;
    *step = BINLOG_STEP_PUBLISH_SYNC;
    if (group->sync && strict && (result = sync_data(file->fd)) != 0)
        return result;
    if (!group->written) /* Python sees to the index, which wants the bytes */
        index_follow(file, live, &indexed);
    return 0;
}

/* Whether it is not known any more what the disk holds.  Before the slot nothing was announced, and what lies beyond the
 * tail means nothing; a slot that could not be published for want of space is rolled forward later. */
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

/* The strict classic order for a file that another program made, which has no room for more: data, sync, tail, sync. */
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

/* Has the kernel write what is dirty of so many bytes from `offset` on, and with `wait` waits until it has.  Nothing is durable
 * by that (the disk's own cache is not flushed, see sync_file_range(2)); it leaves less to the sync that follows.  0 or -errno.
 */
int binlog_write_out(int fd, int64_t offset, int64_t bytes, int wait)
{
    unsigned flags = SYNC_FILE_RANGE_WRITE;
    if (wait)
        flags |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    return sync_file_range(fd, offset, bytes, flags) == 0 ? 0 : -errno;
}
