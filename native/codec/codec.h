/* The pure functions that the rest of the C calls too (crc32c.c, scan.c, index_ranges.c).  Their input may be hostile.
 *
 * Between the include guards are plain declarations only, because build_native.py passes them to cffi, like those of binlog.h.
 */
#ifndef BINLOG_CODEC_H
#define BINLOG_CODEC_H

#include <stddef.h>
#include <stdint.h>

/* crc32c.c */
uint32_t binlog_crc32c(uint32_t crc, const uint8_t *data, size_t bytes);
uint32_t binlog_crc32c_rest(uint32_t whole, uint32_t first, uint64_t bytes);

/* scan.c: records in a run of bytes; Stop in binlog/format/record.py has the same. */
enum binlog_scan_stop {
    BINLOG_SCAN_END = 0,
    BINLOG_SCAN_SHORT,
    BINLOG_SCAN_LENGTH,
    BINLOG_SCAN_LARGE,
    BINLOG_SCAN_MORE /* not of a scan: see read.c */
};
int64_t binlog_scan(const uint8_t *data, size_t bytes, uint64_t to_tail, uint32_t record_bytes_max, uint32_t *offsets,
                    int64_t count_max, uint64_t *consumed, int *stop);

/* index_ranges.c: index entries, built from records and verified against them */
enum binlog_index_limits {
    BINLOG_INDEX_RANGE_BYTES = 65536,
    BINLOG_INDEX_GAP_BYTES = 1048576,
    BINLOG_INDEX_KEPT_MAX = 32
};
enum binlog_index_stop { /* RangeStop in binlog/format/index_file.py has the same. */
    BINLOG_INDEX_END = 0, /* all entries were verified */
    BINLOG_INDEX_SHORT,   /* a range ends after the data */
    BINLOG_INDEX_CHAIN,   /* an entry does not follow from the one before it */
    BINLOG_INDEX_CRC,     /* the data have another CRC than the entry */
    BINLOG_INDEX_RECORDS, /* the CRC is right, and the number of records is another one */
    BINLOG_INDEX_ENTRY    /* the entry's own checksum is wrong */
};
/* The state of a verification, and of a build. */
struct binlog_index_state {
    uint64_t end, sequence, time_ns; /* the end of the last verified range, the sequence of the next record, the time of the last entry */
    int counted;                     /* the sequence is exact, else it is a lower bound */
    int stop;
    int by_bytes;  /* accept an entry whose range is right without its own checksum: the caller does not use its time */
    uint32_t seed; /* of the checksums of entries */
    uint32_t crc;  /* continued over all the data that entries were built for */
};
int64_t binlog_index_build(const uint8_t *data, size_t bytes, int to_end, struct binlog_index_state *state,
                           uint8_t *entries, int64_t count_max);
int64_t binlog_index_verify(const uint8_t *entries, int64_t count, const uint8_t *data, size_t bytes,
                            struct binlog_index_state *state);

#endif
