/* Writes the index of an open log file after each publish: see docs/format.md for its bytes.
 *
 * The index is derived: an error here fails no append, and it is never synced.  It is written only under the log file's lock.
 *
 * Synced commits get an entry each.  Some of those are kept in memory and written together, because extending a file costs some
 * microseconds however little is written.  Without a sync, the range since the last entry is only remembered until it is large
 * or old enough.  So there is no system call per record, and the index lags by at most 64 KiB, or by the commits of the last
 * second; without a further commit they stay out of it until the writer closes (struct binlog_index, one per process).  The CRC
 * of a range needs no second pass over the bytes: the header's running CRC continues through the appends of all processes, and
 * the CRC of its last part follows from those of the whole and of the first part.
 *
 * Processes commit alternately, so another one may have written entries meanwhile: before a write, the index's size shows that.
 * Records between the index's end and those that this process remembers are read from the log file if they are few.  If they
 * are many, or if anything about the index is wrong, the index is left as it is, and Python repairs it. */
#include "index.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "big_endian.h"
#include "index_ranges.h"

#define AGE_NS_MAX ((int64_t)1000000000)
#define ENTRIES_AT_ONCE 64

/* A run of records. */
struct range {
    uint64_t from, end;
    uint64_t count; /* of the file's records before it */
};

