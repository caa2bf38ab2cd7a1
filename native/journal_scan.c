/* The records of a journal's file, wherever they lie in it.
 *
 * The bytes are hostile: every length is checked before it is used.  What is no record is gone over byte by byte, as the
 * journal's own readers do, for a record may lie anywhere.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "layout.h"

#include <string.h>

#define FILE_ID_AT JOURNAL_ADD_FILE_ID
#define HEAD_MIN (JOURNAL_DELETE_BYTES + JOURNAL_CHECK_BYTES)
#define DOUBTS_MAX 1000

/* A record where it lies. */
struct found {
    int kind;
    int64_t tx_id, record_id;
    unsigned int user_type;
    const uint8_t *body, *counts;
    uint64_t body_bytes, counts_bytes, bytes; /* 64 bits: two lengths of 31 together do not fit in 32 */
};

/* Where what is looked for may be, and what of it depends on the layout: until September 2008 the two kinds of deletes had
 * each other's number, and neither they nor PREPARE a body. */
struct scan {
    const uint8_t *data;
    size_t stop;
    struct journal_use use;
    int old;
};

static int64_t get_i64(const uint8_t *at)
{
    return (int64_t)get_u64(at);
}

static int kind_at(const struct scan *scan, const uint8_t *at)
{
    int kind = at[0];
    if (scan->old && kind == JOURNAL_KIND_DELETE)
        return JOURNAL_KIND_DELETE_TX;
    return scan->old && kind == JOURNAL_KIND_DELETE_TX ? JOURNAL_KIND_DELETE : kind;
}

#define OLD_DELETE_TX_BYTES JOURNAL_DELETE_TX_BODY_BYTES /* it ends before that field */

static size_t head_bytes(const struct scan *scan, int kind)
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
static void read_head(const struct scan *scan, const uint8_t *at, struct found *found)
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

enum health { NO_RECORD, DOUBTFUL, HEALTHY };

/* What lies at an offset.  DOUBTFUL: it begins as a record of this use of the file, and goes on as none. */
static enum health look(const struct scan *scan, size_t offset, struct found *found)
{
    const uint8_t *at = scan->data + offset;
    size_t room = scan->stop - offset;

    if (at[0] < JOURNAL_KIND_ADD || at[0] > JOURNAL_KIND_ROLLBACK || room < HEAD_MIN ||
        get_u32(at + FILE_ID_AT) != scan->use.file_id)
        return NO_RECORD;
    memset(found, 0, sizeof *found);
    found->kind = kind_at(scan, at);
    size_t head = head_bytes(scan, found->kind);
    if (room < head + JOURNAL_CHECK_BYTES)
        return DOUBTFUL;
    read_head(scan, at, found);
    if (found->body_bytes > INT32_MAX || found->counts_bytes > INT32_MAX)
        return DOUBTFUL;
    found->bytes = head + found->body_bytes + found->counts_bytes + JOURNAL_CHECK_BYTES;
    if (found->bytes > room)
        return DOUBTFUL;
    size_t checked = (size_t)found->bytes - JOURNAL_CHECK_BYTES;
    if (get_u32(at + checked) != journal_check(&scan->use, offset, at, checked))
        return DOUBTFUL;
    found->body = at + head;
    found->counts = found->body + found->body_bytes;
    return HEALTHY;
}

/* Add `value`, which may be NULL, to the list and let go of it; -1 with an exception. */
static int add(PyObject *list, PyObject *value)
{
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

/* What a scan comes to. */
struct result {
    PyObject *records, *gaps, *doubts;
    long long count;
    size_t end;
};

static int add_record(struct result *result, size_t offset, const struct found *found)
{
    return add(result->records,
               Py_BuildValue("(inKLLIy#y#)", found->kind, (Py_ssize_t)offset,
                             (unsigned long long)(offset + found->bytes), (long long)found->tx_id,
                             (long long)found->record_id, found->user_type, (const char *)found->body,
                             (Py_ssize_t)found->body_bytes, (const char *)found->counts,
                             (Py_ssize_t)found->counts_bytes));
}

/* Through all of it.  few: of the records only those of transactions are wanted. */
static int go_through(const struct scan *scan, size_t start, int few, struct result *result)
{
    struct found found;

    result->end = start;
    for (size_t offset = start; offset < scan->stop;) {
        enum health health = look(scan, offset, &found);
        if (health != HEALTHY) {
            if (health == DOUBTFUL && PyList_Size(result->doubts) < DOUBTS_MAX &&
                add(result->doubts, PyLong_FromSize_t(offset)) != 0)
                return -1;
            offset++;
            continue;
        }
        if (offset != result->end &&
            add(result->gaps, Py_BuildValue("(nn)", (Py_ssize_t)result->end, (Py_ssize_t)offset)) != 0)
            return -1;
        int plain = found.kind == JOURNAL_KIND_ADD || found.kind == JOURNAL_KIND_UPDATE || found.kind == JOURNAL_KIND_DELETE;
        if (!(few && plain) && add_record(result, offset, &found) != 0)
            return -1;
        result->count++;
        result->end = offset = offset + (size_t)found.bytes;
    }
    return 0;
}

/* scan_journal(data, start, file_id, salt, old, few): all records that `data`, a file's bytes, has from `start` on, as
 * tuples of kind, offset, end, transaction, id, user's type, body and counts; how many there are; where the last one ends;
 * the gaps before it, as pairs; and the offsets at which something only begins as a record, a thousand of them at most.
 * few: ADD, UPDATE and DELETE are counted, and not given. */
PyObject *binlog_scan_journal(PyObject *module, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t start, salt_bytes;
    unsigned int file_id;
    const char *salt;
    int few;
    struct scan scan;
    PyObject *all = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*nIy#pp:scan_journal", &data, &start, &file_id, &salt, &salt_bytes, &scan.old, &few))
        return NULL;
    struct result result = {PyList_New(0), PyList_New(0), PyList_New(0), 0, 0};
    scan.data = data.buf;
    scan.stop = (size_t)data.len;
    if (start < 0)
        PyErr_SetString(PyExc_ValueError, "a scan starts in the file");
    else if (result.records && result.gaps && result.doubts && journal_use(&scan.use, file_id, salt, salt_bytes) == 0 &&
             go_through(&scan, (size_t)start, few, &result) == 0)
        all = Py_BuildValue("(OLnOO)", result.records, result.count, (Py_ssize_t)result.end, result.gaps, result.doubts);
    Py_XDECREF(result.records);
    Py_XDECREF(result.gaps);
    Py_XDECREF(result.doubts);
    PyBuffer_Release(&data);
    return all;
}
