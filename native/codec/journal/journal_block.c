/* Native records: fragments in blocks; binlog/format/journal/block.py is the plain implementation.
 *
 * The bytes are hostile: only fields covered by the CRC of a head count, and each length is checked before it is used.
 * A head is expected only after the last fragment and at the beginning of a block, so no byte of a body is taken for one.
 */
#include "journal.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

#define BLOCK ((uint64_t)JOURNAL_BLOCK_BYTES)
#define HEAD ((uint64_t)JOURNAL_FRAGMENT_BYTES)
#define HEAD_REST JOURNAL_FRAGMENT_DATA_CRC /* the CRC of a head covers the head from here on */

enum part { WHOLE = 1, FIRST, MIDDLE, LAST };

uint64_t journal_fragment_start(uint64_t at)
{
    uint64_t left = (BLOCK - at % BLOCK) % BLOCK;
    return left > 0 && left <= HEAD ? at + left : at;
}

static uint32_t head_crc(const struct journal_use *use, uint64_t at, const uint8_t *head)
{
    uint8_t covered[8 + JOURNAL_FRAGMENT_BYTES - HEAD_REST];

    put_u64(covered, at);
    memcpy(covered + 8, head + HEAD_REST, sizeof covered - 8);
    return binlog_crc32c(use->salt_crc, covered, sizeof covered);
}

/* Up to three runs of bytes, consumed in order. */
struct rest {
    const uint8_t *data[3];
    uint64_t bytes[3];
    int part;
};

static void take(struct rest *rest, uint8_t *to, uint64_t bytes)
{
    while (bytes > 0) {
        uint64_t some = rest->bytes[rest->part] < bytes ? rest->bytes[rest->part] : bytes;
        if (some)
            memcpy(to, rest->data[rest->part], some);
        rest->data[rest->part] += some;
        rest->bytes[rest->part] -= some;
        to += some;
        bytes -= some;
        rest->part += bytes > 0;
    }
}

uint8_t *journal_put_fragments(uint8_t *to, const struct journal_use *use, uint64_t at, int kind,
                               const uint8_t *const data[3], const uint64_t bytes[3])
{
    struct rest rest = {{data[0], data[1], data[2]}, {bytes[0], bytes[1], bytes[2]}, 0};
    uint64_t left = bytes[0] + bytes[1] + bytes[2], start = journal_fragment_start(at);
    int is_first = 1;

    memset(to, 0, start - at);
    to += start - at;
    at = start;
    while (left > 0) {
        uint64_t room = BLOCK - at % BLOCK - HEAD, some = left < room ? left : room;
        left -= some;
        take(&rest, to + HEAD, some);
        put_u32(to + JOURNAL_FRAGMENT_DATA_CRC, binlog_crc32c(0, to + HEAD, some));
        put_u16(to + JOURNAL_FRAGMENT_DATA_BYTES, (uint16_t)some);
        to[JOURNAL_FRAGMENT_PART] = is_first ? (left ? FIRST : WHOLE) : left ? MIDDLE : LAST;
        to[JOURNAL_FRAGMENT_KIND] = (uint8_t)kind;
        put_u32(to + JOURNAL_FRAGMENT_HEAD_CRC, head_crc(use, at, to));
        to += HEAD + some;
        at += HEAD + some;
        is_first = 0;
    }
    return to;
}

struct fragment {
    uint64_t at, bytes; /* bytes: after the head */
    int part, kind;
};

/* Whether a valid head is at an offset of the data. */
static int fragment_at(const struct journal_scan *scan, uint64_t at, struct fragment *fragment)
{
    uint64_t room = BLOCK - (scan->base + at) % BLOCK, left = at < scan->stop ? scan->stop - at : 0;
    const uint8_t *head = scan->data + at;

    if (room <= HEAD || left < HEAD ||
        get_u32(head + JOURNAL_FRAGMENT_HEAD_CRC) != head_crc(&scan->use, scan->base + at, head))
        return 0;
    *fragment = (struct fragment){at, get_u16(head + JOURNAL_FRAGMENT_DATA_BYTES), head[JOURNAL_FRAGMENT_PART],
                                  head[JOURNAL_FRAGMENT_KIND]};
    return fragment->bytes > 0 && fragment->bytes <= (left < room ? left : room) - HEAD && fragment->part >= WHOLE &&
           fragment->part <= LAST && journal_is_kind(head[JOURNAL_FRAGMENT_KIND]);
}