/* Entries to be written to the index. */
struct entries {
    struct binlog_file *file;
    uint64_t time_ns;
    size_t count;
    uint8_t bytes[ENTRIES_AT_ONCE * INDEX_ENTRY_BYTES];
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t first_sequence(const struct binlog_file *file)
{
    return get_u64(file->identity + LOG_HEADER_FIRST_SEQUENCE - LOG_HEADER_MAGIC);
}

static int entries_write(struct entries *entries)
{
    struct binlog_index *index = &entries->file->index;
    size_t bytes = entries->count * INDEX_ENTRY_BYTES;
    int result = binlog_write(index->fd, entries->bytes, bytes, (int64_t)index->file_bytes);
    if (result != 0) {
        index->file_bytes = 0; /* not known, so that find_end reads it again */
        return result;
    }
    if (entries->count > 0) {
        const uint8_t *last = entries->bytes + bytes - INDEX_ENTRY_BYTES;
        index->end = get_u64(last + INDEX_ENTRY_OFFSET) + get_u32(last + INDEX_ENTRY_RANGE_BYTES);
        index->time_ns = entries->time_ns;
    }
    index->file_bytes += bytes;
    entries->count = 0;
    return 0;
}

/* count: the file's records before the range.  records: those in it. */
static int entries_add(struct entries *entries, uint64_t offset, uint64_t bytes, uint64_t count, uint64_t records,
                       uint32_t crc)
{
    int result;
    if (bytes > UINT32_MAX)
        return -EFBIG;
    if (entries->count == ENTRIES_AT_ONCE && (result = entries_write(entries)) != 0)
        return result;
    const struct index_facts facts = {first_sequence(entries->file) + count, offset, entries->time_ns, bytes, records, crc};
    index_entry_pack(entries->bytes + entries->count++ * INDEX_ENTRY_BYTES, entries->file->seed, &facts);
    return 0;
}

/* Adds entries for a run of whole records in memory. */
static int entries_add_run(struct entries *entries, const uint8_t *data, const struct range *run)
{
    uint64_t at = run->from, count = run->count, records;
    while (at < run->end) {
        uint64_t bytes = index_range_length(data, run->end - at, &records);
        if (bytes == 0)
            return -EBADMSG;
        int result = entries_add(entries, at, bytes, count, records, binlog_crc32c(0, data, bytes));
        if (result != 0)
            return result;
        at += bytes;
        data += bytes;
        count += records;
    }
    return 0;
}

/* Adds entries for the records that other processes appended after the index's end, read from the file. */
static int entries_add_gap(struct entries *entries, struct range *gap)
{
    uint64_t bytes = gap->end - gap->from, records, count = 0;
    uint8_t *data;
    int result = -EBADMSG;

    if (bytes > BINLOG_INDEX_GAP_BYTES)
        return -E2BIG;
    if (!(data = malloc(bytes)))
        return -ENOMEM;
    if (pread(entries->file->fd, data, bytes, (off_t)gap->from) == (ssize_t)bytes) {
        uint64_t at = 0, length;
        while (at < bytes && (length = index_range_length(data + at, bytes - at, &records)) > 0) {
            at += length;
            count += records;
        }
        if (at == bytes && count <= gap->count) {
            gap->count -= count; /* so far it was the count at the gap's end */
            result = entries_add_run(entries, data, gap);
        }
    }
    free(data);
    return result;
}

/* Finds the index's end, unless this process wrote it last.  0, or -errno if the index must not be written. */
static int find_end(const struct binlog_file *file, struct binlog_index *index, uint64_t tail)
{
    uint64_t file_bytes;
    uint8_t last[INDEX_ENTRY_BYTES];

    /* Fails if the index was removed, or if other code closed the descriptor and another file has its number. */
    if (!binlog_fd_is_named(index->fd, index->device, index->inode, &file_bytes))
        return -ESTALE;
    if (file_bytes == index->file_bytes)
        return 0;
    index->file_bytes = 0;
    if (file_bytes < INDEX_HEADER_BYTES)
        return -ESTALE;
    file_bytes -= (file_bytes - INDEX_HEADER_BYTES) % INDEX_ENTRY_BYTES; /* a torn entry is overwritten */
    if (file_bytes == INDEX_HEADER_BYTES) {
        index->end = LOG_HEADER_BYTES;
        index->time_ns = 0;
    } else {
        if (pread(index->fd, last, sizeof last, (off_t)(file_bytes - INDEX_ENTRY_BYTES)) != INDEX_ENTRY_BYTES)
            return -ESTALE;
        uint64_t offset = get_u64(last + INDEX_ENTRY_OFFSET);
        index->end = offset + get_u32(last + INDEX_ENTRY_RANGE_BYTES);
        index->time_ns = get_u64(last + INDEX_ENTRY_TIME_NS);
        if (!index_entry_holds(last, file->seed) || offset < LOG_HEADER_BYTES || index->end <= offset || index->end > tail ||
            get_u64(last + INDEX_ENTRY_SEQUENCE) < first_sequence(file))
            return -EBADMSG;
    }
    index->file_bytes = file_bytes;
    return 0;
}

static void remember(struct binlog_index *index, uint64_t from, uint64_t count, uint32_t crc, uint64_t counter)
{
    index->from = from;
    index->from_count = count;
    index->from_crc = crc;
    index->counter = counter;
    index->since_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* Whether the group is remembered as the start of the next range, after `length` bytes that get an entry. */
static int leaves_group(const struct index_commit *commit, uint64_t length)
{
    return !commit->confirmed && length > 0 && commit->group->bytes < BINLOG_INDEX_RANGE_BYTES &&
           length + commit->group->bytes > BINLOG_INDEX_RANGE_BYTES;
}

/* Adds the entries for [from, commit->start), whose CRC follows from the running ones, and for the group after it. */
static int entries_add_known(struct entries *entries, const struct index_commit *commit, struct range *before, uint32_t crc)
{
    const struct group *group = commit->group;
    uint64_t length = before->end - before->from, tail = before->end + group->bytes;
    int result = 0;

    if (group->bytes > 0 && length + group->bytes <= BINLOG_INDEX_RANGE_BYTES) {
        crc = binlog_crc32c_rest(commit->crc_after, crc, tail - before->from);
        uint64_t records = commit->count + group->record_count - before->count;
        return entries_add(entries, before->from, tail - before->from, before->count, records, crc);
    }
    if (length > 0)
        result = entries_add(entries, before->from, length, before->count, commit->count - before->count,
                             binlog_crc32c_rest(commit->crc_before, crc, length));
    if (result != 0 || group->bytes == 0 || leaves_group(commit, length))
        return result;
    struct range run = {before->end, tail, commit->count};
    return entries_add_run(entries, group->data, &run);
}

/* Returns the time, or `lowest` if the clock went back. */
static uint64_t time_from(uint64_t lowest)
{
    int64_t now_ns = clock_ns(CLOCK_REALTIME);
    return now_ns > 0 && (uint64_t)now_ns > lowest ? (uint64_t)now_ns : lowest;
}

/* Takes the entries that were kept, if they follow the index's end; returns where all those entries end. */
static uint64_t take_kept(struct entries *entries)
{
    struct binlog_index *index = &entries->file->index;
    uint32_t count = index->kept_count;

    index->kept_count = 0;
    if (count == 0 || index->kept_from != index->end || get_u64(index->kept + INDEX_ENTRY_TIME_NS) < index->time_ns)
        return index->end;
    memcpy(entries->bytes, index->kept, count * INDEX_ENTRY_BYTES);
    entries->count = count;
    return index->kept_end;
}

/* Keeps the commit's entry, to write it with later ones; returns 0 if it cannot be kept. */
static int keep(struct binlog_file *file, const struct live *live, const struct index_commit *commit)
{
    struct binlog_index *index = &file->index;
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
    uint64_t length = live->tail - index->from;

    if (index->kept_count == 0) {
        index->kept_from = index->from;
        index->kept_since_ns = now_ns;
        index->kept_time_ns = index->time_ns;
    } else if (index->kept_end != index->from || index->kept_count == BINLOG_INDEX_KEPT_MAX ||
               now_ns - index->kept_since_ns >= AGE_NS_MAX) {
        return 0;
    }
    if (live->tail - index->kept_from > BINLOG_INDEX_RANGE_BYTES)
        return 0;
    index->kept_time_ns = time_from(index->kept_time_ns);
    const struct index_facts facts = {
        first_sequence(file) + index->from_count,
        index->from,
        index->kept_time_ns,
        length,
        live->record_count - index->from_count,
        binlog_crc32c_rest(commit->crc_after, index->from_crc, length),
    };
    index_entry_pack(index->kept + index->kept_count++ * INDEX_ENTRY_BYTES, file->seed, &facts);
    index->kept_end = live->tail;
    return 1;
}

static int write_entries(struct binlog_file *file, const struct index_commit *commit)
{
    struct binlog_index *index = &file->index;
    struct entries entries = {.file = file, .count = 0};
    struct range before = {index->from, commit->start, index->from_count};
    uint32_t crc = index->from_crc;
    int result;

    uint64_t end = take_kept(&entries);
    entries.time_ns = time_from(end == index->end ? index->time_ns : index->kept_time_ns);
    if (end != index->from) {
        /* Other processes wrote entries, or appended records without one: only the group itself is in memory. */
        before = (struct range){commit->start, commit->start, commit->count};
        crc = commit->crc_before;
        if (end < before.from) {
            struct range gap = {end, before.from, before.count};
            if ((result = entries_add_gap(&entries, &gap)) != 0)
                return result;
        }
    }
    if ((result = entries_add_known(&entries, commit, &before, crc)) != 0)
        return result;
    return entries_write(&entries);
}

void index_follow(struct binlog_file *file, const struct live *live, const struct index_commit *commit)
{
    struct binlog_index *index = &file->index;
    uint64_t counter = live->confirmed_counter - (commit->confirmed ? 1 : 0);

    if (index->fd < 0)
        return;
    /* The running CRC starts again at each confirm, so a range is only remembered from the last one on. */
    if (index->counter != counter || index->from > commit->start || index->from == 0)
        remember(index, commit->start, commit->count, commit->crc_before, counter);
    /* The records have an entry already, or the commit's entry is kept. */
    if (live->tail == index->from || (commit->confirmed && keep(file, live, commit))) {
        remember(index, live->tail, live->record_count, commit->confirmed ? 0 : commit->crc_after,
                 live->confirmed_counter);
        return;
    }
    if (!commit->confirmed && live->tail - index->from <= BINLOG_INDEX_RANGE_BYTES &&
        clock_ns(CLOCK_MONOTONIC_COARSE) - index->since_ns < AGE_NS_MAX)
        return;
    int result = find_end(file, index, commit->start);
    if (result == -ESTALE || result == -EBADMSG)
        index->fd = -1; /* Python closes it, and checks the index when the file is opened again */
    if (result == 0)
        result = write_entries(file, commit);
    if (result == 0 && index->end == commit->start)
        remember(index, commit->start, commit->count, commit->crc_before, counter);
    else
        remember(index, live->tail, live->record_count, commit->confirmed ? 0 : commit->crc_after,
                 live->confirmed_counter);
}

/* Writes the kept entries, and those missing before them.  The lock is held.  0 or -errno. */
int binlog_index_flush(struct binlog_file *file)
{
    struct binlog_index *index = &file->index;
    struct entries entries = {.file = file, .count = 0};
    if (index->fd < 0 || index->kept_count == 0)
        return 0;
    int result = find_end(file, index, INT64_MAX);
    if (result != 0)
        return result;
    uint64_t end = take_kept(&entries);
    entries.time_ns = entries.count > 0 ? index->kept_time_ns : time_from(index->time_ns);
    if (end < index->kept_end && index->kept_end == index->from) {
        struct range gap = {end, index->from, index->from_count};
        if ((result = entries_add_gap(&entries, &gap)) != 0)
            return result;
    }
    return entries_write(&entries);
}
