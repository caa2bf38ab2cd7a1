/* Reading a cached log file header again: whether it changed, and how, in one call.
 *
 * binlog/log/files/header.py has the rule for accepting a header.  A read may overlap a write and see half of it.  Here one read
 * is accepted in two cases: it gives the same bytes as before; or the live block is valid and has the same tail, and nothing has
 * changed that an append leaves alone.  Python handles all other cases, with reads of its own.
 */
#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(((struct binlog_header_cache *)0)->header) == LOG_HEADER_BYTES, "binlog.h knows the header's size");

static int same(const uint8_t *one, const uint8_t *other, size_t from, size_t to)
{
    return memcmp(one + from, other + from, to - from) == 0;
}

/* Whether `now` is `known` after an append by binlog: a greater tail, which the live block proves.  The status, the next number,
 * the identity, the epoch and the boot are unchanged; the slots do not matter to a reader. */
static int appended(const uint8_t *known, const uint8_t *now, uint32_t seed)
{
    uint64_t tail = get_u64(now + LOG_HEADER_TAIL), sequence = get_u64(now + LOG_HEADER_FIRST_SEQUENCE);
    uint64_t count = get_u64(now + LOG_HEADER_RECORD_COUNT);

    return get_u64(now + LOG_HEADER_MAGIC) != 0 && same(known, now, 0, LOG_HEADER_TAIL) &&
           same(known, now, LOG_HEADER_NUMBER, LOG_HEADER_PUBLISHED_TAIL) &&
           same(known, now, LOG_HEADER_EPOCH, LOG_HEADER_FLAGS) &&
           same(known, now, LOG_HEADER_IDENTITY_CRC, LOG_HEADER_SLOT_0) &&
           same(known, now, LOG_HEADER_ZERO, LOG_HEADER_BYTES) && now[LOG_HEADER_STATUS + 1] == 0 &&
           tail == get_u64(now + LOG_HEADER_PUBLISHED_TAIL) && tail > get_u64(known + LOG_HEADER_TAIL) && tail <= INT64_MAX &&
           sequence <= INT64_MAX && count <= INT64_MAX - sequence &&
           get_u32(now + LOG_HEADER_LIVE_CRC) ==
               binlog_crc32c(seed, now + LOG_HEADER_PUBLISHED_TAIL, LOG_HEADER_LIVE_CRC - LOG_HEADER_PUBLISHED_TAIL);
}

int64_t binlog_coarse_clock_ns(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &clock);
    return (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec;
}

/* Reads the header and compares it with `known`.  If it is accepted, `now` is the new value of the cache. */
int binlog_header_read_again(const struct binlog_header_cache *known, struct binlog_header_cache *now)
{
    int answer;

    *now = *known;
    now->read_ns = binlog_coarse_clock_ns();
    if (pread(known->fd, now->header, sizeof(now->header), 0) != (ssize_t)sizeof(now->header))
        return BINLOG_HEADER_UNSURE;
    if (same(known->header, now->header, 0, LOG_HEADER_DOORBELL) &&
        same(known->header, now->header, LOG_HEADER_IDENTITY_CRC, LOG_HEADER_BYTES))
        answer = BINLOG_HEADER_SAME;
    else if (appended(known->header, now->header, known->seed))
        answer = BINLOG_HEADER_APPENDED;
    else
        return BINLOG_HEADER_UNSURE;
    now->tail = get_u64(now->header + LOG_HEADER_TAIL);
    now->doorbell_at_previous_read = get_u32(known->header + LOG_HEADER_DOORBELL);
    return answer;
}

/* As binlog_header_read_again, and updates the cache if the header is accepted. */
int binlog_header_refresh(struct binlog_header_cache *known)
{
    struct binlog_header_cache now;
    int answer = binlog_header_read_again(known, &now);
    if (answer != BINLOG_HEADER_UNSURE)
        *known = now;
    return answer;
}
