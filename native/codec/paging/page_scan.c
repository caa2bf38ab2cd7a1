/* Messages of a page, as many as are asked for in one call: the plain way to say it is parse_page_record in
 * binlog/format/paging/page_record.py. */
#include "page.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#define NO_TRANSACTION (-1)

/* Why a scan ends; binlog/format/paging/page_record.py has the same. */
enum stop { STOP_SHORT, STOP_END, STOP_INVALID, STOP_ENOUGH };

struct record {
    const uint8_t *message;
    size_t message_bytes, whole_bytes;
    int64_t tx_id;
};

/* The record that lies at `data`, of which `left` bytes are there, and at the offset `at` of a page; why not, else -1. */
static int look(const uint8_t *salt, const uint8_t *data, size_t left, uint64_t at, struct record *record)
{
    if (left == 0)
        return STOP_SHORT;
    if (data[0] == PAGE_CLOSES) {
        if (left < PAGE_END_BYTES)
            return STOP_SHORT;
        uint32_t crc = binlog_crc32c(page_place_crc(salt, at), data, PAGE_END_CRC);
        return get_u32(data + PAGE_END_CRC) == crc ? STOP_END : STOP_INVALID;
    }
    if (data[0] != PAGE_OPENS)
        return STOP_INVALID;
    if (left < PAGE_RECORD_BYTES)
        return STOP_SHORT;
    uint32_t crc = binlog_crc32c(page_place_crc(salt, at), data, PAGE_RECORD_CRC);
    if (get_u32(data + PAGE_RECORD_CRC) != crc)
        return STOP_INVALID;
    record->message = data + PAGE_RECORD_BYTES;
    record->message_bytes = get_u32(data + PAGE_RECORD_MESSAGE_BYTES);
    record->whole_bytes = PAGE_RECORD_BYTES + record->message_bytes + PAGE_CHECK_BYTES;
    if (record->whole_bytes > left)
        return STOP_SHORT;
    record->tx_id = (int64_t)get_u64(data + PAGE_RECORD_TX_ID);
    crc = binlog_crc32c(crc, record->message, record->message_bytes);
    return get_u32(record->message + record->message_bytes) == crc ? -1 : STOP_INVALID;
}

static int look_jbm(const uint8_t *data, size_t left, struct record *record)
{
    if (left == 0)
        return STOP_SHORT;
    if (data[0] != PAGE_OPENS)
        return STOP_INVALID;
    if (left < JBM_PAGE_RECORD_BYTES)
        return STOP_SHORT;
    uint32_t following = get_u32(data + JBM_PAGE_RECORD_FOLLOWING_BYTES);
    size_t tx_bytes = JBM_PAGE_RECORD_BYTES - JBM_PAGE_RECORD_TX_ID;
    if (following < tx_bytes || following > INT32_MAX)
        return STOP_INVALID;
    record->message = data + JBM_PAGE_RECORD_BYTES;
    record->message_bytes = following - tx_bytes;
    record->whole_bytes = JBM_PAGE_RECORD_BYTES + record->message_bytes + JBM_PAGE_CLOSE_BYTES;
    if (record->whole_bytes > left)
        return STOP_SHORT;
    record->tx_id = (int64_t)get_u64(data + JBM_PAGE_RECORD_TX_ID);
    return record->message[record->message_bytes] == PAGE_CLOSES ? -1 : STOP_INVALID;
}

static int append(PyObject *list, PyObject *value)
{
    int result = value ? PyList_Append(list, value) : -1;
    Py_XDECREF(value);
    return result;
}

/* What a scan finds.  tx_ids: NULL until a message is of a transaction. */
struct found {
    PyObject *messages, *tx_ids;
    size_t end;
};

static int add(struct found *found, const struct record *record)
{
    Py_ssize_t count = PyList_Size(found->messages);

    if (!found->tx_ids && record->tx_id != NO_TRANSACTION) {
        found->tx_ids = PyList_New(0);
        for (Py_ssize_t i = 0; found->tx_ids && i < count; i++)
            if (append(found->tx_ids, PyLong_FromLong(NO_TRANSACTION)) != 0)
                return -1;
        if (!found->tx_ids)
            return -1;
    }
    if (found->tx_ids && append(found->tx_ids, PyLong_FromLongLong(record->tx_id)) != 0)
        return -1;
    return append(found->messages, PyBytes_FromStringAndSize((const char *)record->message,
                                                             (Py_ssize_t)record->message_bytes));
}

/* scan_page(data, at, salt, skip, count_max): the messages that `data` holds one after the other, whose first byte lies at
 * the offset `at` of a page, but the first `skip`; the ids of their transactions, None where none has one; how many bytes
 * they all take; why no more: 0 as the data end, 1 before what ends a page, 2 before what is no record, 3 as there are so
 * many; and how many were skipped.  An empty salt is for JBoss Messaging's layout. */
PyObject *binlog_scan_page(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned long long at;
    const char *salt_given;
    const uint8_t *salt;
    Py_ssize_t salt_bytes, skip, count_max, skipped = 0;
    PyObject *all = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*Ky#nn:scan_page", &data, &at, &salt_given, &salt_bytes, &skip, &count_max))
        return NULL;
    struct found found = {PyList_New(0), NULL, 0};
    int stop = -1;
    if (found.messages && page_salt(salt_given, salt_bytes, &salt) == 0) {
        const uint8_t *bytes = data.buf;
        while (stop < 0) {
            struct record record;
            size_t left = (size_t)data.len - found.end;
            if (skipped == skip && count_max-- == 0)
                stop = STOP_ENOUGH;
            else
                stop = salt ? look(salt, bytes + found.end, left, at + found.end, &record)
                            : look_jbm(bytes + found.end, left, &record);
            if (stop >= 0)
                break;
            if (skipped < skip)
                skipped++;
            else if (add(&found, &record) != 0)
                break;
            found.end += record.whole_bytes;
        }
    }
    if (stop >= 0)
        all = Py_BuildValue("(OOnin)", found.messages, found.tx_ids ? found.tx_ids : Py_None, (Py_ssize_t)found.end, stop,
                            skipped);
    Py_XDECREF(found.messages);
    Py_XDECREF(found.tx_ids);
    PyBuffer_Release(&data);
    return all;
}
