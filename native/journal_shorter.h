/* The shorter records that one bit makes of one: where each would end without the bit, which is of its kind or of a length.
 *
 * All begin with the same bytes, but for the bit.  So whoever looks which of them is sound goes through these once, and of
 * each bit it is known by what it changes the CRC of so many bytes: binlog_crc32c_bit. */
#ifndef BINLOG_JOURNAL_SHORTER_H
#define BINLOG_JOURNAL_SHORTER_H

#include "journal.h"

#include "big_endian.h"
#include "layout.h"

/* Where its check lies, and the bit that it is without; places are those in the record. */
struct journal_shorter {
    size_t checked, place;
    uint8_t bit;
};

/* Of two numbers of 31 bits, and of a kind; in the order of where they end. */
struct journal_all_shorter {
    struct journal_shorter each[2 * 31 + 5];
    int count;
};

/* Whether one of them is to be looked at, by where it ends. */
typedef int journal_keep(void *context, size_t end);

static inline void journal_add_shorter(struct journal_all_shorter *all, journal_keep *keep, void *context, size_t end,
                                       size_t place, uint8_t bit)
{
    if (!keep(context, end))
        return;
    struct journal_shorter shorter = {.checked = end - JOURNAL_CHECK_BYTES, .place = place, .bit = bit};
    int i = all->count++;
    for (; i > 0 && all->each[i - 1].checked > shorter.checked; i--)
        all->each[i] = all->each[i - 1];
    all->each[i] = shorter;
}

/* Those without a bit of a number of items, which lies at a place. */
static inline void journal_add_numbers(struct journal_all_shorter *all, journal_keep *keep, void *context,
                                       const uint8_t *record, size_t bytes, size_t place, size_t item_bytes)
{
    for (uint32_t bits = get_u32(record + place); bits; bits &= bits - 1) {
        int bit = __builtin_ctz(bits);
        journal_add_shorter(all, keep, context, bytes - (item_bytes << bit), place + 3 - (size_t)bit / 8,
                            (uint8_t)(1 << bit % 8));
    }
}

/* Those of a record at an offset, which has so many bytes. */
static inline __attribute__((always_inline)) void journal_list_shorter(struct journal_all_shorter *all,
                                                                       const struct journal_scan *scan, size_t offset,
                                                                       size_t bytes, journal_keep *keep, void *context)
{
    const uint8_t *record = scan->data + offset;
    struct journal_lengths lengths = journal_lengths_of(record[0]);
    struct journal_found other = {.offset = offset};

    all->count = 0;
    for (int bit = 1; bit <= 16; bit *= 2) {
        other.kind = record[0] ^ bit;
        if (journal_is_kind((uint8_t)other.kind) && journal_measure_as_kind(scan, &other) && other.bytes < bytes)
            journal_add_shorter(all, keep, context, (size_t)other.bytes, 0, (uint8_t)bit);
    }
    if (lengths.body)
        journal_add_numbers(all, keep, context, record, bytes, lengths.body, 1);
    if (lengths.files)
        journal_add_numbers(all, keep, context, record, bytes, lengths.files, JOURNAL_PLACE_BYTES);
}

#endif
