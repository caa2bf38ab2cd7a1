/* Reads records in one call: the kernel copies the bytes to the Python object that keeps them, where they are scanned.
 *
 * A reader that verifies reads whole ranges of the index (covered.c), and gets those that are as they were written. */
#include "read.h"

#include "big_endian.h"
#include "binlog.h"
#include "covered.h"
#include "index_ranges.h"
#include "layout.h"

#include <errno.h>
#include <unistd.h>

/* Reads up to `bytes` from `offset`; fewer only at the end of the file.  -1 with errno. */
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

/* A read, and the records found in it. */
struct run {
    struct covered covered; /* `count` is 0 if the index has no range */
    uint64_t offset, to_tail;
    Py_ssize_t bytes, count_max, room; /* room: records whose offsets fit in `places` */
    uint32_t record_bytes_max;
    PyObject *data, *places;
    Py_ssize_t whole; /* bytes read, or those of the ranges that hold */
    int64_t count;
    int error, stop;
};

/* Reads, compares with the index if it covers the bytes, and scans the bytes that hold. */
static void read_run(struct binlog_reading *reading, struct run *run, uint8_t *data, uint32_t *places)
{
    uint64_t consumed;

    run->error = EBADF; /* as pread(2) returns for a closed descriptor */
    if (!binlog_fd_is(reading->fd, reading->device, reading->inode))
        return;
    run->whole = binlog_read_all(reading->fd, data, run->bytes, (int64_t)run->offset);
    run->error = run->whole < 0 ? errno : 0;
    if (run->whole < 0)
        return;
    if (run->covered.count > 0) {
        reading->number += (uint64_t)binlog_index_verify(run->covered.entries, run->covered.count, data,
                                                         (size_t)run->whole, &reading->ranges);
        run->whole = (Py_ssize_t)(reading->ranges.end - run->offset);
        run->to_tail = (uint64_t)run->whole;
    }
    run->count = binlog_scan(data, (size_t)run->whole, run->to_tail, run->record_bytes_max, places, run->count_max,
                             &consumed, &run->stop);
}

static Py_ssize_t places_bytes(int64_t count)
{
    return (Py_ssize_t)((size_t)(count + 1) * sizeof(uint32_t));
}

/* New memory is of a multiple of this, so that the next read gets that of an earlier one again, without page faults. */
enum { STEP = 1 << 17 };

