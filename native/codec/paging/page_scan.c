/* Scans the messages of a page; parse_page_record in binlog/format/paging/page_record.py is the reference version. */
#include "page.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#define NO_TRANSACTION (-1)

/* Why a scan ended; ScanStop in binlog/format/paging/page_record.py has the same values. */
enum stop { STOP_SHORT, STOP_END, STOP_INVALID, STOP_ENOUGH };

struct record {
    const uint8_t *message;
    size_t message_bytes, whole_bytes;
    int64_t tx_id;
};

/* Parses the record at `data`, which has `left` bytes and is at this offset of the page.  Returns -1 for a valid record, or a
 * reason to stop. */
static int parse(const uint8_t *salt, const uint8_t *data, size_t left, uint64_t offset, struct record *record)
{
    if (left == 0)
        return STOP_SHORT;
    if (data[0] == PAGE_CLOSES) {
        if (left < PAGE_END_BYTES)
            return STOP_SHORT;
        uint32_t crc = binlog_crc32c(page_crc_seed(salt, offset), data, PAGE_END_CRC);
        return get_u32(data + PAGE_END_CRC) == crc ? STOP_END : STOP_INVALID;
    }
    if (data[0] != PAGE_OPENS)
        return STOP_INVALID;
    if (left < PAGE_RECORD_BYTES)
        return STOP_SHORT;
    uint32_t crc = binlog_crc32c(page_crc_seed(salt, offset), data, PAGE_RECORD_CRC);
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

static int parse_jbm(const uint8_t *data, size_t left, struct record *record)
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

/* The messages that a scan has scan.  tx_ids: NULL until a message belongs to a transaction. */
struct scan {
    PyObject *messages, *tx_ids;
    size_t end;
};

static int add(struct scan *scan, const struct record *record)
{
    Py_ssize_t count = PyList_Size(scan->messages);

    if (!scan->tx_ids && record->tx_id != NO_TRANSACTION) {
        scan->tx_ids = PyList_New(0);
        for (Py_ssize_t i = 0; scan->tx_ids && i < count; i++)
            if (append(scan->tx_ids, PyLong_FromLong(NO_TRANSACTION)) != 0)
                return -1;
        if (!scan->tx_ids)
            return -1;
    }
    if (scan->tx_ids && append(scan->tx_ids, PyLong_FromLongLong(record->tx_id)) != 0)
        return -1;
    return append(scan->messages, PyBytes_FromStringAndSize((const char *)record->message,
                                                             (Py_ssize_t)record->message_bytes));
}

/* scan_page(data, offset, salt, skip, count_max): returns (messages, tx_ids, consumed, stop, skipped).
 *
 * `data` is the part of a page that starts at `offset`.  The first `skip` messages are skipped, and at most `count_max` more are
 * returned.  tx_ids is None if no message belongs to a transaction.  `consumed` counts the bytes of all these messages, and
 * `stop` is an enum stop.  An empty salt selects the layout of JBoss Messaging. */
PyObject *binlog_scan_page(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned long long offset;
    const char *salt_given;
    const uint8_t *salt;
    Py_ssize_t salt_bytes, skip, count_max, skipped = 0;
    PyObject *all = NULL;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*Ky#nn:scan_page", &data, &offset, &salt_given, &salt_bytes, &skip, &count_max))
        return NULL;
    struct scan scan = {PyList_New(0), NULL, 0};
    int stop = -1;
    if (scan.messages && page_salt(salt_given, salt_bytes, &salt) == 0) {
        const uint8_t *bytes = data.buf;
        while (stop < 0) {
            struct record record;
            size_t left = (size_t)data.len - scan.end;
            if (skipped == skip && count_max-- == 0)
                stop = STOP_ENOUGH;
            else
                stop = salt ? parse(salt, bytes + scan.end, left, offset + scan.end, &record)
                            : parse_jbm(bytes + scan.end, left, &record);
            if (stop >= 0)
                break;
            if (skipped < skip)
                skipped++;
            else if (add(&scan, &record) != 0)
                break;
            scan.end += record.whole_bytes;
        }
    }
    if (stop >= 0)
        all = Py_BuildValue("(OOnin)", scan.messages, scan.tx_ids ? scan.tx_ids : Py_None, (Py_ssize_t)scan.end, stop,
                            skipped);
    Py_XDECREF(scan.messages);
    Py_XDECREF(scan.tx_ids);
    PyBuffer_Release(&data);
    return all;
}
