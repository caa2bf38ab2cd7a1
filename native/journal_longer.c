/* Whether one bit of damage has made a record longer, over others that it hides, and it is sound all the same.
 *
 * So it is where its check lies then in the body of a later record: whoever gave that, and knew the salt, has put it there.
 * But where the record ended that was appended, another sound one lies then, within this one; and none does in a record
 * as it was appended, see binlog/journal/lookalikes.py.
 *
 * Over zeros alone none grows.  x + 1 divides the polynomial of CRC-32C (G. Castagnoli et al., 1993), so all that is sound
 * at one place has an even number of set bits, or all an odd one; and one bit, with zeros, makes the one of the other.
 *
 * A longer one has a bit in its length that is set, or another kind; of each such bit, where it would end without it. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

/* Look whether a record was one that ends there; `end` is where the shortest one does that it may have been, and its own
 * end where there is none.  0, or -1 with an exception. */
static int look_at(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                   size_t shorter_end, size_t *end)
{
    struct journal_found other;

    if (shorter_end >= *end)
        return 0;
    if (scan->data[shorter_end] ? !journal_is_kind(scan->data[shorter_end]) : scan->alignment == 1)
        return 0; /* as almost always */
    size_t next = journal_place(scan, shorter_end);
    if (next >= found->offset + (size_t)found->bytes)
        return 0;
    int is_sound = journal_is_sound(scan, walk, next, &other);
    if (is_sound > 0)
        *end = shorter_end;
    return is_sound < 0 ? -1 : 0;
}

/* The same of each bit that is set in a number of items. */
static int look_at_number(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                          size_t number, size_t item_bytes, size_t *end)
{
    size_t own_end = found->offset + (size_t)found->bytes;

    for (size_t bits = number; bits; bits &= bits - 1)
        if (look_at(scan, walk, found, own_end - item_bytes * (bits & -bits), end) != 0)
            return -1;
    return 0;
}

/* The same of each kind that is one bit off. */
static int look_at_kinds(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                         size_t *end)
{
    struct journal_found other = {.offset = found->offset};

    for (int bits = 1; bits <= 16; bits *= 2) {
        other.kind = found->kind ^ bits;
        if (journal_is_kind((uint8_t)other.kind) && journal_measure_as_kind(scan, &other) &&
            look_at(scan, walk, found, found->offset + (size_t)other.bytes, end) != 0)
            return -1;
    }
    return 0;
}

int journal_was_shorter(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                        size_t *end)
{
    size_t own_end = *end = found->offset + (size_t)found->bytes;

    if (look_at_kinds(scan, walk, found, end) != 0 ||
        look_at_number(scan, walk, found, (size_t)found->body_bytes, 1, end) != 0 ||
        look_at_number(scan, walk, found, (size_t)found->counts_bytes, 1, end) != 0)
        return -1;
    return *end < own_end;
}