/* Return the start of the next fragment after an offset of the data. */
static uint64_t start_after(const struct journal_scan *scan, uint64_t at)
{
    return journal_fragment_start(scan->base + at) - scan->base;
}

static uint64_t end_of(const struct fragment *fragment)
{
    return fragment->at + HEAD + fragment->bytes;
}

static int is_valid(const struct journal_scan *scan, const struct fragment *fragment)
{
    const uint8_t *head = scan->data + fragment->at;
    return binlog_crc32c(0, head + HEAD, fragment->bytes) == get_u32(head + JOURNAL_FRAGMENT_DATA_CRC);
}

/* Whether the fragments from `first` on are a valid record.  *end: their end.  *bytes: their size without heads. */
static int measure(const struct journal_scan *scan, const struct fragment *first, uint64_t *end, uint64_t *bytes)
{
    struct fragment fragment = *first;
    int valid = is_valid(scan, first), is_last = first->part == WHOLE;

    *end = end_of(first);
    *bytes = first->bytes;
    while (!is_last) {
        if (!fragment_at(scan, start_after(scan, *end), &fragment) || fragment.part < MIDDLE ||
            fragment.kind != first->kind)
            return 0; /* the rest of the record is lost; the walk continues with the bytes here */
        valid &= is_valid(scan, &fragment);
        *end = end_of(&fragment);
        *bytes += fragment.bytes;
        is_last = fragment.part == LAST;
    }
    return valid;
}

/* Move the data of a valid record's fragments together, after the first head. */
static void join(const struct journal_scan *scan, const struct fragment *first)
{
    uint8_t *to = (uint8_t *)scan->data + first->at + HEAD + first->bytes;
    struct fragment fragment = *first;

    while (fragment.part != WHOLE && fragment.part != LAST) {
        fragment_at(scan, start_after(scan, end_of(&fragment)), &fragment);
        memmove(to, scan->data + fragment.at + HEAD, fragment.bytes);
        to += fragment.bytes;
    }
}

size_t journal_data_head_bytes(int kind)
{
    switch (kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        return JOURNAL_DATA_ADD_BYTES;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        return JOURNAL_DATA_ADD_TX_BYTES;
    case JOURNAL_KIND_DELETE_TX:
        return JOURNAL_DATA_DELETE_TX_BYTES;
    case JOURNAL_KIND_DELETE:
        return JOURNAL_DATA_DELETE_BYTES;
    case JOURNAL_KIND_PREPARE:
    case JOURNAL_KIND_COMMIT:
        return JOURNAL_DATA_END_BYTES;
    default:
        return JOURNAL_DATA_ROLLBACK_BYTES;
    }
}

