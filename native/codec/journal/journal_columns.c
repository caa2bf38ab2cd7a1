/* Records of a journal file as columns, each an array of numbers, and bodies in the form that Arrow uses.
 *
 * Makes no Python object for a record, except for a load.  Numbers are in the byte order of the machine.
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

/* The values of each column, and their capacity. */
struct values {
    char *of[COLUMNS];
    Py_ssize_t count, room;
};

static inline void put_value(struct values *values, enum column column, int64_t value)
{
    Py_ssize_t width = width_of(column);
    memcpy(values->of[column] + values->count * width, &value, (size_t)width); /* little-endian: the low bytes come first */
}

static int add_values(struct values *values, const struct journal_scan *scan, const struct journal_record *record)
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
    put_value(values, OFFSET, (int64_t)record->offset);
    put_value(values, BYTES, (int64_t)record->bytes);
    put_value(values, TX_ID, record->tx_id);
    put_value(values, RECORD_ID, record->record_id);
    put_value(values, BODY_OFFSET, record->body - scan->data);
    put_value(values, BODY_BYTES, (int64_t)record->body_bytes);
    put_value(values, COUNTS_BYTES, (int64_t)record->counts_bytes);
    put_value(values, KIND, record->kind);
    put_value(values, USER_TYPE, record->user_type);
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

/* Store a value, which may be NULL, in a field of a new tuple; the tuple takes the reference. */
static int put(PyObject *tuple, Py_ssize_t field, PyObject *value)
{
    return value && PyTuple_SetItem(tuple, field, value) == 0;
}

/* Return the object of a record for a load: see scan_journal_columns. */
static PyObject *make_object(PyTypeObject *type, const struct journal_record *record)
{
    int kind = record->kind, is_update = kind == JOURNAL_KIND_UPDATE || kind == JOURNAL_KIND_UPDATE_TX;

    if (!is_update && kind != JOURNAL_KIND_ADD && kind != JOURNAL_KIND_ADD_TX) {
        if (kind == JOURNAL_KIND_DELETE_TX || kind == JOURNAL_KIND_PREPARE)
            return PyBytes_FromStringAndSize((const char *)record->body, (Py_ssize_t)record->body_bytes);
        return Py_NewRef(Py_None);
    }
    PyObject *object = PyType_GenericAlloc(type, RECORD_FIELDS);
    if (object && put(object, 0, PyLong_FromLongLong(record->record_id)) &&
        put(object, 1, PyLong_FromLong((long)record->user_type)) &&
        put(object, 2, PyBytes_FromStringAndSize((const char *)record->body, (Py_ssize_t)record->body_bytes)) &&
        put(object, 3, PyBool_FromLong(is_update))) {
        PyObject_GC_UnTrack(object); /* it cannot be part of a cycle, so the collector need not visit it */
        return object;
    }
    Py_XDECREF(object);
    return NULL;
}

/* Append `object`, which may be NULL, to a list, and release it; -1 with an exception. */
static int add(PyObject *list, PyObject *object)
{
    int result = object ? PyList_Append(list, object) : -1;
    Py_XDECREF(object);
    return result;
}

/* Scan up to `count_max` records; -1 with an exception.  type: of their objects, or Py_None for no objects. */
static int find(const struct journal_scan *scan, struct journal_walk *walk, struct values *values, PyObject *counts,
                PyObject *type, PyObject *objects, Py_ssize_t count_max)
{
    struct journal_record record;
    int more = 1;
    while (values->count < count_max && (more = journal_next(scan, walk, &record)) > 0)
        if (add_values(values, scan, &record) != 0 ||
            ((record.kind == JOURNAL_KIND_PREPARE || record.kind == JOURNAL_KIND_COMMIT) &&
             add(counts, PyBytes_FromStringAndSize((const char *)record.counts, (Py_ssize_t)record.counts_bytes)) != 0) ||
            (type != Py_None && add(objects, make_object((PyTypeObject *)type, &record)) != 0))
            return -1;
    return more;
}

/* scan_journal_columns(data, start, file_id, salt, old, count_max, record_type): scan at most `count_max` records of a file
 * from an offset on.  Writes to the data of a native file: moves the fragments of a record together.
 * Returns their count; their columns; a list of the packed counts of each COMMIT and PREPARE; the end of the last record, at
 * which to continue; gaps, as pairs of offsets; suspects; and a list of objects, one for each record unless `record_type` is
 * None: an add or update becomes a `record_type`, which is a named tuple of id,
 * user_type, body and is_update; a DELETE_TX or
 * PREPARE becomes its body; other kinds become None. */
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
        PyErr_SetString(PyExc_TypeError, "record_type must be a named tuple");
        return NULL;
    }
    counts = PyList_New(0);
    objects = PyList_New(0);
    if (journal_walk_begin(&walk, start) == 0 && counts && objects &&
        journal_scan_begin(&scan, &buffer, data, file_id, salt, salt_bytes) == 0 &&
        find(&scan, &walk, &values, counts, type, objects, count_max) >= 0)
        columns = make_columns(&values);
    if (columns)
        all = Py_BuildValue("(nOOnOOO)", values.count, columns, counts, (Py_ssize_t)walk.end, walk.gaps, walk.suspects, objects);
    Py_XDECREF(columns);
    Py_XDECREF(counts);
    Py_XDECREF(objects);
    for (int column = 0; column < COLUMNS; column++)
        PyMem_Free(values.of[column]);
    journal_walk_end(&walk);
    PyBuffer_Release(&buffer);
    return all;
}

/* Bodies in the bytes of a file.  The arrays may be unaligned. */
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

/* Return the end of a run of bodies from `first` on, of at most `bytes_max` but at least one body; *total: their size.
 * -1 with an exception if a body is outside of the data. */
static Py_ssize_t find_stop(const struct bodies *bodies, Py_ssize_t first, Py_ssize_t bytes_max, Py_ssize_t *total)
{
    Py_ssize_t count = bodies->sizes.len / 4, i = first;
    for (*total = 0; i < count; i++) {
        int64_t offset = offset_of(bodies, i), size = size_of(bodies, i);
        if (offset < 0 || size < 0 || offset > bodies->data.len - size) {
            PyErr_SetString(PyExc_ValueError, "a body is outside of the file");
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
        int32_t offset = (int32_t)(at - start);
        memcpy(bound, &offset, sizeof offset);
        if (i == stop)
            break;
        memcpy(at, (const char *)bodies->data.buf + offset_of(bodies, i), (size_t)size_of(bodies, i));
        at += size_of(bodies, i);
    }
    return Py_BuildValue("(nNN)", stop - first, bounds, values);
}

/* gather_bodies(data, offsets, sizes, first, bytes_max): copy bodies from the data, from the index `first` on, up to
 * `bytes_max` in total but at least one.  offsets: int64.  sizes: int32, as many.  bytes_max: below 2**31.
 * Returns their count; their bounds, int32, one more than bodies; and their bytes in one run. */
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
        PyErr_SetString(PyExc_ValueError, "offsets and sizes differ in number, or bytes_max is 2 GiB or more");
    } else {
        Py_ssize_t stop = find_stop(&bodies, first, bytes_max, &total);
        result = stop < 0 ? NULL : gather(&bodies, first, stop, total);
    }
    PyBuffer_Release(&bodies.data);
    PyBuffer_Release(&bodies.offsets);
    PyBuffer_Release(&bodies.sizes);
    return result;
}
