/* Short calls that keep the interpreter's lock.
 *
 * Copying some kilobytes takes less time than releasing the lock and acquiring it again, which takes five milliseconds if
 * another thread waits for it (sys.setswitchinterval).
 */
#include <Python.h>

#include "binlog.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define HELD_BYTES_MAX (1 << 18)

enum store_result { STORED, FORKED, OUTSIDE };

/* fork_generation(): a number that differs in a forked child. */
PyObject *binlog_fork_generation_now(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLong(binlog_fork_generation());
}

/* write_gil_held(fd, data, offset): writes a few bytes to the page cache (pwrite(2)); returns 0 or the errno. */
PyObject *binlog_write_gil_held(PyObject *module, PyObject *args)
{
    int fd;
    Py_buffer data;
    long long offset;

    (void)module;
    if (!PyArg_ParseTuple(args, "iy*L:write_gil_held", &fd, &data, &offset))
        return NULL;
    int result = binlog_write(fd, data.buf, (size_t)data.len, offset);
    PyBuffer_Release(&data);
    return PyLong_FromLong(-result);
}

/* store_mapped(map, file_bytes, generation, offset, data): copies `data` to an offset of a mapping; returns 0, 1 in a forked
 * child, or 2 if the bytes are not within the file.  map: the mapping's address. */
PyObject *binlog_store_mapped(PyObject *module, PyObject *args)
{
    unsigned long long map;
    Py_ssize_t file_bytes, offset;
    unsigned long generation;
    Py_buffer data;
    enum store_result result = STORED;

    (void)module;
    if (!PyArg_ParseTuple(args, "Knkny*:store_mapped", &map, &file_bytes, &generation, &offset, &data))
        return NULL;
    if (binlog_fork_generation() != (uint32_t)generation) {
        result = FORKED;
    } else if (offset < 0 || data.len > file_bytes || offset > file_bytes - data.len) {
        result = OUTSIDE;
    } else if (data.len <= HELD_BYTES_MAX) {
        binlog_mapped_write((void *)(uintptr_t)map, (size_t)offset, data.buf, (size_t)data.len);
    } else {
        Py_BEGIN_ALLOW_THREADS
        binlog_mapped_write((void *)(uintptr_t)map, (size_t)offset, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromLong(result);
}

/* read_cached(fd, size, offset): reads up to `size` bytes that are in the page cache (preadv2(2), RWF_NOWAIT); returns fewer
 * at the end of the file, or if the rest is not cached, and None if the call fails. */
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
    PyObject *part = got < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(place.iov_base, got);
    Py_DECREF(data);
    return part;
}
