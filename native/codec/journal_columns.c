/* The records of a journal's file as columns, each a run of numbers, and bodies of some of them as Arrow has them.
 *
 * No Python object is made for any record.  Numbers are of the machine's byte order.
 */
#include "journal.h"

#include "layout.h"

#include <string.h>

/* In the order of COLUMNS in binlog/format/journal/compiled.py. */
enum column {
    OFFSET, BYTES, TX_ID, RECORD_ID, BODY_OFFSET, /* int64 */
    BODY_BYTES, COUNTS_BYTES,                     /* int32 */
    KIND, USER_TYPE,                              /* uint8 */
    COLUMNS
};

static Py_ssize_t width_of(enum column column)
{
    return column < BODY_BYTES ? 8 : column <= COUNTS_BYTES ? 4 : 1;
}

static int64_t number(const struct journal_scan *scan, const struct journal_found *found, enum column column)
{
    switch (column) {
    case OFFSET: return (int64_t)found->offset;
    case BYTES: return (int64_t)found->bytes;
    case TX_ID: return found->tx_id;
    case RECORD_ID: return found->record_id;
    case BODY_OFFSET: return found->body - scan->data;
    case BODY_BYTES: return (int64_t)found->body_bytes;
    case COUNTS_BYTES: return (int64_t)found->counts_bytes;
    case KIND: return found->kind;
    default: return found->user_type;
    }
}

static PyObject *make_column(const struct journal_scan *scan, const struct journal_found *found, Py_ssize_t count,
                             enum column column)
{
    Py_ssize_t width = width_of(column);
    PyObject *values = PyBytes_FromStringAndSize(NULL, count * width);
    char *at = values ? PyBytes_AsString(values) : NULL;
    for (Py_ssize_t i = 0; values && i < count; i++, at += width) {
        int64_t value = number(scan, &found[i], column); /* the low part of it comes first */
        memcpy(at, &value, (size_t)width);
    }
    return values;
}

static PyObject *make_columns(const struct journal_scan *scan, const struct journal_found *found, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(COLUMNS);
    for (int column = 0; made && column < COLUMNS; column++) {
        PyObject *values = make_column(scan, found, count, (enum column)column);
        if (!values || PyTuple_SetItem(made, column, values) != 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* Up to so many records; how many they are, or -1 with an exception. */
static Py_ssize_t find(const struct journal_scan *scan, struct journal_walk *walk, struct journal_found *found,
                       Py_ssize_t count_max)
{
    Py_ssize_t count = 0;
    int more = 1;
    while (count < count_max && (more = journal_next(scan, walk, &found[count])) > 0)
        count++;
    return more < 0 ? -1 : count;
}

/* scan_journal_columns(data, start, file_id, salt, old, count_max): the first records that `data`, a file's
 * bytes, has from `start` on, `count_max` of them at most. How many they are; their columns; where the last one
 * ends, from where another call goes on; the gaps and doubts met, as scan_journal gives them. */
PyObject *binlog_scan_journal_columns(PyObject *module, PyObject *args)
{
    PyObject *data;
    Py_buffer buffer = {0};
    Py_ssize_t start, salt_bytes, count_max, count = -1;
    unsigned int file_id;
    const char *salt;
    struct journal_scan scan = {0};
    struct journal_walk walk;
    struct journal_found *found = NULL;
    PyObject *all = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnIy#pn:scan_journal_columns", &data, &start, &file_id, &salt, &salt_bytes, &scan.old, &count_max))
        return NULL;
    if (journal_walk_begin(&walk, start) == 0 &&
        journal_scan_begin(&scan, &buffer, data, file_id, salt, salt_bytes) == 0) {
        /* No record is smaller than that, so there is room for all. */
        Py_ssize_t room = buffer.len / JOURNAL_DELETE_BYTES + 1;
        count_max = count_max < 0 ? 0 : count_max > room ? room : count_max;
        found = PyMem_Malloc((size_t)(count_max + 1) * sizeof *found);
        if (found)
            count = find(&scan, &walk, found, count_max);
        else
            PyErr_NoMemory();
    }
    PyObject *columns = count >= 0 ? make_columns(&scan, found, count) : NULL;
    if (columns)
        all = Py_BuildValue("(nNnOO)", count, columns, (Py_ssize_t)walk.end, walk.gaps, walk.doubts);
    PyMem_Free(found);
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
