/* The messages of one queue, picked out of a file of the commit log, in which those of other queues lie between them.
 *
 * What lies between two of them is read too where it is little: so the kernel reads ahead from a disk, which it does for
 * who goes on where it was (readahead(2)), and a call for each message is spared.
 */
#include "message.h"

#include "big_endian.h"
#include "layout.h"
#include "read.h"

#include <string.h>

#define GAP_MAX (16 << 10)
#define SPAN_MAX (1 << 20)

/* What to read: units of a queue that lead to whole messages in one file. */
struct pick {
    int fd;
    int64_t file_offset, file_bytes;
    const uint8_t *units;
    Py_ssize_t count;
};

static int64_t position(const struct pick *pick, Py_ssize_t i)
{
    return (int64_t)(get_u64(pick->units + i * QUEUE_UNIT_BYTES + QUEUE_UNIT_OFFSET) - (uint64_t)pick->file_offset);
}

static int64_t message_bytes(const struct pick *pick, Py_ssize_t i)
{
    return (int32_t)get_u32(pick->units + i * QUEUE_UNIT_BYTES + QUEUE_UNIT_MESSAGE_BYTES);
}

/* Leave out all from the first one on that is not in the file, or with which they are more than `bytes_max`, unless it is
 * the first.  How many bytes are left. */
static int64_t limit(struct pick *pick, int64_t bytes_max)
{
    int64_t total = 0;
    for (Py_ssize_t i = 0; i < pick->count; i++) {
        int64_t at = position(pick, i), bytes = message_bytes(pick, i);
        if (at < 0 || bytes <= 0 || at > pick->file_bytes - bytes || (i > 0 && total + bytes > bytes_max)) {
            pick->count = i;
            break;
        }
        total += bytes;
    }
    return total;
}

/* Up to which message one call reads, from the i-th on; in `span` what it reads, in `sum` what they take of it. */
static Py_ssize_t run_end(const struct pick *pick, Py_ssize_t i, int64_t *span, int64_t *sum)
{
    int64_t start = position(pick, i), end = start + message_bytes(pick, i);
    *sum = end - start;
    for (i++; i < pick->count; i++) {
        int64_t at = position(pick, i), bytes = message_bytes(pick, i);
        if (at < end || at - end > GAP_MAX || at + bytes - start > SPAN_MAX)
            break;
        end = at + bytes;
        *sum += bytes;
    }
    *span = end - start;
    return i;
}

/* Read them to `data`, one behind the other; how many there are of each, less where the file ends.  -1 with errno. */
static Py_ssize_t read_all(const struct pick *pick, uint8_t *data, uint8_t *between, Py_ssize_t *bytes)
{
    Py_ssize_t i = 0;
    *bytes = 0;
    while (i < pick->count) {
        int64_t span, sum;
        Py_ssize_t end = run_end(pick, i, &span, &sum);
        uint8_t *to = span == sum ? data + *bytes : between;
        Py_ssize_t got = binlog_read_all(pick->fd, to, (Py_ssize_t)span, position(pick, i));
        if (got < 0)
            return -1;
        if (got < span)
            break;
        for (int64_t first = position(pick, i); span != sum && i < end; i++) {
            memcpy(data + *bytes, between + (position(pick, i) - first), (size_t)message_bytes(pick, i));
            *bytes += (Py_ssize_t)message_bytes(pick, i);
        }
        *bytes += i < end ? (Py_ssize_t)sum : 0;
        i = end;
    }
    return i;
}

/* pick_messages(fd, file_offset, file_bytes, units, bytes_max): the bytes of messages to which units lead, one behind the
 * other, and how many they are: those that lie in the file, which starts at `file_offset` of the log, and are no more than
 * `bytes_max`, but for the first.  Raises OSError. */
PyObject *binlog_pick_messages(PyObject *module, PyObject *args)
{
    Py_buffer units;
    struct pick pick;
    long long file_offset, file_bytes, bytes_max;
    PyObject *data = NULL, *result = NULL;
    uint8_t *between = NULL;
    Py_ssize_t bytes = 0, count = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "iLLy*L:pick_messages", &pick.fd, &file_offset, &file_bytes, &units, &bytes_max))
        return NULL;
    pick.file_offset = file_offset;
    pick.file_bytes = file_bytes;
    pick.units = units.buf;
    pick.count = units.len / (Py_ssize_t)QUEUE_UNIT_BYTES;
    int64_t total = limit(&pick, bytes_max);
    data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    between = PyMem_Malloc(SPAN_MAX);
    if (!data || !between) {
        PyErr_NoMemory();
        goto out;
    }
    uint8_t *to = (uint8_t *)PyBytes_AsString(data);
    Py_BEGIN_ALLOW_THREADS
    count = read_all(&pick, to, between, &bytes);
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
