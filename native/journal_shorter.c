/* Whether one bit of damage would make a shorter record of one.
 *
 * It is sound where its check lies before the rest of the longer one: whoever gave the body, and knew the salt, has put it
 * there.  A load would tell of the rest, if that is not zeros, but believe the shorter one; or go on at what lies in the
 * rest.  And where a record is sound that is a shorter one but for a bit, nothing else tells which of them was appended.
 * So none such is appended to a file.  Longer ones are looked for by who reads: see journal_longer.c.
 *
 * All shorter ones begin with the same bytes, but for the bit; so these are gone through once, and of each bit it is known
 * by what it changes the CRC of so many bytes. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

/* A shorter record: where its check would lie, and the bit that makes it one. */
struct shorter {
    size_t checked, place;
    uint8_t bit;
};

/* Of two numbers of 31 bits, and of a kind. */
#define SHORTER_MAX (2 * 31 + 5)

struct all_shorter {
    struct shorter each[SHORTER_MAX];
    int count;
};

/* Add one, in the order of where they end. */
static void add(struct all_shorter *all, size_t end, size_t place, uint8_t bit)
{
    struct shorter shorter = {.checked = end - JOURNAL_CHECK_BYTES, .place = place, .bit = bit};
    int i = all->count++;

    for (; i > 0 && all->each[i - 1].checked > shorter.checked; i--)
        all->each[i] = all->each[i - 1];
    all->each[i] = shorter;
}

/* Those of another kind. */
static void add_kinds(struct all_shorter *all, const struct journal_use *use, const uint8_t *record, size_t bytes)
{
    struct journal_scan scan = {.data = record, .stop = bytes, .use = *use};
    struct journal_found found = {0};

    for (int bit = 1; bit <= 16; bit *= 2) {
        found.kind = record[0] ^ bit;
        if (journal_is_kind((uint8_t)found.kind) && journal_measure_as_kind(&scan, &found) && found.bytes < bytes)
            add(all, (size_t)found.bytes, 0, (uint8_t)bit);
    }
}

/* Those of a number of items, which lies at a place: without a bit that is set it is less. */
static void add_numbers(struct all_shorter *all, const uint8_t *record, size_t bytes, size_t place, size_t item_bytes)
{
    for (uint32_t bits = get_u32(record + place); bits; bits &= bits - 1) {
        int bit = __builtin_ctz(bits);
        add(all, bytes - (item_bytes << bit), place + 3 - (size_t)bit / 8, (uint8_t)(1 << bit % 8));
    }
}

int journal_may_shrink(const struct journal_use *use, uint64_t at, const uint8_t *record, size_t bytes)
{
    struct journal_lengths lengths = journal_lengths_of(record[0]);
    struct all_shorter all;
    uint32_t crc = journal_check_seed(use, at);
    size_t done = 0;

    all.count = 0;
    add_kinds(&all, use, record, bytes);
    if (lengths.body)
        add_numbers(&all, record, bytes, lengths.body, 1);
    if (lengths.files)
        add_numbers(&all, record, bytes, lengths.files, JOURNAL_PLACE_BYTES);
    for (const struct shorter *shorter = all.each; shorter < all.each + all.count; shorter++) {
        crc = binlog_crc32c(crc, record + done, shorter->checked - done);
        done = shorter->checked;
        if ((crc ^ binlog_crc32c_bit(shorter->bit, done - shorter->place - 1)) == get_u32(record + done))
            return 1;
    }
    return 0;
}
