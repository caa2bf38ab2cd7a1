/* What became of each record of a journal: see binlog/journal/record_states.py.
 *
 * Records are numbered through all files, in the order in which they were appended.  Those of an id that is there, and those
 * of a transaction that goes on, make a chain each, from the last one back: no record is in two.
 */
#include "journal.h"

#include "big_endian.h"
#include "id_table.h"

#include <stdlib.h>
#include <string.h>

#define NONE ID_TABLE_NONE
#define EVENTS_MAX 1000

/* As RecordState in binlog/journal/record_states.py. */
enum state { LIVE = 1, UPDATED, DELETED, OPEN, PREPARED, ROLLED_BACK, FAILED, VOID, DONE };

/* As Event there. */
enum event { UPDATE_OF_NONE = 1, DELETE_OF_NONE, LACKING };

/* A file's columns.  first: the number of its first record.  here, said: how many records of the transaction in question it
 * has, and how many a commit says. */
struct file {
    int64_t file_id;
    const uint8_t *kind;
    const char *record_id, *tx_id, *record_bytes;
    PyObject *counts;
    uint32_t first, count, here;
    int64_t said;
};

/* last: of its records; of one that is not in use the next such.  prepare: the record that prepared it. */
struct transaction {
    uint32_t last, prepare;
    int lacking;
};

struct replay {
    struct file *files;
    Py_ssize_t file_count;
    uint8_t *states;
    uint32_t *before; /* in its chain, for each record */
    struct id_table records, going, by_file_id;
    struct transaction *transactions;
    uint32_t transaction_count, unused;
    uint32_t *content; /* of the transaction in question, oldest first */
    size_t content_count, content_room;
    PyObject *events;
};

static int64_t number_at(const char *column, uint32_t index)
{
    int64_t number;
    memcpy(&number, column + (size_t)index * 8, sizeof number);
    return number;
}

static int no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

static int tell(struct replay *replay, enum event event, Py_ssize_t file, uint32_t index, Py_ssize_t other, uint32_t count)
{
    if (PyList_Size(replay->events) >= EVENTS_MAX)
        return 0;
    PyObject *told = Py_BuildValue("(inInI)", (int)event, file, index, other, count);
    int result = told ? PyList_Append(replay->events, told) : -1;
    Py_XDECREF(told);
    return result;
}

/* A record, or an update, is there. */
static int put(struct replay *replay, uint32_t number, int64_t id)
{
    uint32_t last = id_table_get(&replay->records, id);
    if (last != NONE)
        replay->states[last] = UPDATED;
    replay->before[number] = last;
    replay->states[number] = LIVE;
    return id_table_set(&replay->records, id, number) == 0 ? 0 : no_memory();
}

/* What there is of an id is there no more; whether there was any, or -1. */
static int take(struct replay *replay, int64_t id)
{
    uint32_t number = id_table_get(&replay->records, id);
    if (number == NONE)
        return 0;
    for (; number != NONE; number = replay->before[number])
        replay->states[number] = DELETED;
    return id_table_set(&replay->records, id, NONE) == 0 ? 1 : no_memory();
}

static int plain(struct replay *replay, Py_ssize_t file, uint32_t index)
{
    const struct file *in = &replay->files[file];
    int64_t id = number_at(in->record_id, index);
    uint32_t number = in->first + index;
    int kind = in->kind[index], taken;

    if (kind == JOURNAL_KIND_DELETE) {
        if ((taken = take(replay, id)) < 0)
            return -1;
        replay->states[number] = taken ? DONE : VOID;
        return taken ? 0 : tell(replay, DELETE_OF_NONE, file, index, file, 0);
    }
    if (kind == JOURNAL_KIND_UPDATE && id_table_get(&replay->records, id) == NONE &&
        tell(replay, UPDATE_OF_NONE, file, index, file, 0) != 0)
        return -1;
    return put(replay, number, id);
}

/* The transaction with an id, which begins where there is none; NULL with an exception. */
static struct transaction *transaction_of(struct replay *replay, int64_t tx_id)
{
    uint32_t place = id_table_get(&replay->going, tx_id);
    if (place != NONE)
        return &replay->transactions[place];
    place = replay->unused;
    if (place != NONE) {
        replay->unused = replay->transactions[place].last;
    } else {
        place = replay->transaction_count;
        if ((place & (place - 1)) == 0) { /* full at each power of two */
            size_t room = place ? 2 * (size_t)place : 1;
            void *larger = realloc(replay->transactions, room * sizeof *replay->transactions);
            if (!larger) {
                PyErr_NoMemory();
                return NULL;
            }
            replay->transactions = larger;
        }
        replay->transaction_count++;
    }
    replay->transactions[place] = (struct transaction){NONE, NONE, 0};
    if (id_table_set(&replay->going, tx_id, place) != 0) {
        PyErr_NoMemory();
        return NULL;
    }
    return &replay->transactions[place];
}

