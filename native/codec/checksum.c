/* The checksum functions of binlog._codec; crc32.c and crc32c.c compute them. */
#include "message.h"

#include "codec.h"

/* Up to this size the computation takes less time than releasing the interpreter's lock and acquiring it again, which takes
 * 5 ms if another thread waits for it (sys.setswitchinterval). */
#define HELD_BYTES_MAX ((Py_ssize_t)1 << 18)

static PyObject *checksum(PyObject *args, const char *format, uint32_t (*function)(uint32_t, const uint8_t *, size_t))
{
    Py_buffer data;
    unsigned int crc = 0;

    if (!PyArg_ParseTuple(args, format, &data, &crc))
        return NULL;
    if (data.len <= HELD_BYTES_MAX) {
        crc = function(crc, data.buf, (size_t)data.len);
    } else {
        Py_BEGIN_ALLOW_THREADS
        crc = function(crc, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

/* crc32c(data, crc=0): the CRC-32C of `data`, continued from `crc`. */
PyObject *binlog_crc32c_of(PyObject *module, PyObject *args)
{
    (void)module;
    return checksum(args, "y*|I:crc32c", binlog_crc32c);
}

/* crc32(data, crc=0): the CRC-32 of `data`, continued from `crc`, as zlib.crc32. */
PyObject *binlog_crc32_of(PyObject *module, PyObject *args)
{
    (void)module;
    return checksum(args, "y*|I:crc32", binlog_crc32);
}
