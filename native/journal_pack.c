/* A record of a journal, packed where it goes in a buffer: the bytes that pack_record in binlog/format/journal/record.py
 * makes, which is the plain way to say it. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include "journal.h"

#include "big_endian.h"
#include "binlog.h"
#include "layout.h"

#include <string.h>

uint32_t journal_check_seed(const struct journal_use *use, uint64_t at)
{
    uint8_t place[JOURNAL_SALT_BYTES + 8];

    memcpy(place, use->salt, JOURNAL_SALT_BYTES);
    put_u64(place + JOURNAL_SALT_BYTES, at);
    return binlog_crc32c(0, place, sizeof place);
}

uint32_t journal_check(const struct journal_use *use, uint64_t at, const uint8_t *record, size_t bytes)
{
    if (!use->salt)
        return (uint32_t)(bytes + JOURNAL_CHECK_BYTES);
    return binlog_crc32c(journal_check_seed(use, at), record, bytes);
}

int journal_use(struct journal_use *use, unsigned int file_id, const char *salt, Py_ssize_t salt_bytes)
{
    if (salt_bytes != 0 && salt_bytes != JOURNAL_SALT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes");
        return -1;
    }
    use->file_id = file_id;
    use->salt = salt_bytes ? (const uint8_t *)salt : NULL;
    return 0;
}

/* A record, of which only that counts which its kind has. */
struct record {
    int kind;
    long long tx_id, record_id;
    unsigned char user_type;
    Py_buffer body;
    const char *counts;
    Py_ssize_t counts_bytes;
};

/* The fields before the body; where they end. */
static uint8_t *put_head(uint8_t *data, uint32_t file_id, const struct record *record)
{
    uint32_t body = (uint32_t)record->body.len, files = (uint32_t)(record->counts_bytes / JOURNAL_PLACE_BYTES);

    data[JOURNAL_ADD_KIND] = (uint8_t)record->kind;
    put_u32(data + JOURNAL_ADD_FILE_ID, file_id);
    switch (record->kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        put_u64(data + JOURNAL_ADD_RECORD_ID, (uint64_t)record->record_id);
        put_u32(data + JOURNAL_ADD_BODY_BYTES, body);
        data[JOURNAL_ADD_USER_TYPE] = record->user_type;
        return data + JOURNAL_ADD_BYTES;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        put_u64(data + JOURNAL_ADD_TX_TX_ID, (uint64_t)record->tx_id);
        put_u64(data + JOURNAL_ADD_TX_RECORD_ID, (uint64_t)record->record_id);
        put_u32(data + JOURNAL_ADD_TX_BODY_BYTES, body);
        data[JOURNAL_ADD_TX_USER_TYPE] = record->user_type;
        return data + JOURNAL_ADD_TX_BYTES;
    case JOURNAL_KIND_DELETE_TX:
        put_u64(data + JOURNAL_DELETE_TX_TX_ID, (uint64_t)record->tx_id);
        put_u64(data + JOURNAL_DELETE_TX_RECORD_ID, (uint64_t)record->record_id);
        put_u32(data + JOURNAL_DELETE_TX_BODY_BYTES, body);
        return data + JOURNAL_DELETE_TX_BYTES;
    case JOURNAL_KIND_DELETE:
        put_u64(data + JOURNAL_DELETE_RECORD_ID, (uint64_t)record->record_id);
        return data + JOURNAL_DELETE_BYTES;
    case JOURNAL_KIND_PREPARE:
        put_u64(data + JOURNAL_PREPARE_TX_ID, (uint64_t)record->tx_id);
        put_u32(data + JOURNAL_PREPARE_EXTRA_BYTES, body);
        put_u32(data + JOURNAL_PREPARE_FILE_COUNT, files);
        return data + JOURNAL_PREPARE_BYTES;
    case JOURNAL_KIND_COMMIT:
        put_u64(data + JOURNAL_COMMIT_TX_ID, (uint64_t)record->tx_id);
        put_u32(data + JOURNAL_COMMIT_FILE_COUNT, files);
        return data + JOURNAL_COMMIT_BYTES;
    default:
        put_u64(data + JOURNAL_ROLLBACK_TX_ID, (uint64_t)record->tx_id);
        return data + JOURNAL_ROLLBACK_BYTES;
    }
}

