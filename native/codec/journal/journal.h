/* Records of a journal: packing (journal_pack.c), scanning a file (journal_block.c for the native layout, journal_scan.c for
 * JBoss Messaging's), columns (journal_columns.c), and replay (journal_states.c).
 */
#ifndef BINLOG_JOURNAL_H
#define BINLOG_JOURNAL_H

#include <Python.h>
#include <stdint.h>

/* As Kind in binlog/format/journal/record.py. */
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

static inline int journal_is_kind(uint8_t byte)
{
    return byte >= JOURNAL_KIND_ADD && byte <= JOURNAL_KIND_ROLLBACK;
}

#define JOURNAL_CHECK_BYTES 4
#define JOURNAL_COUNT_BYTES 8 /* a file id, and the records of a transaction in that file */
#define JOURNAL_HEAD_MAX JOURNAL_ADD_TX_BYTES /* no head is longer */
#define JOURNAL_SALT_BYTES 8

/* One use of a file: the id that its records have, and its salt; NULL in JBoss Messaging's layouts. */
struct journal_use {
    uint32_t file_id, salt_crc;
    const uint8_t *salt;
};

/* Fill in a use from arguments of a Python function; -1 with an exception. */
int journal_use(struct journal_use *use, unsigned int file_id, const char *salt, Py_ssize_t salt_bytes);

/* A record in a file, with pointers to its bytes. */
struct journal_record {
    size_t offset, head_bytes;
    int kind;
    int64_t tx_id, record_id;
    unsigned int user_type;
    const uint8_t *body, *counts;
    uint64_t body_bytes, counts_bytes, bytes; /* 64 bits: the sum of two 31-bit lengths exceeds 32 bits */
};

/* The bytes to scan, and their layout.  old: until September 2008 the two kinds of deletes had each other's number, and
 * neither these nor PREPARE had a body.
 * data: for a native file it is written to, see journal_next_fragments.  base: its offset in the file. */
struct journal_scan {
    const uint8_t *data;
    size_t stop;
    uint64_t base;
    struct journal_use use;
    int old;
};

/* Fill in a scan from arguments of a Python function; -1 with an exception.  The caller releases the buffer, also then. */
int journal_scan_begin(struct journal_scan *scan, Py_buffer *buffer, PyObject *data, unsigned int file_id, const char *salt,
                       Py_ssize_t salt_bytes);

/* The progress of a scan: the end of the last record, and two lists: gaps before records, as pairs of offsets; and suspects,
 * at most a thousand offsets at which bytes begin like a record of this use but are none, in JBoss Messaging's layouts. */
struct journal_walk {
    size_t end;
    PyObject *gaps, *suspects;
};

/* Start at an offset; -1 with an exception.  Call journal_walk_end in any case. */
int journal_walk_begin(struct journal_walk *walk, Py_ssize_t start);
void journal_walk_end(struct journal_walk *walk);

/* Add a gap from the last record to `stop`; -1 with an exception. */
int journal_add_gap(struct journal_walk *walk, size_t stop);

/* Advance to the next record: 1; 0 if there is none; -1 with an exception. */
int journal_next(const struct journal_scan *scan, struct journal_walk *walk, struct journal_record *record);

/* Advance in a native file.  Moves the fragments of a record together in the data. */
int journal_next_fragments(const struct journal_scan *scan, struct journal_walk *walk, struct journal_record *record);

/* Return the start of the next fragment after an offset of the file. */
uint64_t journal_fragment_start(uint64_t at);

/* Write the next record after the offset `at` of its file, made of three runs of bytes; return its end in the buffer. */
uint8_t *journal_put_fragments(uint8_t *to, const struct journal_use *use, uint64_t at, int kind,
                               const uint8_t *const data[3], const uint64_t bytes[3]);

/* Return the size of the fields before the body, in the native layout. */
size_t journal_data_head_bytes(int kind);

#endif
