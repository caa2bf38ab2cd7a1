/* Scanning a journal file in JBoss Messaging's layouts, and the walk that all layouts share.
 *
 * The bytes are hostile: each length is checked before it is used.  Bytes that are no record are skipped one by one, as
 * JBoss Messaging's readers do, because a record may begin at any offset.
 */
#include "journal.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

#define HEAD_MIN (JOURNAL_DELETE_BYTES + JOURNAL_CHECK_BYTES)
#define SUSPECTS_MAX 1000
#define FILE_ID_AT JOURNAL_ADD_FILE_ID

static int64_t get_i64(const uint8_t *at)
{
    return (int64_t)get_u64(at);
}

static int kind_at(const struct journal_scan *scan, const uint8_t *at)
{
    int kind = at[0];
    if (scan->old && kind == JOURNAL_KIND_DELETE)
        return JOURNAL_KIND_DELETE_TX;
    return scan->old && kind == JOURNAL_KIND_DELETE_TX ? JOURNAL_KIND_DELETE : kind;
}

#define OLD_DELETE_TX_BYTES JOURNAL_DELETE_TX_BODY_BYTES /* the old record ends before that field */

static size_t head_bytes(const struct journal_scan *scan, int kind)
{
    switch (kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        return JOURNAL_ADD_BYTES;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        return JOURNAL_ADD_TX_BYTES;
    case JOURNAL_KIND_DELETE_TX:
        return scan->old ? OLD_DELETE_TX_BYTES : JOURNAL_DELETE_TX_BYTES;
    case JOURNAL_KIND_DELETE:
        return JOURNAL_DELETE_BYTES;
    case JOURNAL_KIND_PREPARE:
        return scan->old ? JOURNAL_COMMIT_BYTES : JOURNAL_PREPARE_BYTES;
    case JOURNAL_KIND_COMMIT:
        return JOURNAL_COMMIT_BYTES;
    default:
        return JOURNAL_ROLLBACK_BYTES;
    }
}

/* Read the fields of a complete head. */
static void read_head(const struct journal_scan *scan, const uint8_t *at, struct journal_record *record)
{
    uint32_t files = 0;

    switch (record->kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        record->record_id = get_i64(at + JOURNAL_ADD_RECORD_ID);
        record->body_bytes = get_u32(at + JOURNAL_ADD_BODY_BYTES);
        record->user_type = at[JOURNAL_ADD_USER_TYPE];
        break;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        record->tx_id = get_i64(at + JOURNAL_ADD_TX_TX_ID);
        record->record_id = get_i64(at + JOURNAL_ADD_TX_RECORD_ID);
        record->body_bytes = get_u32(at + JOURNAL_ADD_TX_BODY_BYTES);
        record->user_type = at[JOURNAL_ADD_TX_USER_TYPE];
        break;
    case JOURNAL_KIND_DELETE_TX:
        record->tx_id = get_i64(at + JOURNAL_DELETE_TX_TX_ID);
        record->record_id = get_i64(at + JOURNAL_DELETE_TX_RECORD_ID);
        record->body_bytes = scan->old ? 0 : get_u32(at + JOURNAL_DELETE_TX_BODY_BYTES);
        break;
    case JOURNAL_KIND_DELETE:
        record->record_id = get_i64(at + JOURNAL_DELETE_RECORD_ID);
        break;
    case JOURNAL_KIND_PREPARE:
        record->tx_id = get_i64(at + JOURNAL_PREPARE_TX_ID);
        record->body_bytes = scan->old ? 0 : get_u32(at + JOURNAL_PREPARE_EXTRA_BYTES);
        files = get_u32(at + (scan->old ? JOURNAL_COMMIT_FILE_COUNT : JOURNAL_PREPARE_FILE_COUNT));
        break;
    case JOURNAL_KIND_COMMIT:
        record->tx_id = get_i64(at + JOURNAL_COMMIT_TX_ID);
        files = get_u32(at + JOURNAL_COMMIT_FILE_COUNT);
        break;
    default:
        record->tx_id = get_i64(at + JOURNAL_ROLLBACK_TX_ID);
    }
    record->counts_bytes = (uint64_t)files * JOURNAL_COUNT_BYTES;
}

static int begins(const struct journal_scan *scan, const uint8_t *at, size_t offset, struct journal_record *record)
{
    if (!journal_is_kind(at[0]) || scan->stop - offset < HEAD_MIN ||
        get_u32(at + FILE_ID_AT) != scan->use.file_id)
        return 0;
    memset(record, 0, sizeof *record);
    record->offset = offset;
    record->kind = kind_at(scan, at);
    record->head_bytes = head_bytes(scan, record->kind);
    return 1;
}

