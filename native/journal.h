/* Records of a journal, for what makes them of Python's objects (journal_pack.c) and those of them (journal_scan.c,
 * journal_load.c, journal_columns.c), and what finds them (journal_found.c, journal_damaged.c, and
 * journal_longer.c). */
#ifndef BINLOG_JOURNAL_H
#define BINLOG_JOURNAL_H

#include "crc_spans.h"
#include "journal_counts.h"

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
#define JOURNAL_HEAD_MAX JOURNAL_ADD_TX_BYTES /* no head is longer */
#define JOURNAL_SALT_BYTES 8

/* The use of a file that a record is of: the id that its records have, and the salt; NULL in JBoss Messaging's layouts. */
struct journal_use {
    uint32_t file_id;
    const uint8_t *salt;
};

/* What ends a record that lies at the offset `at` of its file and takes so many bytes before that. */
uint32_t journal_check(const struct journal_use *use, uint64_t at, const uint8_t *record, size_t bytes);

/* CRC-32C of what comes before a record at the offset `at`: of the salt and of the offset. */
uint32_t journal_check_seed(const struct journal_use *use, uint64_t at);

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
 * each other's number, and neither they nor PREPARE a body.  base: where in its file the data begins.  alignment: of the
 * file, 1 at least.  is_whole: the file ends where the data does. */
struct journal_scan {
    const uint8_t *data;
    size_t stop;
    uint64_t base;
    struct journal_use use;
    int old, is_whole;
    size_t alignment;
};

/* The use and the alignment, from what Python says of them; -1 with an exception. */
int journal_scan_use(struct journal_scan *scan, unsigned int file_id, const char *salt, Py_ssize_t salt_bytes,
                     unsigned int alignment);

/* How far a walk over a file has come, and lists of what it met: gaps before records, as pairs of offsets, and where
 * something begins as a record of this use of the file and goes on as none, a thousand of these at most.
 * crc_bytes: over so many bytes CRCs were computed; in_vain: of these, for what was no record.
 * last: where the last sound record lies, or something before all that is still to come; once that is known. */
struct journal_walk {
    size_t end, last;
    int is_last_known;
    PyObject *gaps, *doubts;
    uint64_t crc_bytes, in_vain;
    struct crc_spans spans;
};

/* A walk from an offset on; -1 with an exception.  Its lists are let go of in any case. */
int journal_walk_begin(struct journal_walk *walk, Py_ssize_t start);
void journal_walk_end(struct journal_walk *walk);

/* On to behind the next record, which is `found`: 1; 0 where there is none any more; -1 with an exception. */
int journal_next(const struct journal_scan *scan, struct journal_walk *walk, struct journal_found *found);

/* Whether what lies at an offset begins as a record of this use of the file; `found` says of which kind. */
int journal_begins(const struct journal_scan *scan, size_t offset, struct journal_found *found);

/* What its head says; whether that is no nonsense, and leads not out of the data. */
int journal_measure(const struct journal_scan *scan, size_t offset, struct journal_found *found);

/* The same of what would lie at `found`'s offset if it were of its kind. */
int journal_measure_as_kind(const struct journal_scan *scan, struct journal_found *found);

/* Whether the check holds of a record that takes so many bytes before it; an exception where there is no memory. */
int journal_check_holds(const struct journal_scan *scan, struct journal_walk *walk, size_t offset, size_t bytes);

/* The first two, and the last one, of a record whose head is `head` in place of what lies there. */
int journal_measure_so(const struct journal_scan *scan, const uint8_t *head, size_t offset, struct journal_found *found);
int journal_check_holds_so(const struct journal_scan *scan, struct journal_walk *walk, size_t offset,
                           const uint8_t *head, const struct journal_found *found);

/* So many bytes were gone through for what was no record; an exception where there is no memory. */
void journal_in_vain(const struct journal_scan *scan, struct journal_walk *walk, size_t bytes);

/* Whether a sound record lies at an offset: 1, and it is `found`; 0; -1 with an exception. */
int journal_is_sound(const struct journal_scan *scan, struct journal_walk *walk, size_t offset,
                     struct journal_found *found);

/* So many zeros lie behind the last record at least, see binlog/format/journal/file_header.py. */
#define JOURNAL_ZEROS_BEHIND ((size_t)16)

/* Whether so many bytes are all zero. */
static inline int journal_is_zero(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i])
            return 0;
    return 1;
}

/* Where in a head of a kind lie the length of the body, and the number of files that are counted; 0 where it has none. */
struct journal_lengths {
    size_t body, files;
};
struct journal_lengths journal_lengths_of(int kind);

/* Where the next record must lie, behind one that ends there: at once, or behind zeros at a multiple of the alignment. */
size_t journal_place(const struct journal_scan *scan, size_t end);

/* Where what must be a record, and is none that is sound, ends: 1 where that is known; 0; -1 with an exception. */
int journal_damaged_end(const struct journal_scan *scan, struct journal_walk *walk, size_t place, size_t *end);

/* Whether a sound record is a longer one than was appended, by one bit of its kind or of a length: 1, and where that one
 * ended; 0; -1 with an exception. */
int journal_was_shorter(const struct journal_scan *scan, struct journal_walk *walk, const struct journal_found *found,
                        size_t *end);

/* Whether a record holds, but where it begins, what records of its file begin with, or ends with what may become that by
 * what comes next. */
int journal_holds_mark(const uint8_t *record, size_t bytes, uint32_t file_id);

/* Whether a record, at the offset `at`, becomes a shorter one by one bit of its kind or of a length. */
int journal_may_shrink(const struct journal_use *use, uint64_t at, const uint8_t *record, size_t bytes);

/* A record as scan_journal gives it. */
PyObject *journal_record_tuple(const struct journal_found *found);

PyObject *binlog_load_journal(PyObject *module, PyObject *args);
PyObject *binlog_pack_journal(PyObject *module, PyObject *args);
PyObject *binlog_pack_appended(PyObject *module, PyObject *args);
PyObject *binlog_find_lookalikes(PyObject *module, PyObject *args);
PyObject *binlog_skip_marked(PyObject *module, PyObject *args);
PyObject *binlog_carry_crc(PyObject *module, PyObject *args);
PyObject *binlog_scan_journal(PyObject *module, PyObject *args);
PyObject *binlog_scan_journal_columns(PyObject *module, PyObject *args);
PyObject *binlog_gather_bodies(PyObject *module, PyObject *args);
PyObject *binlog_journal_states(PyObject *module, PyObject *args);

#endif
