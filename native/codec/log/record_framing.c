/* Frames records with their lengths, removes the lengths, and scans for records, many at once.
 *
 * A pass in Python over a list takes longer than everything done with a record here, and there would be six.  The list is the
 * caller's own copy, and nothing here runs other code, so it is the same in each pass. */
#include <Python.h>

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

/* Returns their framed size; -1 if one is not exactly bytes, or is larger than `bytes_max`. */
static Py_ssize_t framed_bytes(PyObject *records, Py_ssize_t bytes_max)
{
    Py_ssize_t total = 0, count = PyList_Size(records);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *record = PyList_GetItem(records, i);
        if (!PyBytes_CheckExact(record) || PyBytes_Size(record) > bytes_max)
            return -1;
        total += RECORD_BYTES + PyBytes_Size(record);
    }
    return total;
}

/* frame_records(records, bytes_max): returns the framed bytes, and the offset of each record in them, as uint64; or None if the
 * caller must check the records. */
PyObject *binlog_frame_records(PyObject *module, PyObject *args)
{
    PyObject *records, *framed, *starts;
    Py_ssize_t bytes_max, total;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!n:frame_records", &PyList_Type, &records, &bytes_max))
        return NULL;
    total = framed_bytes(records, bytes_max);
    if (total < 0)
        Py_RETURN_NONE;
    Py_ssize_t count = PyList_Size(records);
    framed = PyBytes_FromStringAndSize(NULL, total);
    starts = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(uint64_t));
    if (!framed || !starts) {
        Py_XDECREF(framed);
        Py_XDECREF(starts);
        return NULL;
    }
    uint8_t *data = (uint8_t *)PyBytes_AsString(framed), *at = data;
    char *start = PyBytes_AsString(starts);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *record = PyList_GetItem(records, i);
        size_t bytes = (size_t)PyBytes_Size(record);
        uint64_t offset = (uint64_t)(at - data);
        memcpy(start, &offset, sizeof offset); /* the bytes of an object may begin anywhere */
        start += sizeof offset;
        put_u32(at, (uint32_t)bytes);
        memcpy(at + RECORD_BYTES, PyBytes_AsString(record), bytes);
        at += RECORD_BYTES + bytes;
    }
    return Py_BuildValue("(NN)", framed, starts);
}

/* Returns the framed size of the records in a run; -1 if their bounds do not rise within the run, or if the size exceeds 32-bit
 * offsets. */
static int64_t spread_bytes(const int32_t *bounds, Py_ssize_t count, Py_ssize_t bytes)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (bounds[i] < 0 || bounds[i] > bounds[i + 1])
            return -1;
    if (bounds[0] < 0 || bounds[count] > bytes)
        return -1;
    int64_t total = (int64_t)bounds[count] - bounds[0] + (int64_t)count * RECORD_BYTES;
    return total > UINT32_MAX ? -1 : total;
}

static PyObject *frame_values(const uint8_t *values, const int32_t *bounds, Py_ssize_t count, int64_t total)
{
    PyObject *framed = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    PyObject *places = PyBytes_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(uint32_t));
    if (!framed || !places) {
        Py_XDECREF(framed);
        Py_XDECREF(places);
        return NULL;
    }
    uint8_t *data = (uint8_t *)PyBytes_AsString(framed), *at = data;
    char *place = PyBytes_AsString(places);
    for (Py_ssize_t i = 0; i <= count; i++) {
        uint32_t offset = (uint32_t)(at - data);
        memcpy(place, &offset, sizeof offset);
        place += sizeof offset;
        if (i == count)
            break;
        size_t bytes = (size_t)(bounds[i + 1] - bounds[i]);
        put_u32(at, (uint32_t)bytes);
        memcpy(at + RECORD_BYTES, values + bounds[i], bytes);
        at += RECORD_BYTES + bytes;
    }
    return Py_BuildValue("(NN)", framed, places);
}

/* frame_values(values, bounds): returns the records of a run, framed, and the offset of each and the end of the last, as
 * uint32; or None if the bounds, int32 and one more than records, are invalid. */
PyObject *binlog_frame_values(PyObject *module, PyObject *args)
{
    Py_buffer values, bounds;
    PyObject *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:frame_values", &values, &bounds))
        return NULL;
    Py_ssize_t count = bounds.len / (Py_ssize_t)sizeof(int32_t) - 1;
    int aligned = (uintptr_t)bounds.buf % sizeof(int32_t) == 0 && bounds.len % (Py_ssize_t)sizeof(int32_t) == 0;
    int64_t total = aligned && count >= 0 ? spread_bytes(bounds.buf, count, values.len) : -1;
    if (total >= 0)
        result = frame_values(values.buf, bounds.buf, count, total);
    else
        result = Py_NewRef(Py_None);
    PyBuffer_Release(&values);
    PyBuffer_Release(&bounds);
    return result;
}

