/* What became of each record of a journal: what goes through them (journal_states.c), and what has it from Python, and gives it
 * to it (journal_results.c).
 *
 * Records are numbered through all files, in the order in which they were appended.  Those of an id that is there, and those
 * of a transaction that goes on or has failed, make a chain each, from the last one back: no record is in two.
 */
#ifndef BINLOG_JOURNAL_STATES_H
#define BINLOG_JOURNAL_STATES_H

#include "journal.h"

#include "id_table.h"

#include <string.h>

#define NONE ID_TABLE_NONE

/* As RecordState in binlog/journal/loading/record_states.py. */
enum state { LIVE = 1, UPDATED, DELETED, OPEN, PREPARED, ROLLED_BACK, FAILED, VOID, DONE };

/* A file.  columns: what its columns lie in.  objects: what each record is to the caller; NULL if it did not say.
 * number: of its JournalFile; -1 if nobody asks where records lie.
 * first: the number of its first record.  lacking: it has fewer records of some transaction than it says.
 * met, here, said: how many of the one in question it has, how many of these count, and how many a commit says. */
struct file {
    PyObject *columns, *counts, *objects;
    int64_t number;
    uint32_t file_id;
    const uint8_t *kind;
    const char *record_id, *tx_id, *record_bytes;
    uint32_t first, count, met, here;
    int64_t said;
    int lacking, is_said, is_touched;
};

/* files: the first lost_count of them cannot be read.
 * before: for each record the one before it in its chain.
 * order: what counts, in the order in which it came to: adds, updates, deletes, and commits behind what they commit.
 * records, going, failed: from ids to the last records of chains.
 * unknown: ids of first uses of files that lost their headers.  doubt: a commit that may count records in one of them. */
struct replay {
    struct file *files;
    Py_ssize_t file_count, file_room, lost_count, file_met;
    uint8_t *states;
    uint32_t *before, *order;
    size_t count, room, order_count;
    struct id_table records, going, failed, by_file_id, outlasting;
    uint32_t *content;   /* of the transaction in question, oldest first */
    Py_ssize_t *touched; /* files that it, or its commit, has something to do with */
    size_t content_count, content_room, touched_count;
    int64_t id_max, outlasting_last;
    PyObject *events, *outlasts, *unknown, *doubt;
};

static inline int64_t number_at(const char *column, uint32_t index)
{
    int64_t number;
    memcpy(&number, column + (size_t)index * 8, sizeof number);
    return number;
}

/* -1, with an exception. */
static inline int no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

/* Add `value`, which may be NULL, to the list and let go of it; -1 with an exception. */
static inline int add(PyObject *list, PyObject *value)
{
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

/* More room for things of a size; -1 with an exception. */
int replay_reserve(void **array, size_t room, size_t size);

/* The file that a record lies in. */
Py_ssize_t replay_file_of(struct replay *replay, uint32_t number);

/* The chain that ends with `last`, oldest first, to `content`: the records of a transaction, and what prepared it. */
int replay_collect(struct replay *replay, uint32_t last);

/* The records of a file, which is the next one. */
int replay_go_through(struct replay *replay, Py_ssize_t file);

#endif
