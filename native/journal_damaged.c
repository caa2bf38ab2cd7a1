/* Where a record ends that is damaged, so that nothing within it is taken for another one.
 *
 * No bytes within a record are sound as they were written; but who has read the salt can put some into a body that damage
 * makes sound, a sector that is lost or a bit.  So what lies where a record must, behind a sound one, is believed as to its
 * length where that is borne out.
 *
 * - Its head leads to where another sound record lies, or to where all records end: then it ends there.
 * - With one bit of what leads there changed it is sound itself: then it ends where that says.  Where its head leads to
 *   another record as it is, the bit was flipped only if sound records lead there too, for they must not be lost: a flipped
 *   bit may well lead to a later record, where all are as long.
 * - It is sound, and longer than it was: see journal_longer.c.
 *
 * Only where a record must lie: heads within a body are whoever's, and could lead over the records of others.  Nothing here
 * depends on what was found before, for a walk may begin anew behind any record.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

static size_t aligned(const struct journal_scan *scan, size_t offset)
{
    return offset + (scan->alignment - offset % scan->alignment) % scan->alignment;
}

size_t journal_place(const struct journal_scan *scan, size_t end)
{
    if (end < scan->stop && scan->data[end])
        return end; /* most often, and to divide takes long */
    size_t place = aligned(scan, end);
    return place <= scan->stop && journal_is_zero(scan->data + end, place - end) ? place : end;
}

/* Where a head leads: the record's end, and where the next one lies; is_last: all records end there, and zeros follow. */
struct way {
    size_t end, next;
    int is_last;
};

/* Look for the last sound record behind a place, once: 0, or -1 with an exception. */
static int find_last(const struct journal_scan *scan, struct journal_walk *walk, size_t place)
{
    struct journal_found found;
    size_t offset = scan->stop;

    while (!walk->is_last_known && --offset > place) {
        int is_sound = journal_is_sound(scan, walk, offset, &found);
        if (is_sound < 0)
            return -1;
        walk->is_last_known = is_sound;
        walk->last = offset;
    }
    if (!walk->is_last_known)
        walk->last = place;
    walk->is_last_known = 1;
    return 0;
}

/* Whether all records of the file end where the one at a place would: its check is there, zeros follow, and no record
 * begins behind it. */
static int is_end(const struct journal_scan *scan, struct journal_walk *walk, size_t place, size_t end)
{
    size_t stop = aligned(scan, end) + JOURNAL_ZEROS_BEHIND;

    if (stop > scan->stop && !scan->is_whole)
        return 0;
    stop = stop > scan->stop ? scan->stop : stop;
    if (get_u32(scan->data + end - JOURNAL_CHECK_BYTES) == 0 || !journal_is_zero(scan->data + end, stop - end))
        return 0;
    return find_last(scan, walk, place) != 0 ? -1 : walk->last < end;
}

/* Whether the head at a place leads to where something bears it out: 1, and the way; 0; -1 with an exception. */
static int find_way(const struct journal_scan *scan, struct journal_walk *walk, size_t place, struct way *way)
{
    struct journal_found found;

    if (!journal_begins(scan, place, &found) || !journal_measure(scan, place, &found))
        return 0;
    way->end = place + (size_t)found.bytes;
    way->next = journal_place(scan, way->end);
    way->is_last = 0;
    int is_sound = journal_is_sound(scan, walk, way->next, &found);
    if (is_sound != 0)
        return is_sound;
    way->is_last = is_end(scan, walk, place, way->end);
    return way->is_last;
}

/* Whether sound records lie from an end on, one behind the other, up to where a way leads; -1 with an exception.
 *
 * Where that is zeros, one that lies at the end is enough: something that is no check lies before zeros in the body of the
 * last record too, and in what an earlier use of the file has left behind that. */
static int lead_there(const struct journal_scan *scan, struct journal_walk *walk, size_t end, const struct way *way)
{
    struct journal_found found;
    size_t place = journal_place(scan, end);

    while (place < way->next) {
        int is_sound = journal_is_sound(scan, walk, place, &found);
        if (is_sound < 0)
            return -1;
        if (is_sound && way->is_last)
            return 1;
        if (!is_sound)
            break;
        place = journal_place(scan, place + (size_t)found.bytes);
    }
    /* Zeros may end the last check. */
    return place == way->next || (way->is_last && place + JOURNAL_CHECK_BYTES > way->end);
}

