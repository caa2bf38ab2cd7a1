/* The records of a journal's file as columns, each a run of numbers, and bodies of some of them as Arrow has them.
 *
 * No Python object is made for any record, but for a load.  Numbers are of the machine's byte order.
 */
#include "journal.h"

#include <string.h>

#define RECORD_FIELDS 4

/* In the order of COLUMNS in binlog/format/journal/compiled.py. */
enum column {
    OFFSET, BYTES, TX_ID, RECORD_ID, BODY_OFFSET, /* int64 */
    BODY_BYTES, COUNTS_BYTES,                     /* int32 */
    KIND, USER_TYPE,                              /* uint8 */
    COLUMNS
};

static inline Py_ssize_t width_of(enum column column)
{
    return column < BODY_BYTES ? 8 : column <= COUNTS_BYTES ? 4 : 1;
}

/* The values of each column, and for how many there is room. */
struct values {
    char *of[COLUMNS];
    Py_ssize_t count, room;
};

static inline void put_value(struct values *values, enum column column, int64_t value)
{
    Py_ssize_t width = width_of(column);
    memcpy(values->of[column] + values->count * width, &value, (size_t)width); /* the low part of it comes first */
}

static int add_values(struct values *values, const struct journal_scan *scan, const struct journal_found *found)
{
    if (values->count == values->room) {
        values->room = values->room ? 2 * values->room : 1 << 10;
        for (int column = 0; column < COLUMNS; column++) {
            void *larger = PyMem_Realloc(values->of[column], (size_t)(values->room * width_of((enum column)column)));
            if (!larger) {
                PyErr_NoMemory();
                return -1;
            }
            values->of[column] = larger;
        }
    }
    put_value(values, OFFSET, (int64_t)found->offset);
    put_value(values, BYTES, (int64_t)found->bytes);
    put_value(values, TX_ID, found->tx_id);
    put_value(values, RECORD_ID, found->record_id);
    put_value(values, BODY_OFFSET, found->body - scan->data);
    put_value(values, BODY_BYTES, (int64_t)found->body_bytes);
    put_value(values, COUNTS_BYTES, (int64_t)found->counts_bytes);
    put_value(values, KIND, found->kind);
    put_value(values, USER_TYPE, found->user_type);
    values->count++;
    return 0;
}

static PyObject *make_columns(const struct values *values)
{
    PyObject *made = PyTuple_New(COLUMNS);
    for (int column = 0; made && column < COLUMNS; column++) {
        PyObject *bytes = PyBytes_FromStringAndSize(values->of[column], values->count * width_of((enum column)column));
        if (!bytes || PyTuple_SetItem(made, column, bytes) != 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* The value, which may be NULL, becomes the field of a new tuple. */
static int put(PyObject *tuple, Py_ssize_t field, PyObject *value)
{
    return value && PyTuple_SetItem(tuple, field, value) == 0;
}

/* What a load makes of a record: see scan_journal_columns. */
static PyObject *make_object(PyTypeObject *type, const struct journal_found *found)
{
    int kind = found->kind, is_update = kind == JOURNAL_KIND_UPDATE || kind == JOURNAL_KIND_UPDATE_TX;

    if (!is_update && kind != JOURNAL_KIND_ADD && kind != JOURNAL_KIND_ADD_TX) {
        if (kind == JOURNAL_KIND_DELETE_TX || kind == JOURNAL_KIND_PREPARE)
            return PyBytes_FromStringAndSize((const char *)found->body, (Py_ssize_t)found->body_bytes);
        return Py_NewRef(Py_None);
    }
    PyObject *record = PyType_GenericAlloc(type, RECORD_FIELDS);
    if (record && put(record, 0, PyLong_FromLongLong(found->record_id)) &&
        put(record, 1, PyLong_FromLong((long)found->user_type)) &&
        put(record, 2, PyBytes_FromStringAndSize((const char *)found->body, (Py_ssize_t)found->body_bytes)) &&
        put(record, 3, PyBool_FromLong(is_update))) {
        PyObject_GC_UnTrack(record); /* nothing in it can lead back to it, so the collector need never look at it */
        return record;
    }
    Py_XDECREF(record);
    return NULL;
}

/* Add `object`, which may be NULL, to the list and let go of it; -1 with an exception. */
static int add(PyObject *list, PyObject *object)
{
    int result = object ? PyList_Append(list, object) : -1;
    Py_XDECREF(object);
    return result;
}

/* Up to so many records; -1 with an exception.  type: of the objects; Py_None if nobody wants any. */
static int find(const struct journal_scan *scan, struct journal_walk *walk, struct values *values, PyObject *counts,
                PyObject *type, PyObject *objects, Py_ssize_t count_max)
{
    struct journal_found found;
    int more = 1;
    while (values->count < count_max && (more = journal_next(scan, walk, &found)) > 0)
        if (add_values(values, scan, &found) != 0 ||
            ((found.kind == JOURNAL_KIND_PREPARE || found.kind == JOURNAL_KIND_COMMIT) &&
             add(counts, PyBytes_FromStringAndSize((const char *)found.counts, (Py_ssize_t)found.counts_bytes)) != 0) ||
            (type != Py_None && add(objects, make_object((PyTypeObject *)type, &found)) != 0))
            return -1;
    return more;
}

/* scan_journal_columns(data, start, file_id, salt, old, count_max, record_type): the first records that `data`, a file's
 * bytes, has from `start` on, `count_max` of them at most.  In our layout `data` is written to: what the fragments of a record
 * hold is moved together.
 * How many they are; their columns; a list of the counts of each COMMIT and PREPARE; where the last one ends, from where another
 * call goes on; the gaps before it, as pairs of offsets; the offsets at which something only begins as a record, a thousand of
 * them at most; and an object for each if `record_type` is not None: for adds and updates one of that type, a named tuple of id,
 * user's type, body and whether it is an update; for DELETE_TX and PREPARE the body; else None. */
PyObject *binlog_scan_journal_columns(PyObject *module, PyObject *args)
{
    PyObject *data, *type;
    Py_buffer buffer = {0};
    Py_ssize_t start, salt_bytes, count_max;
    unsigned int file_id;
    const char *salt;
    struct journal_scan scan = {0};
    struct journal_walk walk;
    struct values values = {0};
    PyObject *columns = NULL, *counts, *objects, *all = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnIy#pnO:scan_journal_columns", &data, &start, &file_id, &salt, &salt_bytes, &scan.old,
                          &count_max, &type))
        return NULL;
    if (type != Py_None && !(PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type))) {
        PyErr_SetString(PyExc_TypeError, "records become named tuples");
        return NULL;
    }
    counts = PyList_New(0);
    objects = PyList_New(0);
    if (journal_walk_begin(&walk, start) == 0 && counts && objects &&
        journal_scan_begin(&scan, &buffer, data, file_id, salt, salt_bytes) == 0 &&
        find(&scan, &walk, &values, counts, type, objects, count_max) >= 0)
        columns = make_columns(&values);
    if (columns)
        all = Py_BuildValue("(nOOnOOO)", values.count, columns, counts, (Py_ssize_t)walk.end, walk.gaps, walk.doubts, objects);
    Py_XDECREF(columns);
    Py_XDECREF(counts);
    Py_XDECREF(objects);
    for (int column = 0; column < COLUMNS; column++)
        PyMem_Free(values.of[column]);
    journal_walk_end(&walk);
    PyBuffer_Release(&buffer);
    return all;
}

