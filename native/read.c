/* Records read and found in one call: the bytes go from the kernel to where Python keeps them and stay there. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "read.h"

#include "big_endian.h"
#include "binlog.h"
#include "index_ranges.h"
#include "layout.h"

#include <errno.h>
#include <unistd.h>

/* Up to `bytes` from `offset`; fewer only where the file ends.  -1 with errno. */
Py_ssize_t binlog_read_all(int fd, uint8_t *data, Py_ssize_t bytes, int64_t offset)
{
    Py_ssize_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, data + done, (size_t)(bytes - done), offset + done);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

/* What Python gets: the data, the places of the records in them, and why the scan ended.  Takes the data. */
PyObject *binlog_found(PyObject *data, const uint32_t *places, int64_t count, int stop)
{
    Py_ssize_t bytes = (Py_ssize_t)((size_t)(count + 1) * sizeof(*places));
    PyObject *found = NULL, *offsets = PyBytes_FromStringAndSize((const char *)places, bytes);
    if (data && offsets)
        found = Py_BuildValue("(OOi)", data, offsets, stop);
    Py_XDECREF(data);
    Py_XDECREF(offsets);
    return found;
}

/* How many of the entries tell of ranges that fill `size` bytes, one at least, and how many bytes those have.
 *
 * Only within `to_tail`; a first range that is larger counts if its entry has its checksum and the record is allowed. */
static int64_t ranges_within(const uint8_t *entries, int64_t count, uint64_t size, uint64_t to_tail, uint64_t largest,
                             uint32_t seed, uint64_t *bytes)
{
    int64_t within = 0;
    *bytes = 0;
    for (; within < count; within++, entries += INDEX_ENTRY_BYTES) {
        uint64_t length = get_u32(entries + INDEX_ENTRY_RANGE_BYTES);
        if (length > to_tail - *bytes || (within > 0 && *bytes + length > size))
            break;
        if (length > size && (length > largest || !index_entry_holds(entries, seed)))
            break;
        *bytes += length;
    }
    return within;
}

/* Reads ranges that the index tells of, about `size` bytes, verifies them, and finds the records of those that hold.
 *
 * state: the address of a binlog_index_state, which lies at `offset` and moves along.  entries: of the index, of which the
 * number `from` is the one for `offset`.  Returns what read_records does, of the ranges that hold alone; and how many
 * those are. */
PyObject *binlog_read_verified(PyObject *module, PyObject *args)
{
    int fd, scan_stop = 0;
    long long offset;
    unsigned long long address, size, to_tail;
    uint64_t consumed, bytes;
    Py_ssize_t got = 0, whole = 0, from;
    int64_t count = 0, done = 0, within;
    unsigned int record_bytes_max;
    Py_buffer entries;
    PyObject *data = NULL, *found, *answer = NULL;
    uint32_t *places;

    (void)module;
    if (!PyArg_ParseTuple(args, "iLKKIKy*n:read_verified", &fd, &offset, &size, &to_tail, &record_bytes_max, &address,
                          &entries, &from))
        return NULL;
    struct binlog_index_state *state = (struct binlog_index_state *)(uintptr_t)address;
    const uint8_t *first = (const uint8_t *)entries.buf + from * INDEX_ENTRY_BYTES;
    within = ranges_within(first, entries.len / INDEX_ENTRY_BYTES - from, size, to_tail,
                           (uint64_t)record_bytes_max + RECORD_BYTES, state->seed, &bytes);
    places = PyMem_Malloc((size_t)(bytes / RECORD_BYTES + 1) * sizeof(*places));
    data = places ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes) : PyErr_NoMemory();
    if (!data)
        goto out;
    uint8_t *to = (uint8_t *)PyBytes_AsString(data);
    Py_BEGIN_ALLOW_THREADS
    state->stop = BINLOG_INDEX_SHORT;
    got = binlog_read_all(fd, to, (Py_ssize_t)bytes, offset);
    if (got >= 0 && within > 0) {
        done = binlog_index_verify(first, within, to, (size_t)got, state);
        whole = (Py_ssize_t)(state->end - (uint64_t)offset);
    }
    count = binlog_scan(to, (size_t)whole, (uint64_t)whole, record_bytes_max, places, INT64_MAX, &consumed, &scan_stop);
    Py_END_ALLOW_THREADS
    if (got < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto out;
    }
    if ((uint64_t)whole < bytes) {
        PyObject *less = PyBytes_FromStringAndSize((const char *)to, whole);
        Py_DECREF(data);
        data = less;
    }
    found = binlog_found(data, places, count, scan_stop);
    data = NULL;
    answer = found ? Py_BuildValue("(NL)", found, (long long)done) : NULL;
out:
    Py_XDECREF(data);
    PyBuffer_Release(&entries);
    PyMem_Free(places);
    return answer;
}

PyObject *binlog_read_records(PyObject *module, PyObject *args)
{
    int fd, stop = 0;
    long long offset;
    unsigned long long to_tail;
    uint64_t consumed;
    Py_ssize_t size, count_max, fit, got;
    int64_t count = 0;
    unsigned int record_bytes_max;
    PyObject *data, *found = NULL;
    uint32_t *places;

    (void)module;
    if (!PyArg_ParseTuple(args, "iLnKIn:read_records", &fd, &offset, &size, &to_tail, &record_bytes_max, &count_max))
        return NULL;
    fit = size / RECORD_BYTES; /* a record takes its length at least */
    places = PyMem_Malloc((size_t)((count_max < fit ? count_max : fit) + 1) * sizeof(*places));
    if (!places)
        return PyErr_NoMemory();
    data = PyBytes_FromStringAndSize(NULL, size);
    if (!data)
        goto out;
    uint8_t *to = (uint8_t *)PyBytes_AsString(data);
    Py_BEGIN_ALLOW_THREADS
    got = binlog_read_all(fd, to, size, offset);
    if (got >= 0)
        count = binlog_scan(to, (size_t)got, to_tail, record_bytes_max, places, count_max, &consumed, &stop);
    Py_END_ALLOW_THREADS
    if (got < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(data);
        goto out;
    }
    if (got < size) { /* the file was cut */
        PyObject *less = PyBytes_FromStringAndSize((const char *)to, got);
        Py_DECREF(data);
        data = less;
    }
    found = binlog_found(data, places, count, stop);
out:
    PyMem_Free(places);
    return found;
}
