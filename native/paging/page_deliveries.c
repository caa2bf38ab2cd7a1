/* The file of deliveries of a page: how often each of its messages was delivered.
 *
 * Writing a count keeps the interpreter's lock, as the calls of gil_held.c do.
 */
#include "page.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

/* write_delivery(fd, salt, number, count): writes the delivery count of a message to its page's file of deliveries, as
 * pack_delivery in binlog/format/paging/deliveries_file.py packs it; returns 0 or the errno. */
PyObject *binlog_write_delivery(PyObject *module, PyObject *args)
{
    int fd;
    const char *salt;
    Py_ssize_t salt_bytes;
    unsigned int number, count;
    uint8_t counted[PAGE_SALT_BYTES + 8], record[DELIVERY_BYTES];

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
    int result = binlog_write(fd, record, sizeof record, DELIVERIES_HEADER_BYTES + (int64_t)number * DELIVERY_BYTES);
    return PyLong_FromLong(-result);
}