/* Bodies in a file's bytes; the arrays may lie at any address. */
struct bodies {
    Py_buffer data, offsets, sizes;
};

static int64_t offset_of(const struct bodies *bodies, Py_ssize_t i)
{
    int64_t offset;
    memcpy(&offset, (const char *)bodies->offsets.buf + i * 8, sizeof offset);
    return offset;
}

static int32_t size_of(const struct bodies *bodies, Py_ssize_t i)
{
    int32_t size;
    memcpy(&size, (const char *)bodies->sizes.buf + i * 4, sizeof size);
    return size;
}

/* Up to which body they are `bytes_max` at most, from `first` on, and one at least; in `total` what they take.  -1 with an
 * exception where one is not in the data. */
static Py_ssize_t find_stop(const struct bodies *bodies, Py_ssize_t first, Py_ssize_t bytes_max, Py_ssize_t *total)
{
    Py_ssize_t count = bodies->sizes.len / 4, i = first;
    for (*total = 0; i < count; i++) {
        int64_t offset = offset_of(bodies, i), size = size_of(bodies, i);
        if (offset < 0 || size < 0 || offset > bodies->data.len - size) {
            PyErr_SetString(PyExc_ValueError, "a body lies in the file");
            return -1;
        }
        if (i > first && *total + size > bytes_max)
            break;
        *total += size;
    }
    return i;
}

static PyObject *gather(const struct bodies *bodies, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t total)
{
    PyObject *bounds = PyBytes_FromStringAndSize(NULL, (stop - first + 1) * 4);
    PyObject *values = PyBytes_FromStringAndSize(NULL, total);
    if (!bounds || !values) {
        Py_XDECREF(bounds);
        Py_XDECREF(values);
        return NULL;
    }
    char *bound = PyBytes_AsString(bounds), *start = PyBytes_AsString(values), *at = start;
    for (Py_ssize_t i = first;; i++, bound += 4) {
        int32_t place = (int32_t)(at - start);
        memcpy(bound, &place, sizeof place);
        if (i == stop)
            break;
        memcpy(at, (const char *)bodies->data.buf + offset_of(bodies, i), (size_t)size_of(bodies, i));
        at += size_of(bodies, i);
    }
    return Py_BuildValue("(nNN)", stop - first, bounds, values);
}

/* gather_bodies(data, offsets, sizes, first, bytes_max): bodies that lie in `data`, from the first-th on as many as are
 * `bytes_max` together, and one at least where there is one.  How many they are, their bounds, int32 and one more, and
 * their bytes in one run.  offsets: int64.  sizes: int32, as many.  bytes_max: below 2**31. */
PyObject *binlog_gather_bodies(PyObject *module, PyObject *args)
{
    struct bodies bodies;
    Py_ssize_t first, bytes_max, total = 0;
    PyObject *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*nn:gather_bodies", &bodies.data, &bodies.offsets, &bodies.sizes, &first, &bytes_max))
        return NULL;
    Py_ssize_t count = bodies.sizes.len / 4;
    if (bodies.sizes.len % 4 || bodies.offsets.len != count * 8 || first < 0 || first > count || bytes_max > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "as many offsets as sizes, and less than 2 GiB");
    } else {
        Py_ssize_t stop = find_stop(&bodies, first, bytes_max, &total);
        result = stop < 0 ? NULL : gather(&bodies, first, stop, total);
    }
    PyBuffer_Release(&bodies.data);
    PyBuffer_Release(&bodies.offsets);
    PyBuffer_Release(&bodies.sizes);
    return result;
}
