/* Whether one bit of damage has made a record longer, and it is sound all the same.
 *
 * So it is where its check lies then in the body of a later record, which is hidden, or in what an earlier use of the file
 * has left: whoever gave that, and knew the salt, has put it there.  But without the bit it is sound up to where it ended,
 * as no record is that was so appended, see journal_shorter.c.  To ask all of that would take as long as to find a record;
 * but where it ended, another sound one lies, within it, or if it was the last one the zeros do that are behind that.  These
 * are seen at a glance, and almost never there.
 *
 * Over zeros alone none grows.  x + 1 divides the polynomial of CRC-32C (G. Castagnoli et al., 1993), so all that is sound
 * at one place has an even number of set bits, or all an odd one; and one bit, with zeros, makes the one of the other. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal_shorter.h"

#include "binlog.h"

struct longer {
    const struct journal_scan *scan;
    struct journal_walk *walk;
    size_t offset, end;
};

/* Whether the record may be one that ended there; an exception where there is no memory. */
static int may_have_ended(void *context, size_t bytes)
{
    const struct longer *longer = context;
    const struct journal_scan *scan = longer->scan;
    size_t end = longer->offset + bytes;
    struct journal_found other;

    if (scan->data[end] && !journal_is_kind(scan->data[end]))
        return 0; /* as almost always */
    size_t next = journal_place(scan, end);
    if (next < longer->end && scan->data[next]) {
        if (journal_is_sound(scan, longer->walk, next, &other) != 1)
            return 0;
        /* One of the two is none; else who made a file could have each byte gone through as often as it likes. */
        journal_in_vain(scan, longer->walk, (size_t)other.bytes);
        return 1;
    }
    size_t room = scan->stop - end;
    return journal_is_zero(scan->data + end, room < JOURNAL_ZEROS_BEHIND ? room : JOURNAL_ZEROS_BEHIND);
}

int journal_was_shorter(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                        size_t *end)
{
    struct longer longer = {scan, walk, found->offset, found->offset + (size_t)found->bytes};
    struct journal_all_shorter all;
    const uint8_t *record = scan->data + found->offset;

    journal_list_shorter(&all, scan, found->offset, (size_t)found->bytes, may_have_ended, &longer);
    if (PyErr_Occurred())
        return -1;
    if (all.count == 0)
        return 0;
    uint32_t seed = journal_check_seed(&scan->use, scan->base + found->offset), crc = seed;
    size_t done = 0;
    int was_shorter = 0;
    for (const struct journal_shorter *shorter = all.each; !was_shorter && shorter < all.each + all.count; shorter++) {
        crc = walk->spans.before ? crc_spans_of(&walk->spans, seed, found->offset, shorter->checked)
                                 : binlog_crc32c(crc, record + done, shorter->checked - done);
        walk->crc_bytes += walk->spans.before ? 2 * CRC_SPANS_STEP : shorter->checked - done;
        done = shorter->checked;
        was_shorter = (crc ^ binlog_crc32c_bit(shorter->bit, done - shorter->place - 1)) == get_u32(record + done);
    }
    *end = found->offset + done + JOURNAL_CHECK_BYTES;
    journal_in_vain(scan, walk, was_shorter ? (size_t)found->bytes : done);
    return PyErr_Occurred() ? -1 : was_shorter;
}