static int end_transaction(struct replay *replay, int64_t tx_id)
{
    uint32_t place = id_table_get(&replay->going, tx_id);
    replay->transactions[place].last = replay->unused;
    replay->unused = place;
    return id_table_set(&replay->going, tx_id, NONE) == 0 ? 0 : no_memory();
}

/* The records of a transaction, oldest first, to `content`. */
static int collect(struct replay *replay, const struct transaction *transaction)
{
    replay->content_count = 0;
    for (uint32_t number = transaction ? transaction->last : NONE; number != NONE; number = replay->before[number]) {
        if (replay->content_count == replay->content_room) {
            size_t room = replay->content_room ? 2 * replay->content_room : 64;
            void *larger = realloc(replay->content, room * sizeof *replay->content);
            if (!larger)
                return no_memory();
            replay->content = larger;
            replay->content_room = room;
        }
        replay->content[replay->content_count++] = number;
    }
    for (size_t i = 0, j = replay->content_count; i + 1 < j; i++) {
        uint32_t number = replay->content[--j];
        replay->content[j] = replay->content[i];
        replay->content[i] = number;
    }
    return 0;
}

/* The file that a record lies in. */
static Py_ssize_t file_of(const struct replay *replay, uint32_t number)
{
    Py_ssize_t low = 0, high = replay->file_count;
    while (high - low > 1) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (replay->files[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void set_content(struct replay *replay, enum state state)
{
    for (size_t i = 0; i < replay->content_count; i++)
        replay->states[replay->content[i]] = (uint8_t)state;
}

/* Tell of files with records that are more than is said, and lie behind a file of which some are said: they cannot be an
 * earlier transaction's.  is_own: whether `file` is one.  How many, or -1 with an exception. */
static int tell_later(struct replay *replay, Py_ssize_t file, uint32_t index, const uint8_t *counts, size_t counts_bytes,
                      int *is_own)
{
    Py_ssize_t before = -1;
    uint32_t oldest = counts_oldest(counts, counts_bytes);
    int told = 0;

    for (size_t i = 0; counts_bytes && i < replay->content_count; i++) {
        Py_ssize_t place = file_of(replay, replay->content[i]);
        struct file *other = &replay->files[place];
        if (place == before || other->here <= (other->said > 0 ? other->said : 0))
            continue;
        before = place; /* those of a file lie together */
        if (!file_is_later((uint32_t)other->file_id, oldest))
            continue;
        if (tell(replay, LACKING, file, index, place, other->here) != 0)
            return -1;
        *is_own |= place == file;
        told++;
    }
    return told;
}

/* Leave out what is more than is said: of an earlier transaction with the same id, which a crash left.  It lies before the
 * others of its file. */
static void leave_orphans(struct replay *replay, struct transaction *transaction)
{
    size_t kept = 0;
    uint32_t last = NONE;

    for (size_t i = 0; i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        struct file *file = &replay->files[file_of(replay, number)];
        if (file->here > (file->said > 0 ? file->said : 0)) {
            file->here--;
            replay->states[number] = ROLLED_BACK;
            continue;
        }
        replay->content[kept++] = number;
        replay->before[number] = last;
        last = number;
    }
    replay->content_count = kept;
    if (transaction)
        transaction->last = last;
}

/* Compare what a commit or prepare says with `content`, of which is left what it means.  How many files lack something, or
 * -1 with an exception.  counts: as they lie in the record. */
static int compare(struct replay *replay, struct transaction *transaction, Py_ssize_t file, uint32_t index,
                   const uint8_t *counts, size_t counts_bytes)
{
    int lacking, result = 0, is_told = 0;

    for (size_t i = 0; i < replay->content_count; i++)
        replay->files[file_of(replay, replay->content[i])].here++;
    for (size_t at = 0; at < counts_bytes; at += JOURNAL_PLACE_BYTES) {
        uint32_t place = id_table_get(&replay->by_file_id, get_u32(counts + at));
        if (place != NONE)
            replay->files[place].said = (int32_t)get_u32(counts + at + 4);
    }
    lacking = tell_later(replay, file, index, counts, counts_bytes, &is_told);
    result = lacking < 0 ? -1 : 0;
    leave_orphans(replay, transaction);
    for (size_t at = 0; at < counts_bytes && result == 0; at += JOURNAL_PLACE_BYTES) {
        uint32_t place = id_table_get(&replay->by_file_id, get_u32(counts + at));
        if (place == NONE || replay->files[place].said == (int64_t)replay->files[place].here)
            continue;
        lacking++;
        is_told |= (Py_ssize_t)place == file;
        result = tell(replay, LACKING, file, index, place, replay->files[place].here);
    }
    if (result == 0 && !is_told) {
        result = counts_are_odd((uint32_t)replay->files[file].file_id, counts, counts_bytes);
        if (result < 0) {
            no_memory();
        } else if (result > 0) {
            lacking++;
            result = tell(replay, LACKING, file, index, file, replay->files[file].here);
        }
    }
    for (size_t at = 0; at < counts_bytes; at += JOURNAL_PLACE_BYTES) {
        uint32_t place = id_table_get(&replay->by_file_id, get_u32(counts + at));
        if (place != NONE)
            replay->files[place].said = 0;
    }
    for (size_t i = 0; i < replay->content_count; i++)
        replay->files[file_of(replay, replay->content[i])].here = 0;
    return result ? -1 : lacking;
}

/* Do what the transaction in `content` does. */
static int apply(struct replay *replay)
{
    for (size_t i = 0; i < replay->content_count; i++) {
        uint32_t number = replay->content[i];
        const struct file *file = &replay->files[file_of(replay, number)];
        uint32_t index = number - file->first;
        int64_t id = number_at(file->record_id, index);
        int kind = file->kind[index], result = 0;
        if (kind == JOURNAL_KIND_DELETE_TX) {
            result = take(replay, id);
            replay->states[number] = result ? DONE : VOID;
        } else if (kind == JOURNAL_KIND_ADD_TX || id_table_get(&replay->records, id) != NONE) {
            result = put(replay, number, id);
        } else {
            replay->states[number] = VOID;
        }
        if (result < 0)
            return -1;
    }
    return 0;
}

/* A PREPARE, COMMIT or ROLLBACK.  ends: how many with counts the file had before. */
static int end(struct replay *replay, Py_ssize_t file, uint32_t index, Py_ssize_t *ends)
{
    const struct file *in = &replay->files[file];
    int kind = in->kind[index], lacking = 0;
    uint32_t number = in->first + index;
    int64_t tx_id = number_at(in->tx_id, index);
    uint32_t place = id_table_get(&replay->going, tx_id);
    struct transaction *found = place == NONE ? NULL : &replay->transactions[place];

    if (collect(replay, found) != 0)
        return -1;
    if (kind != JOURNAL_KIND_ROLLBACK) {
        char *counts;
        Py_ssize_t counts_bytes;
        PyObject *said = PyList_GetItem(in->counts, (*ends)++);
        if (!said || PyBytes_AsStringAndSize(said, &counts, &counts_bytes) != 0)
            return -1;
        lacking = compare(replay, found, file, index, (const uint8_t *)counts,
                          (size_t)(counts_bytes - counts_bytes % JOURNAL_PLACE_BYTES));
        if (lacking < 0)
            return -1;
    }
    if (kind == JOURNAL_KIND_PREPARE) {
        found = found ? found : transaction_of(replay, tx_id);
        if (!found)
            return -1;
        if (found->prepare != NONE)
            replay->states[found->prepare] = VOID;
        found->prepare = number;
        found->lacking |= lacking > 0;
        set_content(replay, found->lacking ? FAILED : PREPARED);
        replay->states[number] = found->lacking ? FAILED : PREPARED;
        return 0;
    }
    int fails = kind == JOURNAL_KIND_COMMIT && (lacking > 0 || (found && found->lacking));
    replay->states[number] = fails ? FAILED : DONE;
    if (found && found->prepare != NONE)
        replay->states[found->prepare] = fails ? FAILED : kind == JOURNAL_KIND_COMMIT ? DONE : ROLLED_BACK;
    if (found && end_transaction(replay, tx_id) != 0)
        return -1;
    if (kind == JOURNAL_KIND_COMMIT && !fails)
        return apply(replay);
    set_content(replay, fails ? FAILED : ROLLED_BACK);
    return 0;
}

static int join(struct replay *replay, const struct file *in, uint32_t index)
{
    struct transaction *transaction = transaction_of(replay, number_at(in->tx_id, index));
    if (!transaction)
        return -1;
    replay->before[in->first + index] = transaction->last;
    transaction->last = in->first + index;
    replay->states[in->first + index] = transaction->prepare == NONE ? OPEN : replay->states[transaction->prepare];
    return 0;
}

static int go_through(struct replay *replay, Py_ssize_t file)
{
    const struct file *in = &replay->files[file];
    Py_ssize_t ends = 0;
    int result = 0;

    for (uint32_t index = 0; index < in->count && result == 0; index++) {
        switch (in->kind[index]) {
        case JOURNAL_KIND_ADD:
        case JOURNAL_KIND_UPDATE:
        case JOURNAL_KIND_DELETE:
            result = plain(replay, file, index);
            break;
        case JOURNAL_KIND_ADD_TX:
        case JOURNAL_KIND_UPDATE_TX:
        case JOURNAL_KIND_DELETE_TX:
            result = join(replay, in, index);
            break;
        default:
            result = end(replay, file, index, &ends);
        }
    }
    return result;
}

/* A file's columns; -1 with an exception where they do not go together. */
static int read_columns(PyObject *given, struct file *file)
{
    Py_ssize_t kinds, tx_ids, record_ids, sizes;

    if (!PyArg_ParseTuple(given, "Ly#y#y#y#O!", &file->file_id, &file->kind, &kinds, &file->tx_id, &tx_ids,
                          &file->record_id, &record_ids, &file->record_bytes, &sizes, &PyList_Type, &file->counts))
        return -1;
    if (tx_ids != 8 * kinds || record_ids != 8 * kinds || sizes != 8 * kinds || kinds >= (Py_ssize_t)NONE) {
        PyErr_SetString(PyExc_ValueError, "a file's columns are as long as one another");
        return -1;
    }
    file->count = (uint32_t)kinds;
    return 0;
}

/* All columns, and room for what becomes of the records. */
static int begin(struct replay *replay, PyObject *given)
{
    uint64_t total = 0;

    replay->file_count = PyTuple_Size(given);
    replay->files = calloc((size_t)replay->file_count + 1, sizeof *replay->files);
    replay->unused = NONE;
    if (!replay->files)
        return no_memory();
    for (Py_ssize_t i = 0; i < replay->file_count; i++) {
        struct file *file = &replay->files[i];
        if (read_columns(PyTuple_GetItem(given, i), file) != 0)
            return -1;
        file->first = (uint32_t)total;
        total += file->count;
        if (total >= NONE - 1) {
            PyErr_SetString(PyExc_ValueError, "a journal of more than four thousand million records");
            return -1;
        }
        if (id_table_set(&replay->by_file_id, file->file_id, (uint32_t)i) != 0)
            return no_memory();
    }
    replay->states = calloc(total + 1, 1);
    replay->before = malloc((total + 1) * sizeof *replay->before);
    replay->events = PyList_New(0);
    if (!replay->states || !replay->before)
        return no_memory();
    return replay->events ? 0 : -1;
}

static void finish(struct replay *replay)
{
    Py_XDECREF(replay->events);
    id_table_free(&replay->records);
    id_table_free(&replay->going);
    id_table_free(&replay->by_file_id);
    free(replay->transactions);
    free(replay->content);
    free(replay->before);
    free(replay->states);
    free(replay->files);
}

/* For each file the states of its records, and how many bytes those take that are there. */
static PyObject *results(const struct replay *replay)
{
    PyObject *all = PyList_New(0);
    for (Py_ssize_t i = 0; all && i < replay->file_count; i++) {
        const struct file *file = &replay->files[i];
        const uint8_t *states = replay->states + file->first;
        long long there = 0;
        for (uint32_t index = 0; index < file->count; index++)
            if (states[index] == LIVE || states[index] == UPDATED)
                there += number_at(file->record_bytes, index);
        PyObject *result = Py_BuildValue("(y#L)", (const char *)states, (Py_ssize_t)file->count, there);
        if (!result || PyList_Append(all, result) != 0)
            Py_CLEAR(all);
        Py_XDECREF(result);
    }
    return all;
}

/* journal_states(files): for each file, oldest first, the states of its records, a byte each, and how many bytes those take
 * that are there; and what is wrong, a thousand things at most: what it is, the file, its record, another file, and how many
 * records of the transaction that one has.  files: a tuple of tuples of the file's id as records have it, the columns kind,
 * tx_id, record_id and record_bytes, and a list of the counts of each COMMIT and PREPARE. */
PyObject *binlog_journal_states(PyObject *module, PyObject *args)
{
    PyObject *given, *all = NULL;
    struct replay replay = {0};
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!:journal_states", &PyTuple_Type, &given))
        return NULL;
    result = begin(&replay, given);
    for (Py_ssize_t i = 0; i < replay.file_count && result == 0; i++)
        result = go_through(&replay, i);
    PyObject *states = result == 0 ? results(&replay) : NULL;
    if (states)
        all = Py_BuildValue("(NO)", states, replay.events);
    finish(&replay);
    return all;
}
