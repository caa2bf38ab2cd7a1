/* A message of a commit log where it lies.
 *
 * The bytes are hostile: every length is checked before it is used.  A message counts where it says that it lies there; its
 * CRCs are compared where that is asked for.
 */
#include "message.h"

#include "found.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

#include <string.h>

/* A run of bytes in which reading goes on: NULL once a length leads out of it. */
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

int has_record_crc(const struct found *found)
{
    return message_ends_with_crc(found->properties, found->properties_bytes) == CRC_WHOLE;
}

static int crcs_hold(const struct found *found)
{
    uint8_t property[MESSAGE_CRC_BYTES];

    if ((binlog_crc32(0, found->body, found->body_bytes) & INT32_MAX) != get_u32(found->data + MESSAGE_BODY_CRC))
        return 0;
    enum crc_found kept = message_ends_with_crc(found->properties, found->properties_bytes);
    if (kept != CRC_WHOLE)
        return kept == CRC_NONE;
    message_crc_property(property, found->data, found->bytes - MESSAGE_CRC_BYTES);
    return memcmp(property, found->data + found->bytes - MESSAGE_CRC_BYTES, MESSAGE_CRC_BYTES) == 0;
}

enum walk_stop find_message(const uint8_t *data, size_t bytes, uint64_t offset, int check, struct found *found)
{
    if (bytes < 8)
        return WALK_SHORT;
    uint32_t magic = get_u32(data + MESSAGE_MAGIC);
    if (magic == MESSAGE_BLANK)
        return WALK_BLANK;
    found->data = data;
    found->bytes = get_u32(data + MESSAGE_MESSAGE_BYTES);
    if ((magic != MESSAGE_V1 && magic != MESSAGE_V2) || found->bytes > INT32_MAX || found->bytes < MESSAGE_BYTES)
        return WALK_INVALID;
    if (bytes < found->bytes)
        return WALK_SHORT;
    found->flag = get_u32(data + MESSAGE_SYSTEM_FLAG);
    found->queue_id = get_u32(data + MESSAGE_QUEUE_ID);
    found->queue_offset = get_u64(data + MESSAGE_QUEUE_OFFSET);
    uint32_t born = found->flag & MESSAGE_BORN_HOST_V6 ? MESSAGE_IPV6_MORE : 0;
    uint32_t store = found->flag & MESSAGE_STORE_HOST_V6 ? MESSAGE_IPV6_MORE : 0;
    struct rest rest = {data, data + found->bytes};
    take(&rest, (uint64_t)MESSAGE_BODY_BYTES + born + store);
    found->body_bytes = take_length(&rest, 4);
    found->body = take(&rest, found->body_bytes);
    found->topic_bytes = take_length(&rest, magic == MESSAGE_V1 ? 1 : 2);
    found->topic = take(&rest, found->topic_bytes);
    found->properties_bytes = take_length(&rest, 2);
    found->properties = take(&rest, found->properties_bytes);
    if (rest.at != rest.end || get_u64(data + MESSAGE_OFFSET) != offset)
        return WALK_INVALID;
    found->store_ms = get_u64(data + MESSAGE_STORE_MS + born);
    return check && !crcs_hold(found) ? WALK_INVALID : WALK_END;
}

const uint8_t *find_property(const struct found *found, const char *name, uint32_t name_bytes, uint32_t *value_bytes)
{
    const uint8_t *at = found->properties, *end = at + found->properties_bytes, *value = NULL;
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
