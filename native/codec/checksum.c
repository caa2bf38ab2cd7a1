/* Checksums as Python calls them: crc32.c and crc32c.c compute them. */
#include "message.h"

#include "codec.h"

/* Less than this takes less time than to give the interpreter's lock away and have it again, which takes 5 ms where another
 * thread waits for it (sys.setswitchinterval). */
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

/* crc32c(data, crc=0): CRC-32C of `data`, going on from `crc`. */
PyObject *binlog_crc32c_of(PyObject *module, PyObject *args)
{
    (void)module;
    return checksum(args, "y*|I:crc32c", binlog_crc32c);
}

/* crc32(data, crc=0): the same by zlib's polynomial. */
PyObject *binlog_crc32_of(PyObject *module, PyObject *args)
{
    (void)module;
    return checksum(args, "y*|I:crc32", binlog_crc32);
}
