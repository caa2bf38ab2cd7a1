/* A view of one message in a commit log, for walk.c and columns.c. */
#ifndef BINLOG_MESSAGE_PARSE_H
#define BINLOG_MESSAGE_PARSE_H

#include <stddef.h>
#include <stdint.h>

enum walk_stop { WALK_END, WALK_SHORT, WALK_BLANK, WALK_INVALID };

/* Pointers to the parts of a message.  `flag` is the system flag; `properties` includes the CRC of the whole message. */
struct message_view {
    const uint8_t *data, *body, *topic, *properties;
    uint32_t bytes, body_bytes, topic_bytes, properties_bytes;
    uint32_t queue_id, flag;
    uint64_t queue_offset, store_ms;
};

/* Parse the message at `data`, which has `bytes` bytes and is at `offset` of the log; WALK_END if it is valid. */
enum walk_stop parse_message(const uint8_t *data, size_t bytes, uint64_t offset, int check, struct message_view *message);

/* Return whether the properties end with the CRC of the whole message. */
int has_record_crc(const struct message_view *message);

/* Return the value of a property, the last one of that name; NULL if there is none. */
const uint8_t *find_property(const struct message_view *message, const char *name, uint32_t name_bytes, uint32_t *value_bytes);

#endif