/* A head with one bit changed, and zeros where the file ends before that does. */
struct changed {
    uint8_t head[JOURNAL_HEAD_MAX];
    struct journal_found found;
};

/* FAILED: with an exception. */
enum evidence { FAILED = -1, NONE, SOUND, BORNE_OUT };

/* Whether what lies behind an end shows that the record at a place has it. */
static enum evidence behind(const struct journal_scan *scan, struct journal_walk *walk, size_t place,
                            const struct way *way, size_t end)
{
    struct journal_found found;
    int is_there;

    if (way) {
        is_there = lead_there(scan, walk, end, way);
        return is_there < 0 ? FAILED : is_there ? BORNE_OUT : NONE;
    }
    is_there = journal_is_sound(scan, walk, journal_place(scan, end), &found);
    if (is_there == 0)
        is_there = is_end(scan, walk, place, end);
    return is_there < 0 ? FAILED : is_there ? BORNE_OUT : SOUND;
}

/* Whether the record at a place is sound with the changed head, and ends before `way` does, if that is there. */
static enum evidence is_sound_so(const struct journal_scan *scan, struct journal_walk *walk, size_t place,
                                 const struct way *way, struct changed *changed)
{
    struct journal_found *found = &changed->found;

    if (!journal_measure_so(scan, changed->head, place, found))
        return NONE;
    size_t end = place + (size_t)found->bytes;
    /* Which record would lie there is seen at a glance, and whether this one is sound is not. */
    if (way && (end >= way->end || journal_place(scan, end) > way->next))
        return NONE;
    if (!journal_check_holds_so(scan, walk, place, changed->head, found))
        return PyErr_Occurred() ? FAILED : NONE;
    return behind(scan, walk, place, way, end);
}

#define MARK 0x1FULL /* kind and file id, with which each head begins */

/* Which bytes of a head are its lengths, a bit for each. */
static uint64_t length_bytes(int kind)
{
    struct journal_lengths lengths = journal_lengths_of(kind);
    return (lengths.body ? 0xFULL << lengths.body : 0) | (lengths.files ? 0xFULL << lengths.files : 0);
}

/* Whether the record at a place is sound but for one bit of what says where it ends: 1, and the end; 0; -1 with an
 * exception.  way: where its head leads as it is; NULL where that is nowhere.
 *
 * With two bits changed one may be sound too, which reaches over others.  Of those that are borne out the shortest is the
 * one: within what was appended nothing else is sound. */
static int find_flipped(const struct journal_scan *scan, struct journal_walk *walk, size_t place, const struct way *way,
                        size_t *end)
{
    struct changed changed = {0};
    size_t room = scan->stop - place;
    uint64_t bytes = MARK | length_bytes(scan->data[place]);
    enum evidence best = NONE;

    memcpy(changed.head, scan->data + place, room < JOURNAL_HEAD_MAX ? room : JOURNAL_HEAD_MAX);
    for (size_t bit = 0; bit < 8 * JOURNAL_HEAD_MAX; bit++) {
        uint8_t mask = (uint8_t)(1 << bit % 8);
        if (!(bytes >> bit / 8 & 1))
            continue;
        changed.head[bit / 8] ^= mask;
        enum evidence evidence = is_sound_so(scan, walk, place, way, &changed);
        changed.head[bit / 8] ^= mask;
        if (evidence == FAILED)
            return -1;
        size_t its_end = place + (size_t)changed.found.bytes;
        if (evidence > best || (evidence == best && evidence != NONE && its_end < *end)) {
            best = evidence;
            *end = its_end;
        }
    }
    return best != NONE;
}

int journal_damaged_end(const struct journal_scan *scan, struct journal_walk *walk, size_t place, size_t *end)
{
    struct journal_found found;
    struct way way;

    int was_shorter = journal_is_sound(scan, walk, place, &found);
    if (was_shorter > 0)
        was_shorter = journal_was_shorter(scan, walk, &found, end);
    if (was_shorter != 0)
        return was_shorter;
    int is_led = find_way(scan, walk, place, &way);
    if (is_led < 0)
        return -1;
    int is_flipped = find_flipped(scan, walk, place, is_led ? &way : NULL, end);
    if (is_flipped == 0 && is_led)
        *end = way.end;
    return is_flipped < 0 ? -1 : is_flipped || is_led;
}
