/* Records read and found in one call: the bytes go from the kernel to where Python keeps them and stay there. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "read.h"

#include "binlog.h"
#include "layout.h"

#include <errno.h>
#include <unistd.h>

/* Up to `bytes` from `offset`; fewer only where the file ends.  -1 with errno. */
Py_ssize_t binlog_read_all(int fd, uint8_t *data, Py_ssize_t bytes, int64_t offset)
{
    Py_ssize_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, data + done, (size_t)(bytes - done), offset + done);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

/* What Python gets: the data, the places of the records in them, and why the scan ended.  Takes the data. */
PyObject *binlog_found(PyObject *data, const uint32_t *places, int64_t count, int stop)
{
    Py_ssize_t bytes = (Py_ssize_t)((size_t)(count + 1) * sizeof(*places));
    PyObject *found = NULL, *offsets = PyBytes_FromStringAndSize((const char *)places, bytes);
    if (data && offsets)
        found = Py_BuildValue("(OOi)", data, offsets, stop);
    Py_XDECREF(data);
    Py_XDECREF(offsets);
    return found;
}

PyObject *binlog_read_records(PyObject *module, PyObject *args)
{
    int fd, stop = 0;
    long long offset;
    unsigned long long to_tail;
    uint64_t consumed;
    Py_ssize_t size, count_max, fit, got;
    int64_t count = 0;
    unsigned int record_bytes_max;
    PyObject *data, *found = NULL;
    uint32_t *places;

    (void)module;
    if (!PyArg_ParseTuple(args, "iLnKIn:read_records", &fd, &offset, &size, &to_tail, &record_bytes_max, &count_max))
        return NULL;
    fit = size / RECORD_BYTES; /* a record takes its length at least */
    places = PyMem_Malloc((size_t)((count_max < fit ? count_max : fit) + 1) * sizeof(*places));
    if (!places)
        return PyErr_NoMemory();
    data = PyBytes_FromStringAndSize(NULL, size);
    if (!data)
        goto out;
    uint8_t *to = (uint8_t *)PyBytes_AsString(data);
    Py_BEGIN_ALLOW_THREADS
    got = binlog_read_all(fd, to, size, offset);
    if (got >= 0)
        count = binlog_scan(to, (size_t)got, to_tail, record_bytes_max, places, count_max, &consumed, &stop);
    Py_END_ALLOW_THREADS
    if (got < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(data);
        goto out;
    }
    if (got < size) { /* the file was cut */
        PyObject *less = PyBytes_FromStringAndSize((const char *)to, got);
        Py_DECREF(data);
        data = less;
    }
    found = binlog_found(data, places, count, stop);
out:
    PyMem_Free(places);
    return found;
}