static int measure(const struct journal_scan *scan, const uint8_t *at, size_t offset, struct journal_record *record)
{
    size_t room = scan->stop - offset;

    if (room < record->head_bytes + JOURNAL_CHECK_BYTES)
        return 0;
    read_head(scan, at, record);
    if (record->body_bytes > INT32_MAX || record->counts_bytes > INT32_MAX)
        return 0;
    record->bytes = record->head_bytes + record->body_bytes + record->counts_bytes + JOURNAL_CHECK_BYTES;
    return record->bytes <= room;
}

/* FAILED: out of memory, with an exception. */
enum outcome { NO_RECORD, SUSPECT, VALID, FAILED };

/* Examine an offset.  SUSPECT: bytes that begin like a record of this use of the file but are none. */
static enum outcome examine(const struct journal_scan *scan, size_t offset, struct journal_record *record)
{
    const uint8_t *at = scan->data + offset;
    if (!begins(scan, at, offset, record))
        return NO_RECORD;
    if (!measure(scan, at, offset, record) || get_u32(at + record->bytes - JOURNAL_CHECK_BYTES) != (uint32_t)record->bytes)
        return SUSPECT;
    record->body = at + record->head_bytes;
    record->counts = record->body + record->body_bytes;
    return VALID;
}

int journal_scan_begin(struct journal_scan *scan, Py_buffer *buffer, PyObject *data, unsigned int file_id, const char *salt,
                       Py_ssize_t salt_bytes)
{
    if (PyObject_GetBuffer(data, buffer, salt_bytes ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
        return -1;
    scan->data = buffer->buf;
    scan->stop = (size_t)buffer->len;
    return journal_use(&scan->use, file_id, salt, salt_bytes);
}

int journal_walk_begin(struct journal_walk *walk, Py_ssize_t start)
{
    memset(walk, 0, sizeof *walk);
    walk->gaps = PyList_New(0);
    walk->suspects = PyList_New(0);
    if (!walk->gaps || !walk->suspects)
        return -1;
    if (start < 0) {
        PyErr_SetString(PyExc_ValueError, "the start of a scan is negative");
        return -1;
    }
    walk->end = (size_t)start;
    return 0;
}

void journal_walk_end(struct journal_walk *walk)
{
    Py_XDECREF(walk->gaps);
    Py_XDECREF(walk->suspects);
}

/* Append `value`, which may be NULL, to a list, and release it; -1 with an exception. */
static int add(PyObject *list, PyObject *value)
{
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

/* Return the next offset with the byte of a kind; megabytes of zeros may come before it. */
static size_t next_kind(const struct journal_scan *scan, size_t offset)
{
    const uint8_t *data = scan->data, *stop = data + scan->stop, *at = data + offset;
    while (at < stop && !journal_is_kind(*at))
        at++;
    return (size_t)(at - data);
}

int journal_add_gap(struct journal_walk *walk, size_t stop)
{
    return add(walk->gaps, Py_BuildValue("(nn)", (Py_ssize_t)walk->end, (Py_ssize_t)stop));
}

/* Examine an offset, and advance the walk if it has a record. */
static enum outcome visit(const struct journal_scan *scan, struct journal_walk *walk, size_t offset,
                          struct journal_record *record)
{
    enum outcome outcome = examine(scan, offset, record);

    if (outcome == VALID) {
        if (offset != walk->end && journal_add_gap(walk, offset) != 0)
            return FAILED;
        walk->end = offset + (size_t)record->bytes;
    }
    if (outcome == SUSPECT && PyList_Size(walk->suspects) < SUSPECTS_MAX &&
        add(walk->suspects, PyLong_FromSize_t(offset)) != 0)
        return FAILED;
    return outcome;
}

int journal_next(const struct journal_scan *scan, struct journal_walk *walk, struct journal_record *record)
{
    size_t offset = walk->end;
    enum outcome outcome = NO_RECORD;

    if (scan->use.salt)
        return journal_next_fragments(scan, walk, record);
    while (outcome != VALID && outcome != FAILED && offset < scan->stop) {
        offset = next_kind(scan, offset);
        if (offset < scan->stop)
            outcome = visit(scan, walk, offset++, record);
    }
    return outcome == FAILED ? -1 : outcome == VALID;
}
