/* Whether one bit of damage would make a shorter record of one, in silence.
 *
 * What a load meets between two records, or next behind the last one, it tells of where that is not zeros.  So the rest of a
 * record that a bit has made shorter shows, but where it begins with zeros; and the shorter one is sound where its check lies
 * before these.  Whoever gave the body, and knew the salt, has put both there.  What would end a longer one comes later, with other
 * records, so a load looks for these: journal_longer.c. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

/* Whether what a record has behind a shorter one may go unnoticed.  `tail_offset` in binlog/journal/damage.py tells of any
 * of 16 bytes and more that is not zero; fewer are looked at here, so that this finds all that it does not tell of.
 * Almost no record needs a CRC then. */
static int is_silent(const uint8_t *rest, size_t bytes)
{
    static const uint8_t zeros[8];
    return memcmp(rest, zeros, bytes < sizeof zeros ? bytes : sizeof zeros) == 0;
}

/* Whether a record is a shorter one, and nothing shows that, once these bits of a byte of its head are others. */
static int shrinks(const struct journal_use *use, uint64_t at, uint8_t *record, size_t bytes, size_t place, uint8_t bits)
{
    struct journal_scan scan = {.data = record, .stop = bytes, .use = *use};
    struct journal_found found;
    int is_shorter;

    record[place] ^= bits;
    is_shorter = journal_begins(&scan, 0, &found) && journal_measure(&scan, 0, &found) && found.bytes < bytes &&
                 is_silent(record + found.bytes, bytes - (size_t)found.bytes);
    if (is_shorter) {
        size_t checked = (size_t)found.bytes - JOURNAL_CHECK_BYTES;
        is_shorter = journal_check(use, at, record, checked) == get_u32(record + checked);
    }
    record[place] ^= bits;
    return is_shorter;
}

/* The same of any bit of a number of items, which lies at a place: only one that is set makes it less. */
static int number_shrinks(const struct journal_use *use, uint64_t at, uint8_t *record, size_t bytes, size_t place,
                          size_t item_bytes)
{
    for (uint32_t bits = get_u32(record + place); bits; bits &= bits - 1) {
        int bit = __builtin_ctz(bits);
        size_t rest = item_bytes << bit;
        if (is_silent(record + bytes - rest, rest) &&
            shrinks(use, at, record, bytes, place + 3 - (size_t)bit / 8, (uint8_t)(1 << bit % 8)))
            return 1;
    }
    return 0;
}

int journal_may_shrink(const struct journal_use *use, uint64_t at, uint8_t *record, size_t bytes)
{
    for (unsigned int bits = 1; bits <= 16; bits *= 2)
        if (journal_is_kind((uint8_t)(record[0] ^ bits)) && shrinks(use, at, record, bytes, 0, (uint8_t)bits))
            return 1;
    struct journal_lengths lengths = journal_lengths_of(record[0]);
    return (lengths.body && number_shrinks(use, at, record, bytes, lengths.body, 1)) ||
           (lengths.files && number_shrinks(use, at, record, bytes, lengths.files, JOURNAL_PLACE_BYTES));
}
