/* Reads the messages of one queue from a file of the commit log, which has messages of other queues between them.
 *
 * Small gaps between two messages are read too.  So the kernel sees a sequential read and reads ahead (readahead(2)), and one
 * call reads many messages.
 */
#include "message.h"

#include "big_endian.h"
#include "layout.h"
#include "read.h"

#include <string.h>

#define GAP_MAX (16 << 10)
#define SPAN_MAX (1 << 20)

/* The units of the messages to read, and the file with the messages. */
struct selection {
    int fd;
    int64_t file_offset, file_bytes;
    const uint8_t *units;
    Py_ssize_t count;
};

static int64_t position(const struct selection *selection, Py_ssize_t i)
{
    return (int64_t)(get_u64(selection->units + i * QUEUE_UNIT_BYTES + QUEUE_UNIT_OFFSET) - (uint64_t)selection->file_offset);
}

static int64_t message_bytes(const struct selection *selection, Py_ssize_t i)
{
    return (int32_t)get_u32(selection->units + i * QUEUE_UNIT_BYTES + QUEUE_UNIT_MESSAGE_BYTES);
}

/* Drop the units from the first one that is not in the file, or that exceeds `bytes_max`, unless it is the first.  Return the
 * size of the remaining messages. */
static int64_t limit(struct selection *selection, int64_t bytes_max)
{
    int64_t total = 0;
    for (Py_ssize_t i = 0; i < selection->count; i++) {
        int64_t at = position(selection, i), bytes = message_bytes(selection, i);
        if (at < 0 || bytes <= 0 || at > selection->file_bytes - bytes || (i > 0 && total + bytes > bytes_max)) {
            selection->count = i;
            break;
        }
        total += bytes;
    }
    return total;
}

/* Return the end of the messages that one call reads from the i-th on; `span` is the size of the read, `sum` of the messages. */
static Py_ssize_t run_end(const struct selection *selection, Py_ssize_t i, int64_t *span, int64_t *sum)
{
    int64_t start = position(selection, i), end = start + message_bytes(selection, i);
    *sum = end - start;
    for (i++; i < selection->count; i++) {
        int64_t at = position(selection, i), bytes = message_bytes(selection, i);
        if (at < end || at - end > GAP_MAX || at + bytes - start > SPAN_MAX)
            break;
        end = at + bytes;
        *sum += bytes;
    }
    *span = end - start;
    return i;
}

/* Read the messages into `data` without gaps; return their number, which is smaller if the file ends.  -1 with errno. */
static Py_ssize_t read_all(const struct selection *selection, uint8_t *data, uint8_t *between, Py_ssize_t *bytes)
{
    Py_ssize_t i = 0;
    *bytes = 0;
    while (i < selection->count) {
        int64_t span, sum;
        Py_ssize_t end = run_end(selection, i, &span, &sum);
        uint8_t *to = span == sum ? data + *bytes : between;
        Py_ssize_t got = binlog_read_all(selection->fd, to, (Py_ssize_t)span, position(selection, i));
        if (got < 0)
            return -1;
        if (got < span)
            break;
        for (int64_t first = position(selection, i); span != sum && i < end; i++) {
            memcpy(data + *bytes, between + (position(selection, i) - first), (size_t)message_bytes(selection, i));
            *bytes += (Py_ssize_t)message_bytes(selection, i);
        }
        *bytes += i < end ? (Py_ssize_t)sum : 0;
        i = end;
    }
    return i;
}

/* select_messages(fd, file_offset, file_bytes, units, bytes_max): the messages of these units, concatenated, and their number.
 * Reads messages in the file that starts at `file_offset` of the log, and at most `bytes_max` bytes unless the first message is
 * larger.  Raises OSError. */
PyObject *binlog_select_messages(PyObject *module, PyObject *args)
{
    Py_buffer units;
    struct selection selection;
    long long file_offset, file_bytes, bytes_max;
    PyObject *data = NULL, *result = NULL;
    uint8_t *between = NULL;
    Py_ssize_t bytes = 0, count = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "iLLy*L:select_messages", &selection.fd, &file_offset, &file_bytes, &units, &bytes_max))
        return NULL;
    selection.file_offset = file_offset;
    selection.file_bytes = file_bytes;
    selection.units = units.buf;
    selection.count = units.len / (Py_ssize_t)QUEUE_UNIT_BYTES;
    int64_t total = limit(&selection, bytes_max);
    data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    between = PyMem_Malloc(SPAN_MAX);
    if (!data || !between) {
        PyErr_NoMemory();
        goto out;
    }
    uint8_t *to = (uint8_t *)PyBytes_AsString(data);
    Py_BEGIN_ALLOW_THREADS
    count = read_all(&selection, to, between, &bytes);
    Py_END_ALLOW_THREADS
    if (count < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    else if (bytes == (Py_ssize_t)total)
        result = Py_BuildValue("(On)", data, count);
    else /* the file was cut */
        result = Py_BuildValue("(y#n)", (const char *)to, bytes, count);
out:
    Py_XDECREF(data);
    PyMem_Free(between);
    PyBuffer_Release(&units);
    return result;
}
