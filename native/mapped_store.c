/* Stores to a mapped file, called from Python without letting another thread run.
 *
 * A copy of some kilobytes takes less time than giving the interpreter's lock away and having it again, which, where
 * another thread waits for it, is five milliseconds (sys.setswitchinterval).
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "message.h"

#include <stdint.h>

#define HELD_BYTES_MAX (1 << 18)

enum store_result { STORED, FORKED, OUTSIDE };

static struct {
    uint32_t (*generation)(void);
    void (*write)(void *, size_t, const void *, size_t);
} native;

/* connect_mapped(generation, write): takes the addresses of binlog_fork_generation and binlog_mapped_write. */
PyObject *binlog_connect_mapped(PyObject *module, PyObject *args)
{
    unsigned long long generation, write;
    (void)module;
    if (!PyArg_ParseTuple(args, "KK:connect_mapped", &generation, &write))
        return NULL;
    native.generation = (uint32_t (*)(void))(uintptr_t)generation;
    native.write = (void (*)(void *, size_t, const void *, size_t))(uintptr_t)write;
    Py_RETURN_NONE;
}

/* store_mapped(map, file_bytes, generation, offset, data): all of `data` at `offset` of the map at that address; 0, or why
 * not: 1 for a process that was forked, 2 where it leads out of the file. */
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
    if (native.generation() != (uint32_t)generation) {
        result = FORKED;
    } else if (offset < 0 || data.len > file_bytes || offset > file_bytes - data.len) {
        result = OUTSIDE;
    } else if (data.len <= HELD_BYTES_MAX) {
        native.write((void *)(uintptr_t)map, (size_t)offset, data.buf, (size_t)data.len);
    } else {
        Py_BEGIN_ALLOW_THREADS
        native.write((void *)(uintptr_t)map, (size_t)offset, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromLong(result);
}
