/* The Python interface of the replay: columns in, states out, see binlog/journal/loading/record_states.py. */
#include "journal_states.h"

#include <stdlib.h>

/* Add a file without records; NULL with an exception. */
static struct file *add_file(struct replay *replay, uint32_t file_id)
{
    if (replay->file_count == replay->file_room) {
        replay->file_room = replay->file_room ? 2 * replay->file_room : 16;
        if (replay_reserve((void **)&replay->files, (size_t)replay->file_room, sizeof *replay->files) != 0 ||
            replay_reserve((void **)&replay->touched, (size_t)replay->file_room, sizeof *replay->touched) != 0)
            return NULL;
    }
    struct file *file = &replay->files[replay->file_count];
    *file = (struct file){.file_id = file_id, .number = -1, .first = (uint32_t)replay->count};
    if (id_table_set(&replay->by_file_id, file_id, (uint32_t)replay->file_count) != 0) {
        no_memory();
        return NULL;
    }
    replay->file_count++;
    return file;
}

/* Make room for more records. */
static int make_room(struct replay *replay, size_t more)
{
    size_t count = replay->count + more;

    if (count >= NONE - 1) {
        PyErr_SetString(PyExc_ValueError, "a journal has more than 2**32 records");
        return -1;
    }
    if (count >= replay->room) { /* also if there is no record, so that the arrays exist */
        replay->room = 2 * count + 64;
        if (replay_reserve((void **)&replay->states, replay->room, sizeof *replay->states) != 0 ||
            replay_reserve((void **)&replay->previous, replay->room, sizeof *replay->previous) != 0 ||
            replay_reserve((void **)&replay->order, replay->room, sizeof *replay->order) != 0)
            return -1;
    }
    memset(replay->states + replay->count, 0, more);
    replay->count = count;
    return 0;
}

/* Read the columns of a file; -1 with an exception if their lengths differ. */
static int read_file(struct replay *replay, PyObject *given)
{
    struct file read = {0}, *file;
    Py_ssize_t kinds, tx_ids, record_ids, sizes;
    PyObject *columns, *objects;
    long long number;

    if (!PyArg_ParseTuple(given, "O!LO", &PyTuple_Type, &columns, &number, &objects) ||
        !PyArg_ParseTuple(columns, "Iy#y#y#y#O!", &read.file_id, &read.kind, &kinds, &read.tx_id, &tx_ids, &read.record_id,
                          &record_ids, &read.record_bytes, &sizes, &PyList_Type, &read.counts))
        return -1;
    if (tx_ids != 8 * kinds || record_ids != 8 * kinds || sizes != 8 * kinds || kinds >= (Py_ssize_t)NONE ||
        (objects != Py_None && (!PyList_Check(objects) || PyList_Size(objects) != kinds))) {
        PyErr_SetString(PyExc_ValueError, "the columns of a file differ in length");
        return -1;
    }
    if (!(file = add_file(replay, read.file_id)))
        return -1;
    read.columns = Py_NewRef(columns);
    read.objects = objects == Py_None ? NULL : Py_NewRef(objects);
    read.number = number;
    read.first = file->first;
    *file = read;
    if (make_room(replay, (size_t)kinds) != 0)
        return -1;
    file->count = (uint32_t)kinds;
    return 0;
}

static int begin(struct replay *replay, PyObject *unreadable)
{
    replay->outlive_pair_last = -1;
    replay->symptoms = PyList_New(0);
    replay->must_outlive = PyList_New(0);
    for (Py_ssize_t i = 0; i < PyTuple_Size(unreadable); i++) {
        uint32_t file_id = (uint32_t)PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(unreadable, i));
        if (PyErr_Occurred() || !add_file(replay, file_id))
            return -1;
    }
    replay->unreadable_count = replay->file_count;
    return replay->symptoms && replay->must_outlive ? 0 : -1;
}

static void finish(struct replay *replay)
{
    for (Py_ssize_t i = 0; i < replay->file_count; i++) {
        Py_XDECREF(replay->files[i].columns);
        Py_XDECREF(replay->files[i].objects);
    }
    id_table_free(&replay->records);
    id_table_free(&replay->open);
    id_table_free(&replay->failed);
    id_table_free(&replay->by_file_id);
    id_table_free(&replay->outlive_pairs);
    free(replay->content);
    free(replay->touched);
    free(replay->order);
    free(replay->previous);
    free(replay->states);
    free(replay->files);
    Py_XDECREF(replay->symptoms);
    Py_XDECREF(replay->must_outlive);
    Py_XDECREF(replay->suspect_commit);
}

/* Return for each file the states of its records, the size of the live ones, and whether it lacks records. */
static PyObject *file_results(const struct replay *replay)
{
    PyObject *all = PyList_New(0);
    for (Py_ssize_t i = replay->unreadable_count; all && i < replay->file_count; i++) {
        const struct file *file = &replay->files[i];
        const uint8_t *states = replay->states + file->first;
        long long live_bytes = 0;
        for (uint32_t index = 0; index < file->count; index++)
            if (states[index] == LIVE || states[index] == UPDATED)
                live_bytes += number_at(file->record_bytes, index);
        if (add(all, Py_BuildValue("(y#LO)", (const char *)states, (Py_ssize_t)file->count, live_bytes,
                                   file->is_incomplete ? Py_True : Py_False)) != 0)
            Py_CLEAR(all);
    }
    return all;
}

