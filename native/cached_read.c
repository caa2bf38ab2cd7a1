/* Reading what the page cache has, without letting another thread run: see native/mapped_store.c for what that costs. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "message.h"

#include <sys/uio.h>

/* read_cached(fd, size, offset): up to `size` bytes, fewer where the file ends or the rest is not in memory; None where
 * that cannot be told (preadv2(2), RWF_NOWAIT). */
PyObject *binlog_read_cached(PyObject *module, PyObject *args)
{
    int fd;
    Py_ssize_t size;
    long long offset;

    (void)module;
    if (!PyArg_ParseTuple(args, "inL:read_cached", &fd, &size, &offset))
        return NULL;
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (!data)
        return NULL;
    struct iovec place = {PyBytes_AsString(data), (size_t)size};
    ssize_t got = preadv2(fd, &place, 1, offset, RWF_NOWAIT);
    if (got == size)
        return data;
    PyObject *found = got < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(place.iov_base, got);
    Py_DECREF(data);
    return found;
}
