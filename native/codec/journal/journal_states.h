/* Replay of a journal's records (journal_states.c), and its Python interface (journal_results.c).
 *
 * Records are numbered through all files, in the order of their appends.  The live records of an id form a chain, from the last
 * one back, and so do the records of an open or failed transaction.  No record is in two chains.
 */
#ifndef BINLOG_JOURNAL_STATES_H
#define BINLOG_JOURNAL_STATES_H

#include "journal.h"

#include "id_table.h"

#include <string.h>

#define NONE ID_TABLE_NONE

/* As RecordState in binlog/journal/loading/record_states.py. */
enum state { LIVE = 1, UPDATED, DELETED, OPEN, PREPARED, ROLLED_BACK, FAILED, VOID, DONE };

/* A file.  columns: the owner of the arrays.  objects: the object of each record, or NULL.
 * number: of its JournalFile, or -1 if locations are not wanted.  first: the number of its first record.
 * is_incomplete: it lacks records that a commit or prepare counts.
 * While a commit or prepare is compared: total_count: records of the transaction in the file; kept_count: those not dropped;
 * declared_count: as the commit counts them. */
struct file {
    PyObject *columns, *counts, *objects;
    int64_t number;
    uint32_t file_id;
    const uint8_t *kind;
    const char *record_id, *tx_id, *record_bytes;
    uint32_t first, count, total_count, kept_count;
    int64_t declared_count;
    int is_incomplete, is_declared, is_touched;
};

/* files: the first unreadable_count of them cannot be read.
 * previous: the previous record in the chain of each record.
 * order: records that matter, in the order in which they took effect: adds, updates, deletes, and commits after their records.
 * records, open, failed: from ids to the last records of chains.
 * headerless: numbers of files without a header.  suspect_commit: a commit or prepare that may count records in one. */
struct replay {
    struct file *files;
    Py_ssize_t file_count, file_room, unreadable_count, last_file;
    uint8_t *states;
    uint32_t *previous, *order;
    size_t count, room, order_count;
    struct id_table records, open, failed, by_file_id, outlive_pairs;
    uint32_t *content;   /* the transaction that is replayed, oldest record first */
    Py_ssize_t *touched; /* files that the transaction or its commit refers to */
    size_t content_count, content_room, touched_count;
    int64_t id_max, outlive_pair_last;
    PyObject *symptoms, *must_outlive, *headerless, *suspect_commit;
};

static inline int64_t number_at(const char *column, uint32_t index)
{
    int64_t number;
    memcpy(&number, column + (size_t)index * 8, sizeof number);
    return number;
}

/* Set an exception; returns -1. */
static inline int no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

/* Append `value`, which may be NULL, to a list, and release it; -1 with an exception. */
static inline int add(PyObject *list, PyObject *value)
{
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

/* Resize an array; -1 with an exception. */
int replay_reserve(void **array, size_t room, size_t size);

/* Return the file of a record. */
Py_ssize_t replay_file_of(struct replay *replay, uint32_t number);

/* Collect the chain that ends with `last` in `content`, oldest first: the records of a transaction, and its prepares. */
int replay_collect(struct replay *replay, uint32_t last);

/* Replay the next file. */
int replay_file(struct replay *replay, Py_ssize_t file);

#endif
