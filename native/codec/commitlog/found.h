/* A message of a commit log where it lies: found.c, for what goes through messages (walk.c) or picks some (columns.c). */
#ifndef BINLOG_FOUND_H
#define BINLOG_FOUND_H

#include <stddef.h>
#include <stdint.h>

enum walk_stop { WALK_END, WALK_SHORT, WALK_BLANK, WALK_INVALID };

/* Its parts.  `flag` is the system flag; `properties` has the CRC of the whole message last, where there is one. */
struct found {
    const uint8_t *data, *body, *topic, *properties;
    uint32_t bytes, body_bytes, topic_bytes, properties_bytes;
    uint32_t queue_id, flag;
    uint64_t queue_offset, store_ms;
};

/* The message at `data`, of which `bytes` are there, and which lies at `offset` of the log; WALK_END where it is one. */
enum walk_stop find_message(const uint8_t *data, size_t bytes, uint64_t offset, int check, struct found *found);

/* Whether its properties end with the CRC of the whole message. */
int has_record_crc(const struct found *found);

/* The value of a property, or NULL; as in a table of which the last one of a name counts. */
const uint8_t *find_property(const struct found *found, const char *name, uint32_t name_bytes, uint32_t *value_bytes);

#endif
