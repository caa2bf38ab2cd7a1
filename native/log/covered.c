/* The entries of an index that cover a reader's position.
 *
 * The index stays open between reads, so each use of its descriptor begins with a check of its device and inode: a program that
 * closed all descriptors may have given the number to a file of its own.  An index that lost its name no longer grows, and a
 * new one may have been made. */
#include "covered.h"

#include "big_endian.h"
#include "index_ranges.h"
#include "layout.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many entries are read at the start of a read, which may be all that it needs; later ones are read many at a time. */
#define ENTRIES_FIRST 64

/* How many damaged entries in a row are skipped to find a sound one. */
#define DAMAGED_MAX 64

static uint64_t key_of(const uint8_t *entry, int key)
{
    switch (key) {
    case BINLOG_INDEX_BY_OFFSET:
        return get_u64(entry + INDEX_ENTRY_OFFSET);
    case BINLOG_INDEX_BY_SEQUENCE:
        return get_u64(entry + INDEX_ENTRY_SEQUENCE);
    case BINLOG_INDEX_BY_TIME:
        return get_u64(entry + INDEX_ENTRY_TIME_NS);
    default:
        return get_u64(entry + INDEX_ENTRY_OFFSET) + get_u32(entry + INDEX_ENTRY_RANGE_BYTES);
    }
}

/* Reads the first entry from `number` on that has its checksum; returns whether there is one near. */
static int read_sound(int fd, uint32_t seed, uint64_t number, uint64_t count, uint8_t *entry)
{
    for (uint64_t end = number + DAMAGED_MAX; number < end && number < count; number++)
        if (pread(fd, entry, INDEX_ENTRY_BYTES, (off_t)(INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)) ==
                INDEX_ENTRY_BYTES &&
            index_entry_holds(entry, seed))
            return 1;
    return 0;
}

/* Returns how many of `count` entries have a key that is at most `value`; `low` or more.  A damaged entry counts with the key
 * of the next sound one, or as larger than `value` if none is near. */