/* Returns the size of records without their lengths; -1 if the offsets do not rise by at least a length within the data, or if
 * the size exceeds 32-bit bounds. */
static int64_t gather_bytes(const uint32_t *offsets, Py_ssize_t count, Py_ssize_t bytes)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (offsets[i + 1] < RECORD_BYTES || offsets[i] > offsets[i + 1] - RECORD_BYTES)
            return -1;
    if (offsets[count] > bytes)
        return -1;
    int64_t total = (int64_t)offsets[count] - offsets[0] - (int64_t)count * RECORD_BYTES;
    return total > INT32_MAX ? -1 : total;
}

static PyObject *strip_lengths(const uint8_t *data, const uint32_t *offsets, Py_ssize_t count, int64_t total)
{
    PyObject *values = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    PyObject *bounds = PyBytes_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(int32_t));
    if (!values || !bounds) {
        Py_XDECREF(values);
        Py_XDECREF(bounds);
        return NULL;
    }
    uint8_t *value = (uint8_t *)PyBytes_AsString(values), *at = value;
    char *bound = PyBytes_AsString(bounds);
    for (Py_ssize_t i = 0; i <= count; i++) {
        int32_t start = (int32_t)(at - value);
        memcpy(bound, &start, sizeof start);
        bound += sizeof start;
        if (i == count)
            break;
        size_t length = offsets[i + 1] - offsets[i] - RECORD_BYTES;
        memcpy(at, data + offsets[i] + RECORD_BYTES, length);
        at += length;
    }
    return Py_BuildValue("(NN)", values, bounds);
}

/* unframe_values(data, offsets): the reverse of frame_values.  Returns the records in one run without their lengths, and
 * their bounds, int32 and one more than records; or None if the offsets, uint32, are invalid. */
PyObject *binlog_unframe_values(PyObject *module, PyObject *args)
{
    Py_buffer data, offsets;
    PyObject *result = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:unframe_values", &data, &offsets))
        return NULL;
    Py_ssize_t count = offsets.len / (Py_ssize_t)sizeof(uint32_t) - 1;
    int aligned = (uintptr_t)offsets.buf % sizeof(uint32_t) == 0 && offsets.len % (Py_ssize_t)sizeof(uint32_t) == 0;
    int64_t total = aligned && count >= 0 ? gather_bytes(offsets.buf, count, data.len) : -1;
    if (total >= 0)
        result = strip_lengths(data.buf, offsets.buf, count, total);
    else
        result = Py_NewRef(Py_None);
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    return result;
}

/* scan_records(data, to_tail, record_bytes_max, count_max): returns the offsets of the whole records at the start of `data` and
 * the end of the last, as uint32, and why the scan ended (enum binlog_scan_stop).  to_tail: the distance to the log's tail. */
PyObject *binlog_scan_records(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned long long to_tail;
    unsigned int record_bytes_max;
    Py_ssize_t count_max;
    uint64_t consumed;
    int64_t count = -1;
    int stop = BINLOG_SCAN_END;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*KIn:scan_records", &data, &to_tail, &record_bytes_max, &count_max))
        return NULL;
    /* A record has at least four bytes, so no more fit than this, and a small read makes a small array. */
    Py_ssize_t fit = data.len / RECORD_BYTES;
    uint32_t *offsets = PyMem_Malloc(((size_t)(count_max < fit ? count_max : fit) + 1) * sizeof *offsets);
    if (offsets) {
        Py_BEGIN_ALLOW_THREADS
        count = binlog_scan(data.buf, (size_t)data.len, to_tail, record_bytes_max, offsets, count_max, &consumed, &stop);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    if (count < 0)
        return PyErr_NoMemory();
    PyObject *found = Py_BuildValue("(y#i)", (const char *)offsets, (Py_ssize_t)(count + 1) * 4, stop);
    PyMem_Free(offsets);
    return found;
}

/* some_record_starts_with(data, offsets, prefix): whether one of the records does.  data, offsets: of a Batch. */
PyObject *binlog_some_record_starts_with(PyObject *module, PyObject *args)
{
    Py_buffer data, offsets, prefix;
    int found = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*:some_record_starts_with", &data, &offsets, &prefix))
        return NULL;
    const uint32_t *places = offsets.buf;
    Py_ssize_t count = offsets.len / (Py_ssize_t)sizeof *places - 1;
    for (Py_ssize_t i = 0; i < count && !found; i++) {
        Py_ssize_t start = (Py_ssize_t)places[i] + RECORD_BYTES, end = places[i + 1];
        found = end <= data.len && end - start >= prefix.len && memcmp((const char *)data.buf + start, prefix.buf, (size_t)prefix.len) == 0;
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&prefix);
    return PyBool_FromLong(found);
}
