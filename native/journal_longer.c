/* Whether one bit of damage has made a record longer, over others that it hides, and it is sound all the same.
 *
 * So it is where its check lies then in the body of a later record: whoever gave that, and knew the salt, has put it there.
 * But where the record ended that was appended, another one lies, within this one; and without the bit it is sound up to
 * there, as no record is that was so appended, see journal_shorter.c.  The first of these is asked first, for it is seen at
 * a glance that almost never anything lies there.
 *
 * Over zeros alone none grows.  x + 1 divides the polynomial of CRC-32C (G. Castagnoli et al., 1993), so all that is sound
 * at one place has an even number of set bits, or all an odd one; and one bit, with zeros, makes the one of the other.
 *
 * A longer one has a bit in its length that is set, or another kind; of each such bit, where it would end without it. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

/* A bit of a record's head, and where the record ends without it. */
struct shorter {
    size_t end, place;
    uint8_t bit;
};

/* Whether the record is sound without the bit. */
static int is_sound_without(const struct journal_scan *scan, struct journal_walk *walk, size_t offset,
                            const struct shorter *shorter)
{
    size_t room = scan->stop - offset;
    uint8_t head[JOURNAL_HEAD_MAX] = {0};
    struct journal_found found;

    memcpy(head, scan->data + offset, room < sizeof head ? room : sizeof head);
    head[shorter->place] ^= shorter->bit;
    return journal_measure_so(scan, head, offset, &found) && journal_check_holds_so(scan, walk, offset, head, &found);
}

/* Whether it was that one; an exception where there is no memory. */
static int was(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
               const struct shorter *shorter)
{
    struct journal_found other;
    uint8_t first = scan->data[shorter->end];

    if (first ? !journal_is_kind(first) : scan->alignment == 1)
        return 0; /* as almost always */
    size_t next = journal_place(scan, shorter->end);
    if (next >= found->offset + (size_t)found->bytes || journal_is_sound(scan, walk, next, &other) != 1)
        return 0;
    /* One of the two is none; else who made a file could have each byte gone through as often as it likes. */
    journal_in_vain(scan, walk, (size_t)other.bytes);
    return is_sound_without(scan, walk, found->offset, shorter);
}

/* The shortest of a record's shorter ones that it was, if that ends before `end`, becomes it. */
static void look_at(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                    const struct shorter *shorter, size_t *end)
{
    if (shorter->end < *end && was(scan, walk, found, shorter))
        *end = shorter->end;
}

/* Those without a bit of a number of items, which lies at a place. */
static void look_at_numbers(const struct journal_scan *scan, struct journal_walk *walk,
                            const struct journal_found *found, size_t place, size_t item_bytes, size_t *end)
{
    size_t own_end = found->offset + (size_t)found->bytes;

    for (uint32_t bits = get_u32(scan->data + found->offset + place); bits; bits &= bits - 1) {
        int bit = __builtin_ctz(bits);
        struct shorter shorter = {own_end - (item_bytes << bit), place + 3 - (size_t)bit / 8, (uint8_t)(1 << bit % 8)};
        look_at(scan, walk, found, &shorter, end);
    }
}

/* Those of another kind. */
static void look_at_kinds(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                          size_t *end)
{
    struct journal_found other = {.offset = found->offset};

    for (int bit = 1; bit <= 16; bit *= 2) {
        other.kind = found->kind ^ bit;
        if (journal_is_kind((uint8_t)other.kind) && journal_measure_as_kind(scan, &other)) {
            struct shorter shorter = {found->offset + (size_t)other.bytes, 0, (uint8_t)bit};
            look_at(scan, walk, found, &shorter, end);
        }
    }
}

int journal_was_shorter(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                        size_t *end)
{
    struct journal_lengths lengths = journal_lengths_of(found->kind);
    size_t own_end = *end = found->offset + (size_t)found->bytes;

    look_at_kinds(scan, walk, found, end);
    if (lengths.body)
        look_at_numbers(scan, walk, found, lengths.body, 1, end);
    if (lengths.files)
        look_at_numbers(scan, walk, found, lengths.files, JOURNAL_PLACE_BYTES, end);
    if (*end < own_end)
        journal_in_vain(scan, walk, (size_t)found->bytes);
    return PyErr_Occurred() ? -1 : *end < own_end;
}
