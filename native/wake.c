/* Waiting for the bell and reading what was appended, in one call.
 *
 * A reader that was just woken runs with cold caches, where each step in Python takes microseconds.  Between the
 * wake-up and the records there are none here.  What is out of the ordinary is left to Python: nothing is changed then,
 * and it looks for itself, as it does without this call.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "read.h"

#include "binlog.h"
#include "layout.h"

#include <endian.h>
#include <errno.h>

/* On the stack, so that a reader that waits holds no memory for it.  What is more is read by the calls that follow. */
#define WOKEN_BYTES 16384

struct woken {
    struct binlog_known now;
    int64_t count;
    Py_ssize_t bytes;
    int stop;
    uint32_t places[WOKEN_BYTES / RECORD_BYTES + 1];
    uint8_t data[WOKEN_BYTES];
};

/* The records from `offset` on, where an append of ours moved the tail beyond it; else none. */
static void read_appended(struct woken *woken, const struct binlog_known *known, uint64_t offset,
                          uint32_t record_bytes_max)
{
    uint64_t to_tail, consumed;

    if (binlog_header_peek(known, &woken->now) != BINLOG_LOOK_APPENDED || woken->now.tail <= offset)
        return;
    to_tail = woken->now.tail - offset;
    woken->bytes = to_tail < WOKEN_BYTES ? (Py_ssize_t)to_tail : WOKEN_BYTES;
    if (binlog_read_all(woken->now.fd, woken->data, woken->bytes, (int64_t)offset) != woken->bytes)
        return;
    woken->count = binlog_scan(woken->data, (size_t)woken->bytes, to_tail, record_bytes_max, woken->places,
                               WOKEN_BYTES / RECORD_BYTES, &consumed, &woken->stop);
}

/* known, bell: addresses of the header as it was believed and of the bell.  Returns what read_records does; or, where
 * the caller is to look for itself, what binlog_bell_wait did. */
PyObject *binlog_wait_and_read(PyObject *module, PyObject *args)
{
    unsigned long long known_address, bell, offset;
    long long timeout_ns;
    unsigned int record_bytes_max;
    struct binlog_known *known;
    struct woken woken;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKLKI:wait_and_read", &known_address, &bell, &timeout_ns, &offset, &record_bytes_max))
        return NULL;
    known = (struct binlog_known *)(uintptr_t)known_address;
    woken.count = 0;
    Py_BEGIN_ALLOW_THREADS
    result = binlog_bell_wait((void *)(uintptr_t)bell, htobe32(known->bell_before), timeout_ns);
    if (result == 0 || result == -EAGAIN)
        read_appended(&woken, known, offset, record_bytes_max);
    Py_END_ALLOW_THREADS
    if (!woken.count)
        return PyLong_FromLong(result);
    PyObject *data = PyBytes_FromStringAndSize((const char *)woken.data, woken.bytes);
    PyObject *found = binlog_found(offset, data, woken.places, woken.count, woken.stop);
    if (found)
        *known = woken.now;
    return found;
}