static int64_t put_record(uint8_t *data, const struct journal_use *use, uint64_t at, const struct record *record)
{
    uint8_t *end = put_head(data, use->file_id, record);

    memcpy(end, record->body.buf, (size_t)record->body.len);
    end += record->body.len;
    memcpy(end, record->counts, (size_t)record->counts_bytes);
    end += record->counts_bytes;
    put_u32(end, journal_check(use, at, data, (size_t)(end - data)));
    return end - data + JOURNAL_CHECK_BYTES;
}

/* Whether a check is zero, or is with one bit changed: where the last record is damaged, that its check is there and zeros
 * follow shows where it ended. */
static int is_nearly_zero(uint32_t check)
{
    return (check & (check - 1)) == 0;
}

/* The record goes where the arguments say, which `format` describes; where in the buffer it ends, or NULL with an
 * exception.  looks: it is negative where the record holds a mark of its file, and 0 where it must not be appended. */
static PyObject *pack(PyObject *args, const char *format, int looks)
{
    Py_buffer buffer;
    Py_ssize_t place, salt_bytes;
    unsigned int file_id;
    unsigned long long at;
    const char *salt;
    struct record record;
    struct journal_use use;
    PyObject *end = NULL;

    if (!PyArg_ParseTuple(args, format, &buffer, &place, &file_id, &salt, &salt_bytes, &at, &record.kind, &record.tx_id,
                          &record.record_id, &record.user_type, &record.body, &record.counts, &record.counts_bytes))
        return NULL;
    Py_ssize_t room = buffer.len - place - JOURNAL_HEAD_MAX - JOURNAL_CHECK_BYTES;
    if (journal_use(&use, file_id, salt, salt_bytes) != 0)
        ;
    else if (record.kind < JOURNAL_KIND_ADD || record.kind > JOURNAL_KIND_ROLLBACK || place < 0 || room < 0 ||
             record.body.len > room - record.counts_bytes || record.counts_bytes > room)
        PyErr_SetString(PyExc_ValueError, "no kind of a record, or one for which the buffer has no room");
    else {
        uint8_t *start = (uint8_t *)buffer.buf + place;
        int64_t bytes = put_record(start, &use, at, &record);
        int64_t told = place + bytes;
        if (looks && use.salt &&
            (is_nearly_zero(get_u32(start + bytes - JOURNAL_CHECK_BYTES)) ||
             journal_may_shrink(&use, at, start, (size_t)bytes)))
            told = 0;
        else if (looks && use.salt && journal_holds_mark(start, (size_t)bytes, file_id))
            told = -told;
        end = PyLong_FromLongLong(told);
    }
    PyBuffer_Release(&record.body);
    PyBuffer_Release(&buffer);
    return end;
}

/* pack_journal(buffer, place, file_id, salt, at, kind, tx_id, record_id, user_type, body, counts): the record goes to
 * `place` of the buffer and to the offset `at` of its file; where in the buffer it ends.  counts: as they lie in it.
 * Raises ValueError where it does not fit, with room for the longest head. */
PyObject *binlog_pack_journal(PyObject *module, PyObject *args)
{
    (void)module;
    return pack(args, "w*nIy#KiLLby*y#:pack_journal", 0);
}

/* pack_appended(...): as pack_journal; negative where what it has, behind its beginning, may be another record of the file
 * in our layout, or become one by what comes next: see journal_lookalikes.c.  0 where one bit would make it a shorter one,
 * see journal_shorter.c, or its check is zero but for one bit. */
PyObject *binlog_pack_appended(PyObject *module, PyObject *args)
{
    (void)module;
    return pack(args, "w*nIy#KiLLby*y#:pack_appended", 1);
}
