/* Packing a record of a journal; pack_record in binlog/format/journal/record.py is the plain implementation. */
#include "journal.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

int journal_use(struct journal_use *use, unsigned int file_id, const char *salt, Py_ssize_t salt_bytes)
{
    if (salt_bytes != 0 && salt_bytes != JOURNAL_SALT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes");
        return -1;
    }
    use->file_id = file_id;
    use->salt = salt_bytes ? (const uint8_t *)salt : NULL;
    use->salt_crc = binlog_crc32c(0, (const uint8_t *)salt, (size_t)salt_bytes);
    return 0;
}

/* A record to pack.  Fields that its kind does not have are ignored. */
struct record {
    int kind;
    long long tx_id, record_id;
    unsigned char user_type;
    Py_buffer body;
    const char *counts;
    Py_ssize_t counts_bytes;
};

/* Write the fields before the body, in the native layout. */
static void put_data_head(uint8_t *data, const struct record *record)
{
    switch (record->kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        put_u64(data + JOURNAL_DATA_ADD_RECORD_ID, (uint64_t)record->record_id);
        data[JOURNAL_DATA_ADD_USER_TYPE] = record->user_type;
        break;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        put_u64(data + JOURNAL_DATA_ADD_TX_TX_ID, (uint64_t)record->tx_id);
        put_u64(data + JOURNAL_DATA_ADD_TX_RECORD_ID, (uint64_t)record->record_id);
        data[JOURNAL_DATA_ADD_TX_USER_TYPE] = record->user_type;
        break;
    case JOURNAL_KIND_DELETE_TX:
        put_u64(data + JOURNAL_DATA_DELETE_TX_TX_ID, (uint64_t)record->tx_id);
        put_u64(data + JOURNAL_DATA_DELETE_TX_RECORD_ID, (uint64_t)record->record_id);
        break;
    case JOURNAL_KIND_DELETE:
        put_u64(data + JOURNAL_DATA_DELETE_RECORD_ID, (uint64_t)record->record_id);
        break;
    case JOURNAL_KIND_PREPARE:
    case JOURNAL_KIND_COMMIT:
        put_u64(data + JOURNAL_DATA_END_TX_ID, (uint64_t)record->tx_id);
        put_u32(data + JOURNAL_DATA_END_FILE_COUNT, (uint32_t)(record->counts_bytes / JOURNAL_COUNT_BYTES));
        break;
    default:
        put_u64(data + JOURNAL_DATA_ROLLBACK_TX_ID, (uint64_t)record->tx_id);
    }
}

static uint8_t *put_fragments(uint8_t *to, const struct journal_use *use, uint64_t at, const struct record *record)
{
    uint8_t head[JOURNAL_DATA_ADD_TX_BYTES]; /* the longest one */
    const uint8_t *const data[] = {head, record->body.buf, (const uint8_t *)record->counts};
    const uint64_t bytes[] = {journal_data_head_bytes(record->kind), (uint64_t)record->body.len,
                              (uint64_t)record->counts_bytes};

    put_data_head(head, record);
    return journal_put_fragments(to, use, at, record->kind, data, bytes);
}

/* Write the fields before the body, in JBoss Messaging's layouts; return their end. */
static uint8_t *put_head(uint8_t *data, uint32_t file_id, const struct record *record)
{
    uint32_t body = (uint32_t)record->body.len, files = (uint32_t)(record->counts_bytes / JOURNAL_COUNT_BYTES);

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

static uint8_t *put_record(uint8_t *data, const struct journal_use *use, const struct record *record)
{
    uint8_t *end = put_head(data, use->file_id, record);

    memcpy(end, record->body.buf, (size_t)record->body.len);
    end += record->body.len;
    memcpy(end, record->counts, (size_t)record->counts_bytes);
    end += record->counts_bytes;
    put_u32(end, (uint32_t)(end - data + JOURNAL_CHECK_BYTES));
    return end + JOURNAL_CHECK_BYTES;
}

/* Return an upper bound for the size of a record at any offset. */
static int64_t bytes_most(const struct record *record)
{
    int64_t bytes = JOURNAL_HEAD_MAX + JOURNAL_CHECK_BYTES + (int64_t)record->body.len + record->counts_bytes;
    return bytes + JOURNAL_FRAGMENT_BYTES * (bytes / (JOURNAL_BLOCK_BYTES - JOURNAL_FRAGMENT_BYTES) + 3);
}

/* pack_journal(file_id, salt, at, kind, tx_id, record_id, user_type, body, counts): pack the next record after the offset `at`
 * of its file.  counts: already packed. */
PyObject *binlog_pack_journal(PyObject *module, PyObject *args)
{
    Py_ssize_t salt_bytes;
    unsigned int file_id;
    unsigned long long at;
    const char *salt;
    struct record record;
    struct journal_use use;
    uint8_t buffer[8192], *to = buffer;
    PyObject *packed = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "Iy#KiLLby*y#:pack_journal", &file_id, &salt, &salt_bytes, &at, &record.kind, &record.tx_id,
                          &record.record_id, &record.user_type, &record.body, &record.counts, &record.counts_bytes))
        return NULL;
    if (journal_use(&use, file_id, salt, salt_bytes) != 0)
        ;
    else if (record.kind < JOURNAL_KIND_ADD || record.kind > JOURNAL_KIND_ROLLBACK)
        PyErr_SetString(PyExc_ValueError, "unknown kind of a record");
    else if (bytes_most(&record) > (int64_t)sizeof buffer && !(to = PyMem_Malloc((size_t)bytes_most(&record))))
        PyErr_NoMemory();
    else {
        uint8_t *stop = use.salt ? put_fragments(to, &use, at, &record) : put_record(to, &use, &record);
        packed = PyBytes_FromStringAndSize((char *)to, stop - to);
    }
    if (to != buffer)
        PyMem_Free(to);
    PyBuffer_Release(&record.body);
    return packed;
}
