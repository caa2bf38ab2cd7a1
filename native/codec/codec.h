/* Pure functions over bytes, which the system's side calls too (crc32c.c, scan.c, index_ranges.c).  The bytes may be hostile.
 *
 * Between its guards are plain declarations alone: build_native.py gives them to cffi, as it does binlog.h's.
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
    BINLOG_SCAN_MORE /* no scan's: see read.c */
};
int64_t binlog_scan(const uint8_t *data, size_t bytes, uint64_t to_tail, uint32_t record_bytes_max, uint32_t *offsets,
                    int64_t count_max, uint64_t *consumed, int *stop);

/* index_ranges.c: entries of an index, made of records and compared with them */
enum binlog_index_limits {
    BINLOG_INDEX_RANGE_BYTES = 65536,
    BINLOG_INDEX_GAP_BYTES = 1048576,
    BINLOG_INDEX_KEPT_MAX = 32
};
enum binlog_index_stop { /* RangeStop in binlog/format/index_file.py has the same. */
    BINLOG_INDEX_END = 0, /* all that were given */
    BINLOG_INDEX_SHORT,   /* a range leads past the data */
    BINLOG_INDEX_CHAIN,   /* an entry does not follow from the one before it */
    BINLOG_INDEX_CRC,     /* the data are not what was written */
    BINLOG_INDEX_RECORDS, /* they are, and they are not as many records as the entry says */
    BINLOG_INDEX_ENTRY    /* the entry does not have its own checksum */
};
/* Where a verification has come to. */
struct binlog_index_state {
    uint64_t end, sequence, time_ns; /* of what was verified; the sequence of the record that follows */
    int counted;                     /* the sequence is known exactly, else it is the lowest that can be */
    int stop;
    int by_bytes;  /* an entry whose range holds is believed without its own checksum, for its time is not asked for */
    uint32_t seed; /* of the checksums of entries */
    uint32_t crc;  /* going on from what it was, of all that entries were made for */
};
int64_t binlog_index_build(const uint8_t *data, size_t bytes, int to_end, struct binlog_index_state *state,
                           uint8_t *entries, int64_t count_max);
int64_t binlog_index_verify(const uint8_t *entries, int64_t count, const uint8_t *data, size_t bytes,
                            struct binlog_index_state *state);

#endif
