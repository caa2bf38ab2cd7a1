/* Records of a journal, for what makes them of Python's objects (journal_pack.c) and those of them (journal_columns.c), what
 * says what became of them (journal_states.c), and what finds them (journal_block.c in our layout, journal_found.c in others').
 */
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

static inline int journal_is_kind(uint8_t byte)
{
    return byte >= JOURNAL_KIND_ADD && byte <= JOURNAL_KIND_ROLLBACK;
}

#define JOURNAL_CHECK_BYTES 4
#define JOURNAL_PLACE_BYTES 8 /* of a file's id, and of how many records of a transaction are in it */
#define JOURNAL_HEAD_MAX JOURNAL_ADD_TX_BYTES /* no head is longer */
#define JOURNAL_SALT_BYTES 8

/* The use of a file that a record is of: the id that its records have, and the salt; NULL in JBoss Messaging's layouts. */
struct journal_use {
    uint32_t file_id, salt_crc;
    const uint8_t *salt;
};

/* The use, from what Python says of it; -1 with an exception. */
int journal_use(struct journal_use *use, unsigned int file_id, const char *salt, Py_ssize_t salt_bytes);

/* A record where it lies. */
struct journal_found {
    size_t offset, head_bytes;
    int kind;
    int64_t tx_id, record_id;
    unsigned int user_type;
    const uint8_t *body, *counts;
    uint64_t body_bytes, counts_bytes, bytes; /* 64 bits: two lengths of 31 together do not fit in 32 */
};

/* Where what is looked for may be, and what of it depends on the layout: until September 2008 the two kinds of deletes had
 * each other's number, and neither they nor PREPARE a body.  data: in our layout it is written to, see below.
 * base: where in its file the data begins. */
struct journal_scan {
    const uint8_t *data;
    size_t stop;
    uint64_t base;
    struct journal_use use;
    int old;
};

/* The data and the use, from what Python says of them; -1 with an exception.  The buffer is let go of by who
 * calls this, also then. */
int journal_scan_begin(struct journal_scan *scan, Py_buffer *buffer, PyObject *data, unsigned int file_id, const char *salt,
                       Py_ssize_t salt_bytes);

/* How far a walk over a file has come, and lists of what it met: gaps before records, as pairs of offsets, and where in other
 * layouts than ours something begins as a record of this use of the file and goes on as none, a thousand of these at most. */
struct journal_walk {
    size_t end;
    PyObject *gaps, *doubts;
};

/* A walk from an offset on; -1 with an exception.  Its lists are let go of in any case. */
int journal_walk_begin(struct journal_walk *walk, Py_ssize_t start);
void journal_walk_end(struct journal_walk *walk);

/* A gap from where the walk ends to a record; -1 with an exception. */
int journal_add_gap(struct journal_walk *walk, size_t stop);

/* On to behind the next record, which is `found`: 1; 0 where there is none any more; -1 with an exception. */
int journal_next(const struct journal_scan *scan, struct journal_walk *walk, struct journal_found *found);

/* The same in our layout.  The bytes of a record that has several fragments are moved together in the data. */
int journal_next_fragments(const struct journal_scan *scan, struct journal_walk *walk, struct journal_found *found);

/* Where a fragment begins that comes next after an offset of the file. */
uint64_t journal_fragment_place(uint64_t at);

/* Writes the record that consists of these bytes, as it comes next after the offset `at` of its file; where it ends. */
uint8_t *journal_put_fragments(uint8_t *to, const struct journal_use *use, uint64_t at, int kind,
                               const uint8_t *const data[3], const uint64_t bytes[3]);

/* How many bytes of a record of a kind come before its body, in our layout. */
size_t journal_data_head_bytes(int kind);

#endif
