/* Reading an operation of a group: see binlog/format/consumers/operation.py for its layout.
 *
 * An operation is validated as a whole before any of it takes effect.
 */
#include <Python.h>

#include "big_endian.h"
#include "codec.h"
#include "group_apply.h"
#include "layout.h"

#define MAGIC 0xB147
#define VERSION 1

static int is_text(const uint8_t *text, size_t bytes)
{
    PyObject *decoded = PyUnicode_DecodeUTF8((const char *)text, (Py_ssize_t)bytes, "strict");
    PyErr_Clear();
    Py_XDECREF(decoded);
    return decoded != NULL;
}

/* The bytes of a section's entries, or -1 if they are not as its kind says. */
static int64_t entries_bytes(int kind, uint16_t count, const uint8_t *at, size_t left)
{
    size_t bytes = 0;

    switch (kind) {
    case CHECKPOINT:
        return (int64_t)left;
    case LEAVE: case PAUSE: case RESUME: case DELETED:
        return count ? -1 : 0;
    case SETTINGS:
        return (int64_t)count * GROUP_SETTING_BYTES;
    case DONE: case BACK:
        return (int64_t)count * GROUP_DELIVERY_BYTES;
    case START:
        return (int64_t)count * GROUP_SEQUENCE_BYTES;
    case EXTEND:
        return (int64_t)count * GROUP_EXTENSION_BYTES;
    case GONE:
        return (int64_t)count * GROUP_RANGE_BYTES;
    case AGAIN:
        return (int64_t)count * GROUP_AGAIN_BYTES;
    case DEATH:
        return (int64_t)count * GROUP_SEAT_BYTES;
    case CLOCK:
        return count == 1 ? GROUP_CLOCK_BYTES : -1;
    case RESET:
        return count == 1 ? GROUP_RESET_BYTES : -1;
    case JOIN:
        if (count != 1 || left < GROUP_JOIN_BYTES)
            return -1;
        bytes = GROUP_JOIN_BYTES + get_u16(at + GROUP_JOIN_HINT_BYTES);
        return bytes <= left && is_text(at + GROUP_JOIN_BYTES, bytes - GROUP_JOIN_BYTES) ? (int64_t)bytes : -1;
    case RETRY: case REJECT:
        for (uint16_t number = 0; number < count; number++) {
            if (left - bytes < GROUP_FAILURE_BYTES)
                return -1;
            size_t reason = get_u16(at + bytes + GROUP_FAILURE_REASON_BYTES);
            bytes += GROUP_FAILURE_BYTES;
            if (left - bytes < reason || !is_text(at + bytes, reason))
                return -1;
            bytes += reason;
        }
        return (int64_t)bytes;
    case WINDOW: {
        if (count != 1 || left < GROUP_WINDOW_BYTES)
            return -1;
        uint32_t messages = get_u32(at + GROUP_WINDOW_MESSAGE_COUNT), entries = get_u32(at + GROUP_WINDOW_ENTRY_COUNT);
        return entries == 0 || entries == messages ? GROUP_WINDOW_BYTES + (int64_t)entries * GROUP_MESSAGE_BYTES : -1;
    }
    default:
        return -1;
    }
}

int group_next_section(const uint8_t **at, const uint8_t *end, struct section *section)
{
    if (*at == end)
        return 0;
    if (end - *at < GROUP_SECTION_BYTES || (*at)[GROUP_SECTION_RESERVED])
        return -1;
    section->kind = (*at)[GROUP_SECTION_KIND];
    section->count = get_u16(*at + GROUP_SECTION_COUNT);
    section->at = *at + GROUP_SECTION_BYTES;
    int64_t bytes = entries_bytes(section->kind, section->count, section->at, (size_t)(end - section->at));
    if (bytes < 0 || bytes > end - section->at)
        return -1;
    *at = section->at + bytes;
    return 1;
}

int group_has_kind(const uint8_t *at, const uint8_t *end, int kind)
{
    struct section section;
    while (group_next_section(&at, end, &section) > 0)
        if (section.kind == kind)
            return 1;
    return 0;
}

int group_parse(const uint8_t *record, size_t bytes, uint32_t seed, struct operation *operation)
{
    if (bytes < GROUP_OPERATION_BYTES || get_u16(record) != MAGIC || record[GROUP_OPERATION_VERSION] != VERSION)
        return 0;
    uint32_t crc = binlog_crc32c(seed, record, GROUP_OPERATION_CRC);
    crc = binlog_crc32c(crc, record + GROUP_OPERATION_BYTES, bytes - GROUP_OPERATION_BYTES);
    if (get_u32(record + GROUP_OPERATION_CRC) != crc)
        return 0;
    *operation = (struct operation){
        .flags = record[GROUP_OPERATION_FLAGS],
        .seat = get_u16(record + GROUP_OPERATION_SEAT),
        .want = get_u16(record + GROUP_OPERATION_WANT),
        .generation = get_u32(record + GROUP_OPERATION_GENERATION),
        .number = get_u32(record + GROUP_OPERATION_NUMBER),
        .time_ns = get_u64(record + GROUP_OPERATION_GROUP_TIME_NS),
        .epoch = get_u32(record + GROUP_OPERATION_EPOCH),
        .first = record + GROUP_OPERATION_BYTES,
        .end = record + bytes,
    };
    if (operation->seat >= SEATS_MAX && operation->seat != NO_SEAT)
        return 0;
    const uint8_t *at = operation->first;
    struct section section;
    int found;
    while ((found = group_next_section(&at, operation->end, &section)) > 0)
        if (section.kind == CHECKPOINT)
            operation->checkpoint = section.at;
    return found == 0;
}
