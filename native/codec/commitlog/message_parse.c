/* Parsing of one message in a commit log.
 *
 * The bytes are untrusted: every length is validated before its use.  A message is valid if it contains its own offset; its
 * CRCs are compared on request.
 */
#include "message.h"

#include "message_parse.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

/* The unparsed rest of a message; `at` is NULL after a length that exceeds it. */
struct rest {
    const uint8_t *at, *end;
};

static const uint8_t *take(struct rest *rest, uint64_t bytes)
{
    const uint8_t *taken = rest->at;
    if (!taken || bytes > (uint64_t)(rest->end - taken)) {
        rest->at = NULL;
        return NULL;
    }
    rest->at += bytes;
    return taken;
}

static uint32_t take_length(struct rest *rest, int width)
{
    const uint8_t *at = take(rest, (uint64_t)width);
    return !at ? 0 : width == 1 ? at[0] : width == 2 ? get_u16(at) : get_u32(at);
}

int has_record_crc(const struct message_view *message)
{
    return message_ends_with_crc(message->properties, message->properties_bytes) == CRC_WHOLE;
}

static int crcs_match(const struct message_view *message)
{
    uint8_t property[MESSAGE_CRC_BYTES];

    if ((binlog_crc32(0, message->body, message->body_bytes) & INT32_MAX) != get_u32(message->data + MESSAGE_BODY_CRC))
        return 0;
    enum crc_state kept = message_ends_with_crc(message->properties, message->properties_bytes);
    if (kept != CRC_WHOLE)
        return kept == CRC_NONE;
    message_crc_property(property, message->data, message->bytes - MESSAGE_CRC_BYTES);
    return memcmp(property, message->data + message->bytes - MESSAGE_CRC_BYTES, MESSAGE_CRC_BYTES) == 0;
}

enum walk_stop parse_message(const uint8_t *data, size_t bytes, uint64_t offset, int check, struct message_view *message)
{
    if (bytes < 8)
        return WALK_SHORT;
    uint32_t magic = get_u32(data + MESSAGE_MAGIC);
    if (magic == MESSAGE_BLANK)
        return WALK_BLANK;
    message->data = data;
    message->bytes = get_u32(data + MESSAGE_MESSAGE_BYTES);
    if ((magic != MESSAGE_V1 && magic != MESSAGE_V2) || message->bytes > INT32_MAX || message->bytes < MESSAGE_BYTES)
        return WALK_INVALID;
    if (bytes < message->bytes)
        return WALK_SHORT;
    message->flag = get_u32(data + MESSAGE_SYSTEM_FLAG);
    message->queue_id = get_u32(data + MESSAGE_QUEUE_ID);
    message->queue_offset = get_u64(data + MESSAGE_QUEUE_OFFSET);
    uint32_t born = message->flag & MESSAGE_BORN_HOST_V6 ? MESSAGE_IPV6_EXTRA : 0;
    uint32_t store = message->flag & MESSAGE_STORE_HOST_V6 ? MESSAGE_IPV6_EXTRA : 0;
    struct rest rest = {data, data + message->bytes};
    take(&rest, (uint64_t)MESSAGE_BODY_BYTES + born + store);
    message->body_bytes = take_length(&rest, 4);
    message->body = take(&rest, message->body_bytes);
    message->topic_bytes = take_length(&rest, magic == MESSAGE_V1 ? 1 : 2);
    message->topic = take(&rest, message->topic_bytes);
    message->properties_bytes = take_length(&rest, 2);
    message->properties = take(&rest, message->properties_bytes);
    if (rest.at != rest.end || get_u64(data + MESSAGE_OFFSET) != offset)
        return WALK_INVALID;
    message->store_ms = get_u64(data + MESSAGE_STORE_MS + born);
    return check && !crcs_match(message) ? WALK_INVALID : WALK_END;
}

const uint8_t *find_property(const struct message_view *message, const char *name, uint32_t name_bytes, uint32_t *value_bytes)
{
    const uint8_t *at = message->properties, *end = at + message->properties_bytes, *value = NULL;
    while (at < end) {
        const uint8_t *stop = memchr(at, 2, (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > name_bytes && at[name_bytes] == 1 && memcmp(at, name, name_bytes) == 0) {
            value = at + name_bytes + 1;
            *value_bytes = (uint32_t)(stop - value);
        }
        at = stop + 1;
    }
    return value;
}