uint64_t binlog_index_search(int fd, uint32_t seed, int key, uint64_t value, uint64_t low, uint64_t count)
{
    uint8_t entry[INDEX_ENTRY_BYTES];
    for (uint64_t high = count; low < high;) {
        uint64_t middle = low + (high - low) / 2;
        if (read_sound(fd, seed, middle, count, entry) && key_of(entry, key) <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Forgets the buffered entries and the position in the index. */
static void forget(struct binlog_reading *reading)
{
    reading->ranges.end = UINT64_MAX;
    reading->number = reading->passed = reading->passed_number = reading->first = reading->buffered = 0;
}

/* fd, device, inode: the log file's.  seed: of the checksums of its index's entries. */
void binlog_reading_begin(struct binlog_reading *reading, int fd, uint64_t device, uint64_t inode, uint32_t seed,
                          uint32_t record_bytes_max)
{
    reading->fd = fd;
    reading->device = device;
    reading->inode = inode;
    reading->index_fd = -1;
    reading->record_bytes_max = record_bytes_max;
    /* If its range holds, an entry is believed without its own checksum, because its time is not used. */
    reading->ranges = (struct binlog_index_state){.by_bytes = 1, .seed = seed};
    forget(reading);
}

/* Opens the index, to compare with from now on.  header: the bytes that it must begin with.
 *
 * Returns 0 if there is no such index. */
int binlog_reading_open_index(struct binlog_reading *reading, int directory, const char *name, const uint8_t *header)
{
    uint8_t found[INDEX_HEADER_BYTES];
    struct stat status;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    binlog_reading_close_index(reading);
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) != 0 || pread(fd, found, sizeof found, 0) != (ssize_t)sizeof found ||
        memcmp(found, header, sizeof found) != 0) {
        close(fd);
        return 0;
    }
    reading->index_fd = fd;
    reading->index_device = status.st_dev;
    reading->index_inode = status.st_ino;
    return 1;
}

/* Closes the index until it is opened again. */
void binlog_reading_close_index(struct binlog_reading *reading)
{
    if (reading->index_fd >= 0)
        binlog_fd_close_own(reading->index_fd, reading->index_device, reading->index_inode);
    reading->index_fd = -1;
    forget(reading);
}

static off_t entry_at(uint64_t number)
{
    return (off_t)(INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES);
}

static uint64_t range_end(const uint8_t *entry)
{
    return get_u64(entry + INDEX_ENTRY_OFFSET) + get_u32(entry + INDEX_ENTRY_RANGE_BYTES);
}

static void read_entries(struct binlog_reading *reading, uint64_t number, size_t count)
{
    ssize_t got = pread(reading->index_fd, reading->entries, count * INDEX_ENTRY_BYTES, entry_at(number));
    reading->first = number;
    reading->buffered = got < 0 ? 0 : (uint64_t)got / INDEX_ENTRY_BYTES;
}

static const uint8_t *buffered(const struct binlog_reading *reading, uint64_t number)
{
    return reading->entries + (number - reading->first) * INDEX_ENTRY_BYTES;
}

static int is_buffered(const struct binlog_reading *reading, uint64_t number)
{
    return number >= reading->first && number - reading->first < reading->buffered;
}

/* Moves to the entry of the range that has `offset`, and buffers it.  Returns 0 if there is none with its checksum. */
static int seek_entry(struct binlog_reading *reading, uint64_t offset, uint64_t count)
{
    struct binlog_index_state *ranges = &reading->ranges;
    uint64_t low = offset >= reading->passed && reading->passed_number <= count ? reading->passed_number : 0;

    ranges->end = UINT64_MAX;
    reading->buffered = 0;
    if (low < count)
        read_entries(reading, low, ENTRIES_FIRST);
    while (is_buffered(reading, low) && range_end(buffered(reading, low)) <= offset &&
           index_entry_holds(buffered(reading, low), ranges->seed))
        low++;
    if (low < count && !(is_buffered(reading, low) && index_entry_holds(buffered(reading, low), ranges->seed))) {
        low = binlog_index_search(reading->index_fd, ranges->seed, BINLOG_INDEX_BY_END, offset, low, count);
        read_entries(reading, low, ENTRIES_FIRST);
    }
    reading->number = reading->passed_number = low;
    reading->passed = offset;
    if (!is_buffered(reading, low) || !index_entry_holds(buffered(reading, low), ranges->seed))
        return 0;
    const uint8_t *entry = buffered(reading, low);
    if (get_u64(entry + INDEX_ENTRY_OFFSET) > offset || range_end(entry) <= offset)
        return 0;
    ranges->end = get_u64(entry + INDEX_ENTRY_OFFSET);
    ranges->sequence = get_u64(entry + INDEX_ENTRY_SEQUENCE);
    ranges->counted = 1;
    return 1;
}

/* Whether a buffered entry has the range that starts at `offset`. */
int covered_is_buffered(const struct binlog_reading *reading, uint64_t offset)
{
    return offset == reading->ranges.end && is_buffered(reading, reading->number);
}

/* Moves to the entry of the range that has `offset`, buffers the entries from there on, and sets `reading->ranges` to it.
 *
 * Returns 0 if the index has none, 1 if it has; -ESTALE if the index must be opened again. */
int covered_find(struct binlog_reading *reading, uint64_t offset)
{
    uint64_t file_bytes, count;

    if (!binlog_fd_is_named(reading->index_fd, reading->index_device, reading->index_inode, &file_bytes))
        return -ESTALE;
    count = file_bytes > INDEX_HEADER_BYTES ? (file_bytes - INDEX_HEADER_BYTES) / INDEX_ENTRY_BYTES : 0;
    if (offset != reading->ranges.end)
        return seek_entry(reading, offset, count);
    if (reading->number < count)
        read_entries(reading, reading->number, sizeof reading->entries / INDEX_ENTRY_BYTES);
    return is_buffered(reading, reading->number);
}

/* Selects the buffered ranges that together have up to `size` bytes and `records_max` records before the tail, at least one.
 *
 * A larger first range counts if its entry has its checksum and no record in it is larger than `largest`. */
void covered_within(const struct binlog_reading *reading, uint64_t size, uint64_t to_tail, uint64_t records_max,
                    uint64_t largest, struct covered *covered)
{
    uint64_t index = reading->number - reading->first;
    const uint8_t *entry = buffered(reading, reading->number);

    *covered = (struct covered){.entries = entry};
    for (; index < reading->buffered; index++, entry += INDEX_ENTRY_BYTES) {
        uint64_t length = get_u32(entry + INDEX_ENTRY_RANGE_BYTES), records = get_u32(entry + INDEX_ENTRY_RECORD_COUNT);
        if (length > to_tail - covered->bytes || records > length / RECORD_BYTES)
            break;
        if (covered->count > 0 && (covered->bytes + length > size || covered->records + records > records_max))
            break;
        if (length > size && (length > largest || !index_entry_holds(entry, reading->ranges.seed)))
            break;
        covered->bytes += length;
        covered->records += records;
        covered->count++;
    }
}
