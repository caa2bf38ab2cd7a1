/* Whether one bit of damage would make a shorter record of one.
 *
 * It is sound where its check lies before the rest of the longer one: whoever gave the body, and knew the salt, has put it
 * there.  A load would tell of the rest, if that is not zeros, but believe the shorter one; or go on at what lies in the
 * rest.  And where a record is sound that is a shorter one but for a bit, nothing else tells which of them was appended.
 * So none such is appended to a file.  Longer ones are looked for by who reads: see journal_longer.c. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal_shorter.h"

#include "binlog.h"

static int keep_all(void *context, size_t end)
{
    (void)context;
    (void)end;
    return 1;
}

int journal_may_shrink(const struct journal_use *use, uint64_t at, const uint8_t *record, size_t bytes)
{
    struct journal_scan scan = {.data = record, .stop = bytes, .use = *use};
    struct journal_all_shorter all;
    uint32_t crc = journal_check_seed(use, at);
    size_t done = 0;

    journal_list_shorter(&all, &scan, 0, bytes, keep_all, NULL);
    for (const struct journal_shorter *shorter = all.each; shorter < all.each + all.count; shorter++) {
        crc = binlog_crc32c(crc, record + done, shorter->checked - done);
        done = shorter->checked;
        if ((crc ^ binlog_crc32c_bit(shorter->bit, done - shorter->place - 1)) == get_u32(record + done))
            return 1;
    }
    return 0;
}
