/* What begins as a record of a file in the bytes of another one of it: see binlog/journal/lookalikes.py. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#define MARK_BYTES 5 /* a kind and the file's id, with which each record begins */
#define BLOCK_BYTES ((size_t)128)

/* Whether some data begins as a record does, as far as the mark is there. */
static int is_marked(const uint8_t *data, size_t bytes, const uint8_t *id)
{
    size_t id_bytes = bytes < MARK_BYTES ? bytes - 1 : MARK_BYTES - 1;
    return journal_is_kind(data[0]) && memcmp(data + 1, id, id_bytes) == 0;
}

/* Whether an id lies at any of the first BLOCK_BYTES of some data, which has so many more; made for the compiler to look at
 * many places at once. */
static inline __attribute__((always_inline)) int look_for_id(const uint8_t *data, const uint8_t *id)
{
    uint8_t found = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        found |= (uint8_t)((data[i] == id[0]) & (data[i + 1] == id[1]) & (data[i + 2] == id[2]) & (data[i + 3] == id[3]));
    return found;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static int look_for_id_at_32(const uint8_t *data, const uint8_t *id)
{
    return look_for_id(data, id);
}

static int has_id(const uint8_t *data, const uint8_t *id)
{
    return __builtin_cpu_supports("avx2") ? look_for_id_at_32(data, id) : look_for_id(data, id);
}
#else
#define has_id look_for_id
#endif

/* Whether a mark that begins in a record may end behind it: in zeros, or in the mark of the next record. */
static int may_go_on(const uint8_t *id)
{
    return id[3] == 0 || journal_is_kind(id[3]) || (journal_is_kind(id[2]) && id[3] == id[0]);
}

/* The first place, from one on, where a mark lies whole; or the first one where none could. */
static size_t next_mark(const uint8_t *data, size_t bytes, size_t place, const uint8_t *id)
{
    size_t stop = bytes < MARK_BYTES ? 0 : bytes - MARK_BYTES + 1;

    while (place < stop) {
        size_t left = stop - place;
        /* The last block may begin before the place. */
        const uint8_t *block = data + (left < BLOCK_BYTES && stop > BLOCK_BYTES ? stop - BLOCK_BYTES : place);
        if (stop > BLOCK_BYTES && !has_id(block + 1, id)) {
            place = left < BLOCK_BYTES ? stop : place + BLOCK_BYTES;
            continue;
        }
        for (size_t block_end = place + (left < BLOCK_BYTES ? left : BLOCK_BYTES); place < block_end; place++)
            if (is_marked(data + place, MARK_BYTES, id))
                return place;
    }
    return place;
}

int journal_holds_mark(const uint8_t *record, size_t bytes, uint32_t file_id)
{
    uint8_t id[4];

    put_u32(id, file_id);
    size_t place = next_mark(record, bytes, 1, id);
    if (place + MARK_BYTES <= bytes)
        return 1;
    if (may_go_on(id))
        for (; place < bytes; place++)
            if (is_marked(record + place, bytes - place, id))
                return 1;
    return 0;
}

/* Bytes of a file, with zeros behind them, and what is looked for; offsets are of the file, and places those in the data.
 * own: there lies a record that was put there; what would end before that was judged before.  open: where the first one
 * begins of which the head is not whole. */
struct look {
    struct journal_scan scan;
    struct journal_walk walk;
    size_t bytes, file_stop, own, open;
    Py_ssize_t count_max;
    PyObject *begun;
};

/* Room for the longest head, and for the rest of a check. */
#define ROOM_BEHIND 32

/* FAILED: with an exception. */
enum answer { FAILED = -1, FORGED, HARMLESS };

static enum answer add(struct look *look, size_t place, const struct journal_found *found)
{
    size_t start = (size_t)look->scan.base + place;
    PyObject *each = Py_BuildValue("(nn)", (Py_ssize_t)start, (Py_ssize_t)(start + (size_t)found->bytes));
    int added = each ? PyList_Append(look->begun, each) : -1;
    Py_XDECREF(each);
    if (added != 0)
        return FAILED;
    return PyList_Size(look->begun) > look->count_max ? FORGED : HARMLESS;
}

/* What begins at a place where a mark does. */
static enum answer judge(struct look *look, size_t place)
{
    struct journal_scan whole_file = look->scan;
    struct journal_found found;

    whole_file.stop = look->file_stop;
    if (!journal_begins(&whole_file, place, &found)) {
        if (place + MARK_BYTES > look->bytes && place < look->open)
            look->open = place;
        return HARMLESS;
    }
    int is_inside = journal_measure(&whole_file, place, &found);
    if (place + found.head_bytes > look->bytes && place < look->open)
        look->open = place;
    if (!is_inside || place + found.bytes <= look->own)
        return HARMLESS;
    size_t checked = (size_t)found.bytes - JOURNAL_CHECK_BYTES;
    if (place + checked < look->bytes) {
        if (journal_check_holds(&look->scan, &look->walk, place, checked))
            return FORGED;
        if (PyErr_Occurred())
            return FAILED;
    }
    return place + found.bytes > look->bytes ? add(look, place, &found) : HARMLESS;
}

static enum answer go_through(struct look *look)
{
    const uint8_t *data = look->scan.data;
    enum answer answer = HARMLESS;
    uint8_t id[4];

    put_u32(id, look->scan.use.file_id);
    for (size_t place = 0; place < look->bytes && answer == HARMLESS; place++) {
        place = next_mark(data, look->bytes, place, id);
        if (place < look->bytes && place != look->own && is_marked(data + place, look->bytes - place, id))
            answer = judge(look, place);
    }
    return answer;
}

/* The answer for Python, where all is there that it takes. */
static PyObject *find(struct look *look)
{
    switch (go_through(look)) {
    case FAILED:
        return NULL;
    case FORGED:
        return Py_NewRef(Py_None);
    default:
        return Py_BuildValue("(On)", look->begun, (Py_ssize_t)(look->scan.base + look->open));
    }
}

/* find_lookalikes(data, at, own, file_id, salt, file_bytes, count_max): what of the data, which lies at the offset
 * `at` of a file and counts as if only zeros were behind it, begins as a record of the file, and would end behind it: for
 * each where it begins and would end.  Then where the first one begins whose head is not whole: what comes next says where
 * that ends.  None where one is sound that ends in the data, or whose check begins there, or there are more than count_max.
 * own: what begins there, or would end before that, is left out. */
PyObject *binlog_find_lookalikes(PyObject *module, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, own, salt_bytes, file_bytes;
    unsigned int file_id;
    const char *salt;
    struct look look = {0};
    uint8_t *view = NULL;
    PyObject *answer = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*nnIy#nn:find_lookalikes", &data, &at, &own, &file_id, &salt, &salt_bytes,
                          &file_bytes, &look.count_max))
        return NULL;
    if (journal_use(&look.scan.use, file_id, salt, salt_bytes) != 0 || journal_walk_begin(&look.walk, 0) != 0)
        ;
    else if (!look.scan.use.salt || at < 0 || own < at || file_bytes - at < data.len)
        PyErr_SetString(PyExc_ValueError, "a file with a salt, and bytes that it has");
    else if (!(look.begun = PyList_New(0)) || !(view = calloc(1, (size_t)data.len + ROOM_BEHIND)))
        PyErr_NoMemory();
    else {
        memcpy(view, data.buf, (size_t)data.len);
        look.bytes = look.open = (size_t)data.len;
        look.scan.data = view;
        look.scan.base = (uint64_t)at;
        look.scan.stop = look.bytes + ROOM_BEHIND;
        look.file_stop = (size_t)(file_bytes - at);
        look.own = (size_t)(own - at);
        answer = find(&look);
    }
    free(view);
    Py_XDECREF(look.begun);
    journal_walk_end(&look.walk);
    PyBuffer_Release(&data);
    return answer;
}