/* Reads into `buffer` if it is given and large enough.  0 with an error set, or after a signal whose handlers have run. */
static int read_into_bytes(struct binlog_reading *reading, struct run *run, PyObject *buffer)
{
    if (buffer && run->bytes <= PyBytes_Size(buffer))
        run->data = Py_NewRef(buffer);
    else
        run->data = PyBytes_FromStringAndSize(NULL, run->bytes < STEP ? run->bytes : (run->bytes + STEP - 1) / STEP * STEP);
    run->places = PyBytes_FromStringAndSize(NULL, places_bytes(run->room));
    if (run->data && run->places) {
        uint8_t *data = (uint8_t *)PyBytes_AsString(run->data);
        uint32_t *places = (uint32_t *)PyBytes_AsString(run->places);
        Py_BEGIN_ALLOW_THREADS
        read_run(reading, run, data, places);
        Py_END_ALLOW_THREADS
        if (!run->error)
            return 1;
        errno = run->error;
        if (run->error == EINTR)
            PyErr_CheckSignals();
        else
            PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_CLEAR(run->data);
    Py_CLEAR(run->places);
    return 0;
}

/* Returns the first `size` bytes.  Takes the reference.
 *
 * is_own: no other code has seen the object.  Then a few bytes at its end, of a record that is not whole, are given up: a copy of
 * the others would take as long as the read. */
static PyObject *shortened(PyObject *bytes, Py_ssize_t size, int is_own)
{
    Py_ssize_t all = PyBytes_Size(bytes);

    if (size == all)
        return bytes;
    if (is_own && size > all / 2) {
        PyBytes_AsString(bytes)[size] = '\0';
        Py_SET_SIZE((PyVarObject *)bytes, size);
        return bytes;
    }
    PyObject *fewer = PyBytes_FromStringAndSize(PyBytes_AsString(bytes), size);
    Py_DECREF(bytes);
    return fewer;
}

/* Builds Python's result: the offset of the data, the data, the records' offsets in them, and why the scan ended.  Takes both
 * references. */
static PyObject *build_result(uint64_t offset, PyObject *data, PyObject *places, int stop)
{
    if (data && places)
        return Py_BuildValue("(KNNi)", (unsigned long long)offset, data, places, stop);
    Py_XDECREF(data);
    Py_XDECREF(places);
    return NULL;
}

/* as_read: the data may continue after the last record. */
static PyObject *build_run_result(struct run *run, int as_read)
{
    Py_ssize_t end = (Py_ssize_t)((const uint32_t *)PyBytes_AsString(run->places))[run->count];
    PyObject *data = run->count && as_read ? run->data : shortened(run->data, run->count ? end : run->whole, !as_read);
    return build_result(run->offset, data, shortened(run->places, places_bytes(run->count), 1), run->stop);
}

PyObject *binlog_raw_records(uint64_t offset, PyObject *data, const uint32_t *places, int64_t count, int stop)
{
    return build_result(offset, data, PyBytes_FromStringAndSize((const char *)places, places_bytes(count)), stop);
}

/* The caller's request. */
struct request {
    uint64_t offset, size, to_tail;
    Py_ssize_t count_max;
    PyObject *buffer;
};

/* Whether the ranges are more than requested: the first one is larger, or starts earlier. */
static int exceeds_request(const struct run *run, const struct request *request)
{
    return run->offset < request->offset || run->covered.bytes > request->size ||
           run->covered.records > (uint64_t)request->count_max;
}

/* Returns NULL without an error if the records must be read without the index, because the entry does not count. */
static PyObject *read_covered(struct binlog_reading *reading, struct run *run, const struct request *request)
{
    const uint64_t largest = (uint64_t)reading->record_bytes_max + RECORD_BYTES;
    const uint64_t size = request->size > BINLOG_INDEX_RANGE_BYTES ? request->size : BINLOG_INDEX_RANGE_BYTES;

    run->offset = reading->ranges.end;
    covered_within(reading, size, request->to_tail + (request->offset - run->offset), (uint64_t)request->count_max, largest,
                   &run->covered);
    if (run->covered.count == 0)
        return NULL;
    run->bytes = (Py_ssize_t)run->covered.bytes;
    run->count_max = run->room = (Py_ssize_t)run->covered.records;
    const int more = exceeds_request(run, request);
    if (!read_into_bytes(reading, run, more ? NULL : request->buffer))
        return NULL;
    if (run->whole > 0) {
        run->stop = more ? BINLOG_SCAN_MORE : run->stop;
        return build_run_result(run, request->buffer && !more);
    }
    Py_CLEAR(run->data);
    Py_CLEAR(run->places);
    reading->buffered = 0; /* a writer may have been writing the entry while it was read */
    if (reading->ranges.stop == BINLOG_INDEX_CRC || reading->ranges.stop == BINLOG_INDEX_RECORDS)
        return PyLong_FromLong(BINLOG_READ_DAMAGED);
    /* The file may end before the range does. */
    if (reading->ranges.stop == BINLOG_INDEX_SHORT && index_entry_holds(run->covered.entries, reading->ranges.seed))
        return PyLong_FromLong(BINLOG_READ_CUT);
    return NULL;
}

static PyObject *read_plain(struct binlog_reading *reading, struct run *run, const struct request *request)
{
    const Py_ssize_t fit = (Py_ssize_t)(request->size / RECORD_BYTES); /* a record has at least its length */

    run->covered.count = 0;
    run->offset = request->offset;
    run->to_tail = request->to_tail;
    run->bytes = (Py_ssize_t)request->size;
    run->count_max = request->count_max;
    run->room = run->count_max < fit ? run->count_max : fit;
    return read_into_bytes(reading, run, request->buffer) ? build_run_result(run, request->buffer != NULL) : NULL;
}

static PyObject *read_once(struct binlog_reading *reading, struct run *run, const struct request *request, int verify)
{
    int covered = verify ? covered_is_buffered(reading, request->offset) : 0;

    run->error = 0;
    if (verify && !covered) {
        Py_BEGIN_ALLOW_THREADS
        covered = covered_find(reading, request->offset);
        Py_END_ALLOW_THREADS
        if (covered < 0)
            return PyLong_FromLong(BINLOG_READ_NO_INDEX);
    }
    if (covered) {
        PyObject *answer = read_covered(reading, run, request);
        if (answer || run->error)
            return answer;
    }
    return PyErr_Occurred() ? NULL : read_plain(reading, run, request);
}

/* Reads the records from `offset` on: up to `size` bytes, none after the tail, and at most `count_max` records.
 *
 * reading: the address of a binlog_reading.  to_tail: the distance from `offset`.
 * verify: return whole ranges that hold, if the index has any.  The first one is returned whole even if that is more than
 * requested; then it is all that is returned, with BINLOG_SCAN_MORE.
 * buffer: bytes that no other object has, to read into if they are large enough, because the page faults of new memory can take
 * longer than the copy.  Then the data may continue after the last record.  None for new bytes that end there.
 * Returns the result of `build_result`, or a binlog_read_outcome. */
PyObject *binlog_read_records(PyObject *module, PyObject *args)
{
    unsigned long long address;
    long long offset, size, to_tail;
    int verify;
    struct request request;
    struct run run;
    PyObject *answer;

    (void)module;
    if (!PyArg_ParseTuple(args, "KLLLnOp:read_records", &address, &offset, &size, &to_tail, &request.count_max,
                          &request.buffer, &verify))
        return NULL;
    if (offset < 0 || size < 0 || to_tail < 0 || request.count_max < 0) {
        PyErr_SetString(PyExc_ValueError, "a read starts in the file, and its sizes are not negative");
        return NULL;
    }
    struct binlog_reading *reading = (struct binlog_reading *)(uintptr_t)address;
    request.offset = (uint64_t)offset;
    request.size = (uint64_t)(size < to_tail ? size : to_tail);
    request.to_tail = (uint64_t)to_tail;
    request.buffer = request.buffer == Py_None ? NULL : request.buffer;
    run.record_bytes_max = reading->record_bytes_max;
    do /* again after a signal, because its handlers may have read too */
        answer = read_once(reading, &run, &request, verify);
    while (!answer && run.error == EINTR && !PyErr_Occurred());
    return answer;
}
