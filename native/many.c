/* The records of one call, all at once, as they lie in the file.
 *
 * A pass in Python over a list takes longer than all that is done with a record here, and there would be six.  The list
 * is the caller's own copy, and nothing here runs other code in between: so it is the same in each pass.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "many.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

/* Their size when framed; -1 where one is not exactly bytes, or larger than `bytes_max`. */
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

/* frame_records(records, bytes_max): the bytes, and where in them each record begins, as uint64; or None for what needs a
 * closer look. */
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
