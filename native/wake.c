/* Looking for more at a log's end, after a wait or without one, and reading what was appended, in one call.
 *
 * A reader that was just woken runs with cold caches, where each step in Python takes microseconds.  Between the
 * wake-up and the records there are none here.  What is out of the ordinary is left to Python: nothing is changed then,
 * and it looks for itself, as it does without this call.  Nothing is compared with the index, which hardly ever covers what
 * was appended within the last second.
 */
#include "read.h"

#include "binlog.h"
#include "layout.h"

#include <endian.h>
#include <errno.h>

/* On the stack, so that a reader that waits holds no memory for it.  What is more is read by the calls that follow. */
#define WOKEN_BYTES 16384
#define WOKEN_RECORDS 1024
/* Less than a second, by more than one tick of the coarse clock. */
#define NEW_NS ((int64_t)900 * 1000 * 1000)

struct woken {
    struct binlog_known now;
    int look; /* enum binlog_header_change */
    int64_t count;
    Py_ssize_t bytes;
    int stop;
    uint32_t places[WOKEN_RECORDS + 1];
    uint8_t data[WOKEN_BYTES];
};

/* Reads at most `count_max` records from `offset` on if an append of ours moved the tail beyond it; otherwise it reads none. */
static void read_appended(struct woken *woken, const struct binlog_known *known, uint64_t offset, int64_t count_max,
                          uint32_t record_bytes_max)
{
    uint64_t to_tail, consumed;

    woken->count = 0;
    woken->look = binlog_header_peek(known, &woken->now);
    if (woken->look != BINLOG_HEADER_APPENDED || woken->now.tail <= offset)
        return;
    to_tail = woken->now.tail - offset;
    woken->bytes = to_tail < WOKEN_BYTES ? (Py_ssize_t)to_tail : WOKEN_BYTES;
    if (binlog_read_all(woken->now.fd, woken->data, woken->bytes, (int64_t)offset) != woken->bytes)
        return;
    woken->count = binlog_scan(woken->data, (size_t)woken->bytes, to_tail, record_bytes_max, woken->places,
                               count_max, &consumed, &woken->stop);
}

/* What read_records gives; NULL with an error. */
static PyObject *give(struct binlog_known *known, const struct woken *woken, uint64_t offset)
{
    PyObject *data = PyBytes_FromStringAndSize((const char *)woken->data, woken->bytes);
    PyObject *found = binlog_found(offset, data, woken->places, woken->count, woken->stop);
    if (found)
        *known = woken->now;
    return found;
}

/* known, bell: addresses of the header as it was believed and of the bell.  Returns what read_records does; or, where
 * the caller is to look for itself, what binlog_bell_wait did.
 *
 * The caller has made sure that the descriptor is the log's own: after the wait each call would keep the reader waiting. */
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
        read_appended(&woken, known, offset, WOKEN_RECORDS, record_bytes_max);
    Py_END_ALLOW_THREADS
    return woken.count ? give(known, &woken, offset) : PyLong_FromLong(result);
}

/* The same without waiting.  `offset` is the known tail; the caller has read everything before it.
 *
 * Returns what read_records does, at most `count_max` records; BINLOG_HEADER_SAME if there is no more; BINLOG_HEADER_UNSURE if
 * the
 * caller is to look for itself: also if there are more than `bytes_max` bytes, or if the last look was so long ago that the
 * index may cover them. */
PyObject *binlog_look_and_read(PyObject *module, PyObject *args)
{
    unsigned long long known_address, offset, bytes_max;
    Py_ssize_t count_max;
    unsigned int record_bytes_max;
    struct binlog_known *known;
    struct woken woken;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKnKI:look_and_read", &known_address, &offset, &count_max, &bytes_max,
                          &record_bytes_max))
        return NULL;
    known = (struct binlog_known *)(uintptr_t)known_address;
    Py_BEGIN_ALLOW_THREADS
    read_appended(&woken, known, offset, count_max < WOKEN_RECORDS ? count_max : WOKEN_RECORDS, record_bytes_max);
    /* A program that closed all descriptors may have given the number to a copy of this log, whose header says the same. */
    if (woken.look == BINLOG_HEADER_APPENDED && !binlog_fd_is(known->fd, known->device, known->inode))
        woken.look = BINLOG_HEADER_UNSURE;
    Py_END_ALLOW_THREADS
    if (bytes_max > WOKEN_BYTES)
        bytes_max = WOKEN_BYTES;
    if (woken.look == BINLOG_HEADER_SAME)
        *known = woken.now;
    else if (woken.look == BINLOG_HEADER_APPENDED && woken.count && woken.now.tail - offset <= bytes_max &&
             binlog_coarse_clock_ns() - known->looked_ns < NEW_NS)
        return give(known, &woken, offset);
    else
        woken.look = BINLOG_HEADER_UNSURE;
    return PyLong_FromLong(woken.look);
}
