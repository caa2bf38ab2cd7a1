/* Records read and found in one call: the bytes go from the kernel to where Python keeps them and stay there.
 *
 * A reader that verifies reads whole ranges of the index (covered.c), and is given those that are what was written. */
#include "read.h"

#include "big_endian.h"
#include "binlog.h"
#include "covered.h"
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

/* What is read, and what was found in it. */
struct run {
    struct covered covered; /* `count` is 0 where the index does not tell */
    uint64_t offset, to_tail;
    Py_ssize_t bytes, count_max, room; /* room: for the places of so many records */
    uint32_t record_bytes_max;
    PyObject *data, *places;
    Py_ssize_t whole; /* of what was read: all of it, or what holds */
    int64_t count;
    int error, stop;
};

/* Reads, compares with the index what that tells of, and finds the records of what holds. */
static void read_run(struct binlog_reading *reading, struct run *run, uint8_t *data, uint32_t *places)
{
    uint64_t consumed;

    run->error = EBADF; /* as pread(2) says of a descriptor that was closed, and whose number nobody has yet */
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

/* Reads into `buffer` if there is one that is large enough.  0 with an error set, or where a signal's handlers have run. */
static int is_read(struct binlog_reading *reading, struct run *run, PyObject *buffer)
{
    run->data = buffer && run->bytes <= PyBytes_Size(buffer) ? Py_NewRef(buffer) : PyBytes_FromStringAndSize(NULL, run->bytes);
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

/* The first bytes of some, which are taken; the same object if those are all. */
static PyObject *shortened(PyObject *bytes, Py_ssize_t size)
{
    if (size == PyBytes_Size(bytes))
        return bytes;
    PyObject *fewer = PyBytes_FromStringAndSize(PyBytes_AsString(bytes), size);
    Py_DECREF(bytes);
    return fewer;
}

/* What Python gets: where the data lie, the data, the places of the records in them, and why the scan ended.  Takes both. */
static PyObject *give(uint64_t offset, PyObject *data, PyObject *places, int stop)
{
    if (data && places)
        return Py_BuildValue("(KNNi)", (unsigned long long)offset, data, places, stop);
    Py_XDECREF(data);
    Py_XDECREF(places);
    return NULL;
}

/* as_read: the data may go on after the last record. */
static PyObject *give_run(struct run *run, int as_read)
{
    Py_ssize_t end = (Py_ssize_t)((const uint32_t *)PyBytes_AsString(run->places))[run->count];
    PyObject *data = run->count == 0 ? shortened(run->data, run->whole) : as_read ? run->data : shortened(run->data, end);
    return give(run->offset, data, shortened(run->places, places_bytes(run->count)), run->stop);
}

PyObject *binlog_raw_records(uint64_t offset, PyObject *data, const uint32_t *places, int64_t count, int stop)
{
    return give(offset, data, PyBytes_FromStringAndSize((const char *)places, places_bytes(count)), stop);
}

/* What is asked for. */
struct wanted {
    uint64_t offset, size, to_tail;
    Py_ssize_t count_max;
    PyObject *buffer;
};

/* Whether ranges are more than is asked for: the first one is larger, or starts earlier. */
static int is_more(const struct run *run, const struct wanted *wanted)
{
    return run->offset < wanted->offset || run->covered.bytes > wanted->size ||
           run->covered.records > (uint64_t)wanted->count_max;
}

/* NULL, without an error, if it is to be read without the index: the entry does not count. */
static PyObject *read_covered(struct binlog_reading *reading, struct run *run, const struct wanted *wanted)
{
    const uint64_t largest = (uint64_t)reading->record_bytes_max + RECORD_BYTES;
    const uint64_t size = wanted->size > BINLOG_INDEX_RANGE_BYTES ? wanted->size : BINLOG_INDEX_RANGE_BYTES;

    run->offset = reading->ranges.end;
    covered_within(reading, size, wanted->to_tail + (wanted->offset - run->offset), (uint64_t)wanted->count_max, largest,
                   &run->covered);
    if (run->covered.count == 0)
        return NULL;
    run->bytes = (Py_ssize_t)run->covered.bytes;
    run->count_max = run->room = (Py_ssize_t)run->covered.records;
    const int more = is_more(run, wanted);
    if (!is_read(reading, run, more ? NULL : wanted->buffer))
        return NULL;
    if (run->whole > 0) {
        run->stop = more ? BINLOG_SCAN_MORE : run->stop;
        return give_run(run, wanted->buffer && !more);
    }
    Py_CLEAR(run->data);
    Py_CLEAR(run->places);
    reading->at_hand = 0; /* the entry may have been read while it was written */
    if (reading->ranges.stop == BINLOG_INDEX_CRC || reading->ranges.stop == BINLOG_INDEX_RECORDS)
        return PyLong_FromLong(BINLOG_READ_DAMAGED);
    /* The file may end before the range does. */
    if (reading->ranges.stop == BINLOG_INDEX_SHORT && index_entry_holds(run->covered.entries, reading->ranges.seed))
        return PyLong_FromLong(BINLOG_READ_CUT);
    return NULL;
}

static PyObject *read_plain(struct binlog_reading *reading, struct run *run, const struct wanted *wanted)
{
    const Py_ssize_t fit = (Py_ssize_t)(wanted->size / RECORD_BYTES); /* a record takes its length at least */

    run->covered.count = 0;
    run->offset = wanted->offset;
    run->to_tail = wanted->to_tail;
    run->bytes = (Py_ssize_t)wanted->size;
    run->count_max = wanted->count_max;
    run->room = run->count_max < fit ? run->count_max : fit;
    return is_read(reading, run, wanted->buffer) ? give_run(run, wanted->buffer != NULL) : NULL;
}

static PyObject *read_once(struct binlog_reading *reading, struct run *run, const struct wanted *wanted, int verify)
{
    int covered = verify ? covered_at_hand(reading, wanted->offset) : 0;

    run->error = 0;
    if (verify && !covered) {
        Py_BEGIN_ALLOW_THREADS
        covered = covered_find(reading, wanted->offset);
        Py_END_ALLOW_THREADS
        if (covered < 0)
            return PyLong_FromLong(BINLOG_READ_NO_INDEX);
    }
    if (covered) {
        PyObject *answer = read_covered(reading, run, wanted);
        if (answer || run->error)
            return answer;
    }
    return PyErr_Occurred() ? NULL : read_plain(reading, run, wanted);
}

/* Reads the records from `offset` on: up to `size` bytes, none beyond the tail, and at most `count_max` records.
 *
 * reading: the address of a binlog_reading.  to_tail: from `offset` on.
 * verify: give whole ranges that hold, where the index tells of any.  The first one is given as a whole, whatever is asked
 * for, and is all that is given if it is more than that: with BINLOG_SCAN_MORE.
 * buffer: bytes that nobody else has, to read into if they are enough: the page faults of new memory can take longer than
 * the copy.  Then the data may go on after the last record.  None for new bytes that end there.
 * Returns what `give` does, or a binlog_read_outcome. */
PyObject *binlog_read_records(PyObject *module, PyObject *args)
{
    unsigned long long address;
    long long offset, size, to_tail;
    int verify;
    struct wanted wanted;
    struct run run;
    PyObject *answer;

    (void)module;
    if (!PyArg_ParseTuple(args, "KLLLnOp:read_records", &address, &offset, &size, &to_tail, &wanted.count_max,
                          &wanted.buffer, &verify))
        return NULL;
    if (offset < 0 || size < 0 || to_tail < 0 || wanted.count_max < 0) {
        PyErr_SetString(PyExc_ValueError, "what is read lies in the file");
        return NULL;
    }
    struct binlog_reading *reading = (struct binlog_reading *)(uintptr_t)address;
    wanted.offset = (uint64_t)offset;
    wanted.size = (uint64_t)(size < to_tail ? size : to_tail);
    wanted.to_tail = (uint64_t)to_tail;
    wanted.buffer = wanted.buffer == Py_None ? NULL : wanted.buffer;
    run.record_bytes_max = reading->record_bytes_max;
    do /* from the start, if a signal came: its handlers may have read too */
        answer = read_once(reading, &run, &wanted, verify);
    while (!answer && run.error == EINTR && !PyErr_Occurred());
    return answer;
}
