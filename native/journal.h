/* Records of a journal, for what makes them of Python's objects (journal_pack.c) and those of them (journal_scan.c). */
#ifndef BINLOG_JOURNAL_H
#define BINLOG_JOURNAL_H

#include <Python.h>
#include <stdint.h>

/* binlog/format/journal/record.py says what each is. */
enum journal_kind {
    JOURNAL_KIND_ADD = 11,
    JOURNAL_KIND_UPDATE,
    JOURNAL_KIND_ADD_TX,
    JOURNAL_KIND_UPDATE_TX,
    JOURNAL_KIND_DELETE_TX,
    JOURNAL_KIND_DELETE,
    JOURNAL_KIND_PREPARE,
    JOURNAL_KIND_COMMIT,
    JOURNAL_KIND_ROLLBACK,
};
#define JOURNAL_CHECK_BYTES 4
#define JOURNAL_PLACE_BYTES 8 /* of a file's id, and of how many records are in it */
#define JOURNAL_SALT_BYTES 8

/* The use of a file that a record is of: the id that its records have, and the salt; NULL in JBoss Messaging's layouts. */
struct journal_use {
    uint32_t file_id;
    const uint8_t *salt;
};

/* What ends a record that lies at the offset `at` of its file and takes so many bytes before that. */
uint32_t journal_check(const struct journal_use *use, uint64_t at, const uint8_t *record, size_t bytes);

/* The use, from what Python says of it; -1 with an exception. */
int journal_use(struct journal_use *use, unsigned int file_id, const char *salt, Py_ssize_t salt_bytes);

PyObject *binlog_pack_journal(PyObject *module, PyObject *args);
PyObject *binlog_scan_journal(PyObject *module, PyObject *args);

#endif
