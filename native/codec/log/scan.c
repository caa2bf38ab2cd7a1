/* Scans bytes for records.  The bytes are hostile: every length is checked before it is used. */
#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

/* Scans whole records from the start of `data`, and returns how many there are.
 *
 * bytes: of data, less than 2^32.  to_tail: the distance from the start of data to the log's tail, to distinguish a length that
 * leads past the tail from one that only leads past these bytes.  offsets: count_max + 1 words for the offset of each record's
 * length word and, last, the end of the scan; or NULL to count only. */
int64_t binlog_scan(const uint8_t *data, size_t bytes, uint64_t to_tail, uint32_t record_bytes_max, uint32_t *offsets,
                    int64_t count_max, uint64_t *consumed, int *stop)
{
    size_t at = 0;
    int64_t count = 0;

    *stop = BINLOG_SCAN_END;
    while (count < count_max && at < to_tail) {
        if (bytes - at < RECORD_BYTES) {
            *stop = to_tail - at < RECORD_BYTES ? BINLOG_SCAN_LENGTH : BINLOG_SCAN_SHORT;
            break;
        }
        uint32_t length = get_u32(data + at);
        if (length > INT32_MAX || length > to_tail - at - RECORD_BYTES) {
            *stop = BINLOG_SCAN_LENGTH;
            break;
        }
        if (length > record_bytes_max) {
            *stop = BINLOG_SCAN_LARGE;
            break;
        }
        if (length > bytes - at - RECORD_BYTES) {
            *stop = BINLOG_SCAN_SHORT;
            break;
        }
        if (offsets)
            offsets[count] = (uint32_t)at;
        at += RECORD_BYTES + (size_t)length;
        count++;
    }
    if (offsets)
        offsets[count] = (uint32_t)at;
    *consumed = at;
    return count;
}
