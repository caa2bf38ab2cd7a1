/* The records of a file of JBoss Messaging's journal, wherever they lie in it; and what a walk over a file of any layout has.
 *
 * The bytes are hostile: every length is checked before it is used.  What is no record is gone over byte by byte, as the
 * journal's own readers do, for a record may lie anywhere.
 */
#include "journal.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

#define HEAD_MIN (JOURNAL_DELETE_BYTES + JOURNAL_CHECK_BYTES)
#define DOUBTS_MAX 1000
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

#define OLD_DELETE_TX_BYTES JOURNAL_DELETE_TX_BODY_BYTES /* it ends before that field */

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

/* The fields of a head that is there whole. */
static void read_head(const struct journal_scan *scan, const uint8_t *at, struct journal_found *found)
{
    uint32_t files = 0;

    switch (found->kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        found->record_id = get_i64(at + JOURNAL_ADD_RECORD_ID);
        found->body_bytes = get_u32(at + JOURNAL_ADD_BODY_BYTES);
        found->user_type = at[JOURNAL_ADD_USER_TYPE];
        break;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        found->tx_id = get_i64(at + JOURNAL_ADD_TX_TX_ID);
        found->record_id = get_i64(at + JOURNAL_ADD_TX_RECORD_ID);
        found->body_bytes = get_u32(at + JOURNAL_ADD_TX_BODY_BYTES);
        found->user_type = at[JOURNAL_ADD_TX_USER_TYPE];
        break;
    case JOURNAL_KIND_DELETE_TX:
        found->tx_id = get_i64(at + JOURNAL_DELETE_TX_TX_ID);
        found->record_id = get_i64(at + JOURNAL_DELETE_TX_RECORD_ID);
        found->body_bytes = scan->old ? 0 : get_u32(at + JOURNAL_DELETE_TX_BODY_BYTES);
        break;
    case JOURNAL_KIND_DELETE:
        found->record_id = get_i64(at + JOURNAL_DELETE_RECORD_ID);
        break;
    case JOURNAL_KIND_PREPARE:
        found->tx_id = get_i64(at + JOURNAL_PREPARE_TX_ID);
        found->body_bytes = scan->old ? 0 : get_u32(at + JOURNAL_PREPARE_EXTRA_BYTES);
        files = get_u32(at + (scan->old ? JOURNAL_COMMIT_FILE_COUNT : JOURNAL_PREPARE_FILE_COUNT));
        break;
    case JOURNAL_KIND_COMMIT:
        found->tx_id = get_i64(at + JOURNAL_COMMIT_TX_ID);
        files = get_u32(at + JOURNAL_COMMIT_FILE_COUNT);
        break;
    default:
        found->tx_id = get_i64(at + JOURNAL_ROLLBACK_TX_ID);
    }
    found->counts_bytes = (uint64_t)files * JOURNAL_PLACE_BYTES;
}

static int begins(const struct journal_scan *scan, const uint8_t *at, size_t offset, struct journal_found *found)
{
    if (!journal_is_kind(at[0]) || scan->stop - offset < HEAD_MIN ||
        get_u32(at + FILE_ID_AT) != scan->use.file_id)
        return 0;
    memset(found, 0, sizeof *found);
    found->offset = offset;
    found->kind = kind_at(scan, at);
    found->head_bytes = head_bytes(scan, found->kind);
    return 1;
}

static int measure(const struct journal_scan *scan, const uint8_t *at, size_t offset, struct journal_found *found)
{
    size_t room = scan->stop - offset;

    if (room < found->head_bytes + JOURNAL_CHECK_BYTES)
        return 0;
    read_head(scan, at, found);
    if (found->body_bytes > INT32_MAX || found->counts_bytes > INT32_MAX)
        return 0;
    found->bytes = found->head_bytes + found->body_bytes + found->counts_bytes + JOURNAL_CHECK_BYTES;
    return found->bytes <= room;
}

/* FAILED: there is no memory, and an exception. */
enum health { NO_RECORD, DOUBTFUL, HEALTHY, FAILED };

/* What lies at an offset.  DOUBTFUL: it begins as a record of this use of the file, and goes on as none. */
static enum health look(const struct journal_scan *scan, size_t offset, struct journal_found *found)
{
    const uint8_t *at = scan->data + offset;
    if (!begins(scan, at, offset, found))
        return NO_RECORD;
    if (!measure(scan, at, offset, found) || get_u32(at + found->bytes - JOURNAL_CHECK_BYTES) != (uint32_t)found->bytes)
        return DOUBTFUL;
    found->body = at + found->head_bytes;
    found->counts = found->body + found->body_bytes;
    return HEALTHY;
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
    walk->doubts = PyList_New(0);
    if (!walk->gaps || !walk->doubts)
        return -1;
    if (start < 0) {
        PyErr_SetString(PyExc_ValueError, "a scan starts in the file");
        return -1;
    }
    walk->end = (size_t)start;
    return 0;
}

void journal_walk_end(struct journal_walk *walk)
{
    Py_XDECREF(walk->gaps);
    Py_XDECREF(walk->doubts);
}

/* Add `value`, which may be NULL, to the list and let go of it; -1 with an exception. */
static int add(PyObject *list, PyObject *value)
{
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

/* The first offset from one on at which a byte is a kind's: there may be megabytes of zeros before. */
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

/* Look at an offset: what lies there, and where it is a record, the walk goes on behind it. */
static enum health visit(const struct journal_scan *scan, struct journal_walk *walk, size_t offset,
                         struct journal_found *found)
{
    enum health health = look(scan, offset, found);

    if (health == HEALTHY) {
        if (offset != walk->end && journal_add_gap(walk, offset) != 0)
            return FAILED;
        walk->end = offset + (size_t)found->bytes;
    }
    if (health == DOUBTFUL && PyList_Size(walk->doubts) < DOUBTS_MAX &&
        add(walk->doubts, PyLong_FromSize_t(offset)) != 0)
        return FAILED;
    return health;
}

int journal_next(const struct journal_scan *scan, struct journal_walk *walk, struct journal_found *found)
{
    size_t offset = walk->end;
    enum health health = NO_RECORD;

    if (scan->use.salt)
        return journal_next_fragments(scan, walk, found);
    while (health != HEALTHY && health != FAILED && offset < scan->stop) {
        offset = next_kind(scan, offset);
        if (offset < scan->stop)
            health = visit(scan, walk, offset++, found);
    }
    return health == FAILED ? -1 : health == HEALTHY;
}
