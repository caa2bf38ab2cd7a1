/* Building and verifying ranges of records, for Python; index_ranges.c does the work. */
#include <Python.h>

#include "codec.h"
#include "layout.h"

/* build_ranges(data, to_end, (end, sequence, time_ns, seed, crc)): returns entries for the whole ranges of `data`, which starts
 * at `end`, for all of it if `to_end`; and the end, sequence and CRC after them. */
PyObject *binlog_build_ranges(PyObject *module, PyObject *args)
{
    struct binlog_index_state state = {0};
    unsigned long long end, sequence, time_ns;
    unsigned int seed, crc;
    int to_end;
    Py_buffer data;
    int64_t count = -1;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*p(KKKII):build_ranges", &data, &to_end, &end, &sequence, &time_ns, &seed, &crc))
        return NULL;
    state = (struct binlog_index_state){.end = end, .sequence = sequence, .time_ns = time_ns, .seed = seed, .crc = crc};
    /* Except for the last one, two consecutive ranges together are larger than one may be. */
    int64_t count_max = data.len / (BINLOG_INDEX_RANGE_BYTES / 2) + 2;
    uint8_t *entries = PyMem_Malloc((size_t)count_max * INDEX_ENTRY_BYTES);
    if (entries) {
        Py_BEGIN_ALLOW_THREADS
        count = binlog_index_build(data.buf, (size_t)data.len, to_end, &state, entries, count_max);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    if (count < 0)
        return PyErr_NoMemory();
    PyObject *built = Py_BuildValue("(y#KKI)", (const char *)entries, (Py_ssize_t)(count * INDEX_ENTRY_BYTES),
                                    (unsigned long long)state.end, (unsigned long long)state.sequence, state.crc);
    PyMem_Free(entries);
    return built;
}

/* verify_ranges(entries, data, size, (end, sequence, counted, time_ns, seed)): returns how many of the entries hold for `data`,
 * which starts at `end`, and why the next one does not (enum binlog_index_stop); and the end, sequence, counted and time after
 * them.
 *
 * data: None to check only the entries, for ranges of `size` bytes together.  counted: the sequence is known exactly. */
PyObject *binlog_verify_ranges(PyObject *module, PyObject *args)
{
    struct binlog_index_state state;
    unsigned long long size, end, sequence, time_ns;
    unsigned int seed;
    int counted;
    Py_buffer entries, data;
    int64_t done;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*z*K(KKpKI):verify_ranges", &entries, &data, &size, &end, &sequence, &counted, &time_ns,
                          &seed))
        return NULL;
    state = (struct binlog_index_state){
        .end = end, .sequence = sequence, .time_ns = time_ns, .counted = counted, .seed = seed};
    Py_BEGIN_ALLOW_THREADS
    done = binlog_index_verify(entries.buf, entries.len / INDEX_ENTRY_BYTES, data.buf,
                               data.buf ? (size_t)data.len : (size_t)size, &state);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&entries);
    PyBuffer_Release(&data);
    return Py_BuildValue("(LiKKiK)", (long long)done, state.stop, (unsigned long long)state.end,
                         (unsigned long long)state.sequence, state.counted, (unsigned long long)state.time_ns);
}