/* Parse the fields of a record whose data is contiguous; whether it is long enough for them. */
static int parse(const uint8_t *data, uint64_t bytes, struct journal_record *record)
{
    uint64_t files = 0;

    record->head_bytes = journal_data_head_bytes(record->kind);
    if (bytes < record->head_bytes)
        return 0;
    switch (record->kind) {
    case JOURNAL_KIND_ADD:
    case JOURNAL_KIND_UPDATE:
        record->record_id = (int64_t)get_u64(data + JOURNAL_DATA_ADD_RECORD_ID);
        record->user_type = data[JOURNAL_DATA_ADD_USER_TYPE];
        break;
    case JOURNAL_KIND_ADD_TX:
    case JOURNAL_KIND_UPDATE_TX:
        record->tx_id = (int64_t)get_u64(data + JOURNAL_DATA_ADD_TX_TX_ID);
        record->record_id = (int64_t)get_u64(data + JOURNAL_DATA_ADD_TX_RECORD_ID);
        record->user_type = data[JOURNAL_DATA_ADD_TX_USER_TYPE];
        break;
    case JOURNAL_KIND_DELETE_TX:
        record->tx_id = (int64_t)get_u64(data + JOURNAL_DATA_DELETE_TX_TX_ID);
        record->record_id = (int64_t)get_u64(data + JOURNAL_DATA_DELETE_TX_RECORD_ID);
        break;
    case JOURNAL_KIND_DELETE:
        record->record_id = (int64_t)get_u64(data + JOURNAL_DATA_DELETE_RECORD_ID);
        break;
    case JOURNAL_KIND_PREPARE:
    case JOURNAL_KIND_COMMIT:
        record->tx_id = (int64_t)get_u64(data + JOURNAL_DATA_END_TX_ID);
        files = get_u32(data + JOURNAL_DATA_END_FILE_COUNT);
        break;
    default:
        record->tx_id = (int64_t)get_u64(data + JOURNAL_DATA_ROLLBACK_TX_ID);
    }
    record->counts_bytes = files * JOURNAL_COUNT_BYTES;
    if (record->counts_bytes > bytes - record->head_bytes)
        return 0;
    record->body = data + record->head_bytes;
    record->body_bytes = bytes - record->head_bytes - record->counts_bytes;
    record->counts = record->body + record->body_bytes;
    return record->body_bytes <= INT32_MAX;
}

/* Find the first block after an offset that begins with a valid head; `stop` if there is none.  The data is a whole file. */
static uint64_t next_block(const struct journal_scan *scan, uint64_t start, struct fragment *fragment)
{
    for (uint64_t block = (start / BLOCK + 1) * BLOCK; block < scan->stop; block += BLOCK)
        if (fragment_at(scan, block, fragment))
            return block;
    return scan->stop;
}

int journal_next_fragments(const struct journal_scan *scan, struct journal_walk *walk, struct journal_record *record)
{
    uint64_t start = start_after(scan, walk->end), end, bytes;
    struct fragment first;

    for (;;) {
        if (start < walk->end || start >= scan->stop)
            return 0;
        if (!fragment_at(scan, start, &first) && (start = next_block(scan, start, &first)) >= scan->stop)
            return 0;
        int is_whole = first.part <= FIRST && measure(scan, &first, &end, &bytes);
        memset(record, 0, sizeof *record);
        record->kind = first.kind;
        if (is_whole) {
            join(scan, &first);
            is_whole = parse(scan->data + start + HEAD, bytes, record);
        } else if (first.part > FIRST) {
            end = end_of(&first);
        }
        if (is_whole)
            break;
        start = start_after(scan, end);
    }
    record->offset = start;
    record->bytes = end - start;
    if (start != walk->end && journal_add_gap(walk, start) != 0)
        return -1;
    walk->end = end;
    return 1;
}

/* join_fragments(data, at, salt): join the fragments of one record.  data: exactly the record, which begins at the offset `at`
 * of its file.  Returns its bytes without heads, or None if it is not valid. */
PyObject *binlog_join_fragments(PyObject *module, PyObject *args)
{
    Py_buffer data;
    unsigned long long at;
    const char *salt;
    Py_ssize_t salt_bytes;
    PyObject *joined = NULL;
    struct journal_scan scan = {0};
    struct fragment first;
    uint64_t end, bytes;

    (void)module;
    if (!PyArg_ParseTuple(args, "w*Ky#:join_fragments", &data, &at, &salt, &salt_bytes))
        return NULL;
    if (journal_use(&scan.use, 0, salt, salt_bytes) == 0 && scan.use.salt) {
        scan.data = data.buf;
        scan.stop = (size_t)data.len;
        scan.base = at;
        if (fragment_at(&scan, 0, &first) && first.part <= FIRST && measure(&scan, &first, &end, &bytes) &&
            end == scan.stop) {
            join(&scan, &first);
            joined = PyBytes_FromStringAndSize((const char *)data.buf + HEAD, (Py_ssize_t)bytes);
        } else {
            joined = Py_NewRef(Py_None);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "a salt has 8 bytes");
    }
    PyBuffer_Release(&data);
    return joined;
}