/* skip_marked(data, file_id, count_max): how many ids, from `file_id` on one behind the other, lie more than count_max times
 * in the data behind the number of a kind; so often at most the next one does. */
PyObject *binlog_skip_marked(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned int file_id, count_max;
    size_t skipped = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*II:skip_marked", &data, &file_id, &count_max))
        return NULL;
    const uint8_t *bytes = data.buf;
    size_t places = data.len < MARK_BYTES ? 0 : (size_t)data.len - MARK_BYTES + 1;
    /* Each id that is skipped takes more places than that, so that of so many ids one at least is not. */
    size_t ids = places / ((size_t)count_max + 1) + 1;
    uint32_t *counts = calloc(ids, sizeof *counts);
    int has_room = counts != NULL;
    if (has_room) {
        for (size_t place = 0; place < places; place++) {
            uint32_t number = get_u32(bytes + place + 1) - file_id;
            if (number < ids && journal_is_kind(bytes[place]))
                counts[number]++;
        }
        while (counts[skipped] > count_max)
            skipped++;
        free(counts);
    }
    PyBuffer_Release(&data);
    return has_room ? PyLong_FromSize_t(skipped) : PyErr_NoMemory();
}

/* carry_crc(crc, bytes): what becomes of the difference of two CRC-32Cs that go on over the same so many bytes, whichever
 * these are. */
PyObject *binlog_carry_crc(PyObject *module, PyObject *args)
{
    unsigned int crc;
    unsigned long long bytes;

    (void)module;
    if (!PyArg_ParseTuple(args, "IK:carry_crc", &crc, &bytes))
        return NULL;
    return PyLong_FromUnsignedLong(binlog_crc32c_rest(0, crc, bytes));
}
