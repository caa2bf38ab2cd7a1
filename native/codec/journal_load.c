/* The records of a journal's file as a load takes them: adds that lie one behind the other together, so that there is
 * nothing to do for each of them but to make it. */
#include "journal.h"

#include <stdbool.h>

#define RECORD_FIELDS 4

/* What is being put together.  places: of the adds of this run, by their ids; NULL before the first one.  type: of the
 * objects that adds become.  number: of the file, see binlog/journal/ledger.py. */
struct load {
    PyObject *items, *places, *records;
    PyTypeObject *type;
    long long number, run_bytes;
};

/* The value, which may be NULL, becomes the field of a new tuple. */
static bool put(PyObject *tuple, Py_ssize_t field, PyObject *value)
{
    return value && PyTuple_SetItem(tuple, field, value) == 0;
}

/* An add as binlog.journal.record.Record. */
static PyObject *make_record(PyTypeObject *type, const struct journal_found *found)
{
    PyObject *record = PyType_GenericAlloc(type, RECORD_FIELDS);
    if (record && put(record, 0, PyLong_FromLongLong(found->record_id)) &&
        put(record, 1, PyLong_FromLong((long)found->user_type)) &&
        put(record, 2, PyBytes_FromStringAndSize((const char *)found->body, (Py_ssize_t)found->body_bytes)) &&
        put(record, 3, PyBool_FromLong(0))) {
        PyObject_GC_UnTrack(record); /* nothing in it can lead back to it, so the collector need never look at it */
        return record;
    }
    Py_XDECREF(record);
    return NULL;
}

/* Hand on the run that was put together. */
static int end_run(struct load *load)
{
    if (!load->places)
        return 0;
    PyObject *run = Py_BuildValue("(NNL)", load->places, load->records, load->run_bytes);
    load->places = load->records = NULL;
    int result = run ? PyList_Append(load->items, run) : -1;
    Py_XDECREF(run);
    return result;
}

static int begin_run(struct load *load)
{
    load->places = PyDict_New();
    load->records = PyList_New(0);
    load->run_bytes = 0;
    return load->places && load->records ? 0 : -1;
}

/* In a run no id is there twice. */
static int add_to_run(struct load *load, const struct journal_found *found)
{
    PyObject *record = make_record(load->type, found);
    PyObject *id = record ? PyTuple_GetItem(record, 0) : NULL;
    PyObject *place = PyLong_FromLongLong(load->number << 32 | (long long)found->bytes);
    int result = -1;
    if (id && place) {
        int known = load->places ? PyDict_Contains(load->places, id) : 0;
        if (known >= 0 && (known == 0 || end_run(load) == 0) && (load->places || begin_run(load) == 0) &&
            PyDict_SetItem(load->places, id, place) == 0)
            result = PyList_Append(load->records, record);
        load->run_bytes += (long long)found->bytes;
    }
    Py_XDECREF(record);
    Py_XDECREF(place);
    return result;
}

static int add_other(struct load *load, const struct journal_found *found)
{
    PyObject *record = end_run(load) == 0 ? journal_record_tuple(found) : NULL;
    int result = record ? PyList_Append(load->items, record) : -1;
    Py_XDECREF(record);
    return result;
}

/* How many records there are; -1 with an exception. */
static long long go_through(const struct journal_scan *scan, struct journal_walk *walk, struct load *load)
{
    struct journal_found found;
    long long count = 0;
    int more;

    while ((more = journal_next(scan, walk, &found)) > 0) {
        if ((found.kind == JOURNAL_KIND_ADD ? add_to_run : add_other)(load, &found) != 0)
            return -1;
        count++;
    }
    return more < 0 || end_run(load) != 0 ? -1 : count;
}

/* load_journal(data, start, file_id, salt, old, record_type, number): as scan_journal without `few`, but that
 * adds which lie one behind the other, with different ids, come as one tuple of three: a dict of the file's number << 32
 * | the bytes that the record takes, by ids; a list of `record_type`, a named tuple of id, user's type, body and False;
 * and how many bytes they take together. */
PyObject *binlog_load_journal(PyObject *module, PyObject *args)
{
    PyObject *data;
    Py_buffer buffer = {0};
    Py_ssize_t start, salt_bytes;
    unsigned int file_id;
    const char *salt;
    struct journal_scan scan = {0};
    struct journal_walk walk;
    struct load load = {0};
    PyObject *all = NULL;
    long long count = -1;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnIy#pO!L:load_journal", &data, &start, &file_id, &salt, &salt_bytes, &scan.old, &PyType_Type, &load.type, &load.number))
        return NULL;
    load.items = PyList_New(0);
    if (!PyType_IsSubtype(load.type, &PyTuple_Type) || load.number < 0 || load.number > INT32_MAX)
        PyErr_SetString(PyExc_ValueError, "records become named tuples, of a file with a number of 31 bits");
    if (journal_walk_begin(&walk, start) == 0 && load.items && !PyErr_Occurred() &&
        journal_scan_begin(&scan, &buffer, data, file_id, salt, salt_bytes) == 0)
        count = go_through(&scan, &walk, &load);
    if (count >= 0)
        all = Py_BuildValue("(OLnOO)", load.items, count, (Py_ssize_t)walk.end, walk.gaps, walk.doubts);
    Py_XDECREF(load.items);
    Py_XDECREF(load.places);
    Py_XDECREF(load.records);
    journal_walk_end(&walk);
    PyBuffer_Release(&buffer);
    return all;
}
