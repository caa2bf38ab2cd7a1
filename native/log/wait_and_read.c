/* Reads the records at a log's end, after a wait or without one, in one call.
 *
 * A reader that was just woken runs with cold caches, where each step in Python takes microseconds.  Between the wake-up and
 * the records there is none.  Anything unusual is left to Python: then nothing is changed, and Python reads as it does without
 * this call.  Nothing is compared with the index, which hardly ever covers records of the last second.
 *
 * A reader that waits for long, although a writer appends, is not stuck here: see Cursor.ready in binlog/log/read/cursor.py. */
#include "read.h"

#include "binlog.h"
#include "layout.h"

#include <endian.h>
#include <errno.h>

/* On the stack, so that a waiting reader needs no memory for it.  Later calls read the rest. */
#define APPENDED_BYTES 16384
#define APPENDED_RECORDS 1024
/* Less than a second, by more than a tick of the coarse clock. */
#define FRESH_NS ((int64_t)900 * 1000 * 1000)

struct appended {
    struct binlog_header_cache now;
    int change; /* enum binlog_header_change */
    int64_t count;
    Py_ssize_t bytes;
    int stop;
    uint32_t places[APPENDED_RECORDS + 1];
    uint8_t data[APPENDED_BYTES];
};

/* Reads at most `count_max` records from `offset` on, if a native append moved the tail past it; otherwise none. */
static void read_appended(struct appended *appended, const struct binlog_header_cache *cache, uint64_t offset, int64_t count_max,
                          uint32_t record_bytes_max)
{
    uint64_t to_tail, consumed;

    appended->count = 0;
    appended->change = binlog_header_read_again(cache, &appended->now);
    if (appended->change != BINLOG_HEADER_APPENDED || appended->now.tail <= offset)
        return;
    to_tail = appended->now.tail - offset;
    appended->bytes = to_tail < APPENDED_BYTES ? (Py_ssize_t)to_tail : APPENDED_BYTES;
    if (binlog_read_all(appended->now.fd, appended->data, appended->bytes, (int64_t)offset) != appended->bytes)
        return;
    appended->count = binlog_scan(appended->data, (size_t)appended->bytes, to_tail, record_bytes_max, appended->places,
                               count_max, &consumed, &appended->stop);
}

/* Builds the result of read_records, and updates the cache.  NULL with an error. */
static PyObject *take_records(struct binlog_header_cache *cache, const struct appended *appended, uint64_t offset)
{
    PyObject *data = PyBytes_FromStringAndSize((const char *)appended->data, appended->bytes);
    PyObject *found = binlog_raw_records(offset, data, appended->places, appended->count, appended->stop);
    if (found)
        *cache = appended->now;
    return found;
}

/* cache, bell: addresses of the header cache and of the mapped doorbell.  Returns the result of read_records, or of
 * binlog_bell_wait if the caller must read the header.
 *
 * The caller has checked that the descriptor is the log's own, because a call after the wait would delay the reader. */
PyObject *binlog_wait_and_read(PyObject *module, PyObject *args)
{
    unsigned long long cache_address, bell, offset;
    long long timeout_ns;
    unsigned int record_bytes_max;
    struct binlog_header_cache *cache;
    struct appended appended;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKLKI:wait_and_read", &cache_address, &bell, &timeout_ns, &offset, &record_bytes_max))
        return NULL;
    cache = (struct binlog_header_cache *)(uintptr_t)cache_address;
    appended.count = 0;
    Py_BEGIN_ALLOW_THREADS
    result = binlog_bell_wait((void *)(uintptr_t)bell, htobe32(cache->doorbell_at_previous_read), timeout_ns);
    if (result == 0 || result == -EAGAIN)
        read_appended(&appended, cache, offset, APPENDED_RECORDS, record_bytes_max);
    Py_END_ALLOW_THREADS
    return appended.count ? take_records(cache, &appended, offset) : PyLong_FromLong(result);
}

/* The same without waiting.  `offset` is the cached tail; the caller has read everything before it.
 *
 * Returns the result of read_records, with at most `count_max` records; BINLOG_HEADER_SAME if there is no more;
 * BINLOG_HEADER_UNSURE if the caller must read the header: also if there are more than `bytes_max` bytes, or if the cache is so
 * old that the index may cover the records. */
PyObject *binlog_refresh_and_read(PyObject *module, PyObject *args)
{
    unsigned long long cache_address, offset, bytes_max;
    Py_ssize_t count_max;
    unsigned int record_bytes_max;
    struct binlog_header_cache *cache;
    struct appended appended;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKnKI:refresh_and_read", &cache_address, &offset, &count_max, &bytes_max,
                          &record_bytes_max))
        return NULL;
    cache = (struct binlog_header_cache *)(uintptr_t)cache_address;
    Py_BEGIN_ALLOW_THREADS
    read_appended(&appended, cache, offset, count_max < APPENDED_RECORDS ? count_max : APPENDED_RECORDS, record_bytes_max);
    /* If a program closed all descriptors, the number may be of a copy of this log, with the same header. */
    if (appended.change == BINLOG_HEADER_APPENDED && !binlog_fd_is(cache->fd, cache->device, cache->inode))
        appended.change = BINLOG_HEADER_UNSURE;
    Py_END_ALLOW_THREADS
    if (bytes_max > APPENDED_BYTES)
        bytes_max = APPENDED_BYTES;
    if (appended.change == BINLOG_HEADER_SAME)
        *cache = appended.now;
    else if (appended.change == BINLOG_HEADER_APPENDED && appended.count && appended.now.tail - offset <= bytes_max &&
             binlog_coarse_clock_ns() - cache->read_ns < FRESH_NS)
        return take_records(cache, &appended, offset);
    else
        appended.change = BINLOG_HEADER_UNSURE;
    return PyLong_FromLong(appended.change);
}

/* Reads the records from `offset` to `end`, without the header: the caller knows that they are published, because it appended the
 * last one.  Returns the result of read_records, or None if there are more than fit or they are not whole; then nothing changes. */
PyObject *binlog_read_published(PyObject *module, PyObject *args)
{
    unsigned long long cache_address, offset, end;
    unsigned int record_bytes_max;
    struct appended appended;
    uint64_t consumed = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKKI:read_published", &cache_address, &offset, &end, &record_bytes_max))
        return NULL;
    if (end <= offset || end - offset > APPENDED_BYTES)
        Py_RETURN_NONE;
    const struct binlog_header_cache *cache = (struct binlog_header_cache *)(uintptr_t)cache_address;
    appended.bytes = (Py_ssize_t)(end - offset);
    appended.count = 0;
    Py_BEGIN_ALLOW_THREADS
    if (binlog_read_all(cache->fd, appended.data, appended.bytes, (int64_t)offset) == appended.bytes &&
        binlog_fd_is(cache->fd, cache->device, cache->inode)) /* as in refresh_and_read */
        appended.count = binlog_scan(appended.data, (size_t)appended.bytes, end - offset, record_bytes_max, appended.places,
                                     APPENDED_RECORDS, &consumed, &appended.stop);
    Py_END_ALLOW_THREADS
    if (!appended.count || consumed != end - offset)
        Py_RETURN_NONE;
    PyObject *data = PyBytes_FromStringAndSize((const char *)appended.data, appended.bytes);
    return binlog_raw_records(offset, data, appended.places, appended.count, appended.stop);
}