/* Return the records that matter, as pairs of u32: the file and the record. */
static PyObject *order_result(struct replay *replay)
{
    size_t kept = 0;
    for (size_t i = 0; i < replay->order_count; i++)
        if (replay->states[replay->order[i]] != DELETED)
            replay->order[kept++] = replay->order[i];
    replay->order_count = kept;
    PyObject *pairs = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)kept * 8);
    char *at = pairs ? PyBytes_AsString(pairs) : NULL;
    for (size_t i = 0; pairs && i < kept; i++, at += 8) {
        Py_ssize_t file = replay_file_of(replay, replay->order[i]);
        uint32_t pair[2] = {(uint32_t)(file - replay->unreadable_count), replay->order[i] - replay->files[file].first};
        memcpy(at, pair, sizeof pair);
    }
    return pairs;
}

/* Add a location; an id with several ones has a list. */
static int add_location(PyObject *locations, PyObject *id, int64_t location, int is_first)
{
    PyObject *value = PyLong_FromLongLong(location);
    PyObject *known = value && !is_first ? PyDict_GetItemWithError(locations, id) : NULL;
    int result = -1;

    if (known && PyList_Check(known)) {
        result = PyList_Append(known, value);
    } else if (known) {
        PyObject *list = Py_BuildValue("[OO]", known, value);
        result = list ? PyDict_SetItem(locations, id, list) : -1;
        Py_XDECREF(list);
    } else if (value && !PyErr_Occurred()) {
        result = PyDict_SetItem(locations, id, value);
    }
    Py_XDECREF(value);
    return result;
}

/* Add the objects of live records to a list, in order, and the locations of each id to a dict, as far as they are wanted. */
static int records_result(struct replay *replay, PyObject *records, PyObject *locations)
{
    for (size_t i = 0; i < replay->order_count; i++) {
        uint32_t number = replay->order[i];
        const struct file *file = &replay->files[replay_file_of(replay, number)];
        PyObject *record = file->objects ? PyList_GetItem(file->objects, number - file->first) : NULL, *id;
        if (replay->states[number] > UPDATED)
            continue;
        if (record && PyList_Append(records, record) != 0)
            return -1;
        if (file->number < 0)
            continue;
        id = record ? Py_XNewRef(PyTuple_GetItem(record, 0))
                    : PyLong_FromLongLong(number_at(file->record_id, number - file->first));
        int64_t location = file->number << 32 | number_at(file->record_bytes, number - file->first);
        int result = id ? add_location(locations, id, location, replay->previous[number] == NONE) : -1;
        Py_XDECREF(id);
        if (result != 0)
            return -1;
    }
    return 0;
}

/* Return the records of a transaction: file, index and object of each. */
static PyObject *content_result(struct replay *replay, uint32_t last)
{
    PyObject *content = replay_collect(replay, last) == 0 ? PyList_New(0) : NULL;
    for (size_t i = 0; content && i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        Py_ssize_t index = replay_file_of(replay, number);
        const struct file *file = &replay->files[index];
        PyObject *object = file->objects ? PyList_GetItem(file->objects, number - file->first) : Py_None;
        if (add(content, Py_BuildValue("(nIO)", index - replay->unreadable_count, number - file->first, object)) != 0)
            Py_CLEAR(content);
    }
    return content;
}

static int add_transactions(struct replay *replay, PyObject *all, const struct id_table *table)
{
    int64_t tx_id;
    uint32_t last;

    for (size_t slot = 0; id_table_next(table, &slot, &tx_id, &last);) {
        PyObject *content = content_result(replay, last);
        if (!content || add(all, Py_BuildValue("(LiON)", (long long)tx_id, replay->states[last],
                                               table == &replay->failed ? Py_True : Py_False, content)) != 0)
            return -1;
    }
    return 0;
}

/* Return all results; NULL with an exception. */
static PyObject *results(struct replay *replay)
{
    PyObject *files = file_results(replay), *order = order_result(replay), *transactions = PyList_New(0);
    PyObject *records = PyList_New(0), *locations = PyDict_New(), *all = NULL;

    if (files && order && transactions && records && locations && records_result(replay, records, locations) == 0 &&
        add_transactions(replay, transactions, &replay->failed) == 0 &&
        add_transactions(replay, transactions, &replay->open) == 0)
        all = Py_BuildValue("(OOOOOOLOO)", files, replay->symptoms, order, replay->must_outlive, transactions,
                            replay->suspect_commit ? replay->suspect_commit : Py_None, (long long)replay->id_max, records,
                            locations);
    Py_XDECREF(files);
    Py_XDECREF(order);
    Py_XDECREF(transactions);
    Py_XDECREF(records);
    Py_XDECREF(locations);
    return all;
}

/* journal_states(files, unreadable_ids, headerless_ids): replay files, oldest first, taking them from the iterator one by one.
 * A file is a tuple of three: a tuple of its id as records have it, the columns kind, tx_id, record_id and record_bytes, and a
 * list of the packed counts of each COMMIT and PREPARE; the number of its JournalFile, or -1; and a list with an object
 * for each record, or None.  Objects of dead records are released at once.
 * Returns the fields of RecordStates in binlog/journal/loading/record_states.py, the first three as one list. */
PyObject *binlog_journal_states(PyObject *module, PyObject *args)
{
    PyObject *files, *unreadable, *all = NULL, *given;
    struct replay replay = {0};
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!:journal_states", &files, &PyTuple_Type, &unreadable, &PyTuple_Type,
                          &replay.headerless))
        return NULL;
    PyObject *each = PyObject_GetIter(files);
    result = each ? begin(&replay, unreadable) : -1;
    while (result == 0 && (given = PyIter_Next(each)) != NULL) {
        result = read_file(&replay, given);
        Py_DECREF(given);
        if (result == 0)
            result = replay_file(&replay, replay.file_count - 1);
    }
    if (result == 0 && !PyErr_Occurred())
        all = results(&replay);
    finish(&replay);
    Py_XDECREF(each);
    return all;
}
