/* The records of a journal's file as Python's objects. */
#include "journal.h"

PyObject *journal_record_tuple(const struct journal_found *found)
{
    return Py_BuildValue("(inKLLIy#y#)", found->kind, (Py_ssize_t)found->offset,
                         (unsigned long long)(found->offset + found->bytes), (long long)found->tx_id,
                         (long long)found->record_id, found->user_type, (const char *)found->body,
                         (Py_ssize_t)found->body_bytes, (const char *)found->counts, (Py_ssize_t)found->counts_bytes);
}

static int add_record(PyObject *records, const struct journal_found *found)
{
    PyObject *record = journal_record_tuple(found);
    int result = record ? PyList_Append(records, record) : -1;
    Py_XDECREF(record);
    return result;
}

/* Through all of it; how many records there are, or -1 with an exception.  few: only those of transactions are wanted. */
static long long go_through(const struct journal_scan *scan, int few, struct journal_walk *walk, PyObject *records)
{
    struct journal_found found;
    long long count = 0;
    int more;

    while ((more = journal_next(scan, walk, &found)) > 0) {
        int plain = found.kind == JOURNAL_KIND_ADD || found.kind == JOURNAL_KIND_UPDATE || found.kind == JOURNAL_KIND_DELETE;
        if (!(few && plain) && add_record(records, &found) != 0)
            return -1;
        count++;
    }
    return more < 0 ? -1 : count;
}

/* scan_journal(data, start, file_id, salt, old, few): all records that `data`, all of a file, has from `start`
 * on, as tuples of kind, offset, end, transaction, id, user's type, body and counts; how many there are; where the last
 * one ends; the gaps before it, as pairs; and the offsets at which something only begins as a record, a thousand of them
 * at most.  In our layout `data` is written to: what the fragments of a record hold is moved together.
 * few: ADD, UPDATE and DELETE are counted, and not given. */
PyObject *binlog_scan_journal(PyObject *module, PyObject *args)
{
    PyObject *data;
    Py_buffer buffer = {0};
    Py_ssize_t start, salt_bytes;
    unsigned int file_id;
    const char *salt;
    int few;
    struct journal_scan scan = {0};
    PyObject *all = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnIy#pp:scan_journal", &data, &start, &file_id, &salt, &salt_bytes, &scan.old, &few))
        return NULL;
    struct journal_walk walk;
    PyObject *records = PyList_New(0);
    long long count = -1;
    if (journal_walk_begin(&walk, start) == 0 && records &&
        journal_scan_begin(&scan, &buffer, data, file_id, salt, salt_bytes) == 0)
        count = go_through(&scan, few, &walk, records);
    if (count >= 0)
        all = Py_BuildValue("(OLnOO)", records, count, (Py_ssize_t)walk.end, walk.gaps, walk.doubts);
    Py_XDECREF(records);
    journal_walk_end(&walk);
    PyBuffer_Release(&buffer);
    return all;
}
