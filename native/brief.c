/* Calls that are over sooner than another thread runs, and keep the interpreter's lock: see native/mapped_store.c for what
 * giving it away costs. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "brief.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"
#include "page.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Some thirty microseconds. */
#define HELD_BYTES_MAX ((Py_ssize_t)1 << 18)

static uint32_t (*generation)(void);

/* connect_brief(generation): takes the address of binlog_fork_generation. */
PyObject *binlog_connect_brief(PyObject *module, PyObject *args)
{
    unsigned long long address;
    (void)module;
    if (!PyArg_ParseTuple(args, "K:connect_brief", &address))
        return NULL;
    generation = (uint32_t (*)(void))(uintptr_t)address;
    Py_RETURN_NONE;
}

/* fork_generation(): a number that differs in a forked child. */
PyObject *binlog_fork_generation_now(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLong(generation());
}

/* write_brief(fd, data, offset): a pwrite(2) of a few bytes, to the page cache; 0, or the error's number. */
PyObject *binlog_write_brief(PyObject *module, PyObject *args)
{
    int fd;
    Py_buffer data;
    long long offset;
    ssize_t done;

    (void)module;
    if (!PyArg_ParseTuple(args, "iy*L:write_brief", &fd, &data, &offset))
        return NULL;
    do
        done = pwrite(fd, data.buf, (size_t)data.len, (off_t)offset);
    while (done < 0 && errno == EINTR);
    PyBuffer_Release(&data);
    return PyLong_FromLong(done < 0 ? errno : done == data.len ? 0 : ENOSPC);
}

/* write_delivery(fd, salt, number, count): how often a message of a page was given, in its file of deliveries, as
 * pack_delivery in binlog/format/paging/deliveries_file.py has it; as write_brief. */
PyObject *binlog_write_delivery(PyObject *module, PyObject *args)
{
    int fd;
    const char *salt;
    Py_ssize_t salt_bytes;
    unsigned int number, count;
    uint8_t counted[PAGE_SALT_BYTES + 8], record[DELIVERY_BYTES];
    ssize_t done;

    (void)module;
    if (!PyArg_ParseTuple(args, "iy#II:write_delivery", &fd, &salt, &salt_bytes, &number, &count))
        return NULL;
    if (salt_bytes != PAGE_SALT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes");
        return NULL;
    }
    memcpy(counted, salt, PAGE_SALT_BYTES);
    put_u32(counted + PAGE_SALT_BYTES, number);
    put_u32(counted + PAGE_SALT_BYTES + 4, count);
    put_u32(record + DELIVERY_COUNT, count);
    put_u32(record + DELIVERY_CRC, binlog_crc32c(0, counted, sizeof counted));
    do
        done = pwrite(fd, record, sizeof record, DELIVERIES_HEADER_BYTES + (off_t)number * DELIVERY_BYTES);
    while (done < 0 && errno == EINTR);
    return PyLong_FromLong(done < 0 ? errno : done == sizeof record ? 0 : ENOSPC);
}

/* crc32c(data, crc=0): CRC-32C of `data`, going on from `crc`. */
PyObject *binlog_crc32c_of(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned int crc = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*|I:crc32c", &data, &crc))
        return NULL;
    if (data.len <= HELD_BYTES_MAX) {
        crc = binlog_crc32c(crc, data.buf, (size_t)data.len);
    } else {
        Py_BEGIN_ALLOW_THREADS
        crc = binlog_crc32c(crc, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}
