/* The records of one call, all at once: how they lie in the file, and where each of them does.
 *
 * A pass in Python over a list takes longer than all that is done with a record here, and there would be six.  The list
 * is the caller's own copy, and nothing here runs other code in between: so it is the same in both functions.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "many.h"

#include "big_endian.h"
#include "layout.h"
#include "pairs.h"

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

/* frame_records(records, bytes_max): the bytes, or None for what needs a closer look. */
PyObject *binlog_frame_records(PyObject *module, PyObject *args)
{
    PyObject *records, *framed;
    Py_ssize_t bytes_max, total;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!n:frame_records", &PyList_Type, &records, &bytes_max))
        return NULL;
    total = framed_bytes(records, bytes_max);
    if (total < 0)
        Py_RETURN_NONE;
    if (!(framed = PyBytes_FromStringAndSize(NULL, total)))
        return NULL;
    uint8_t *at = (uint8_t *)PyBytes_AsString(framed);
    for (Py_ssize_t i = 0, count = PyList_Size(records); i < count; i++) {
        PyObject *record = PyList_GetItem(records, i);
        size_t bytes = (size_t)PyBytes_Size(record);
        put_u32(at, (uint32_t)bytes);
        memcpy(at + RECORD_BYTES, PyBytes_AsString(record), bytes);
        at += RECORD_BYTES + bytes;
    }
    return framed;
}

/* refs_of(ref_type, number, offset, records): where each lies, the first of them at `offset`. */
PyObject *binlog_refs_of(PyObject *module, PyObject *args)
{
    PyObject *type, *number, *records, *refs;
    long long offset;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!OLO!:refs_of", &PyType_Type, &type, &number, &offset, &PyList_Type, &records))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "a ref is a kind of tuple");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(records);
    /* Filled as it grows: making a tuple may collect garbage, which must not meet a list with gaps. */
    if (!(refs = PyList_New(0)))
        return NULL;
    for (Py_ssize_t i = 0; i < count && i < PyList_Size(records); i++) {
        Py_ssize_t bytes = PyBytes_Size(PyList_GetItem(records, i));
        PyObject *ref = bytes < 0 ? NULL : pair(type, Py_NewRef(number), PyLong_FromLongLong(offset));
        int failed = !ref || PyList_Append(refs, ref) != 0;
        Py_XDECREF(ref);
        if (failed) {
            Py_DECREF(refs);
            return NULL;
        }
        offset += RECORD_BYTES + bytes;
    }
    return refs;
}
