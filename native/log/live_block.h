/* The header of an open file as a committer needs it: the live block and the commit slots. */
#ifndef BINLOG_LIVE_BLOCK_H
#define BINLOG_LIVE_BLOCK_H

#include "binlog.h"
#include "layout.h"

enum { FLAG_POISON = 1, FLAG_FOREIGN_WRITERS = 2, FLAG_STRICT = 4, FLAG_INTENT = 8 }; /* binlog.format.log_header.Flag */

#define PUBLISHED_BYTES (LOG_HEADER_DOORBELL + 4 - LOG_HEADER_TAIL) /* 8..131: what a commit publishes, the doorbell last */

struct live {
    uint64_t tail, published_tail, record_count, confirmed_end, confirmed_counter;
    uint32_t running_crc, epoch, doorbell;
    uint16_t flags, poison_errno;
};

struct slot {
    uint64_t counter, start, end, record_count, time_ns;
    uint32_t group_crc, epoch, nonce;
};

/* Whether the header needs no recovery before the next commit: see live_block.c. */
int live_is_plain(const struct binlog_file *file, const uint8_t *header, struct live *live);

/* Writes the values over bytes 8..127 of the header, with the CRC. */
void live_pack(const struct binlog_file *file, uint8_t *header, const struct live *live);

int slot_offset(uint64_t counter);
void slot_pack(const struct binlog_file *file, uint8_t *bytes, const struct slot *slot);

/* Finds the slot with this counter; 0 if its place holds another, or its CRC does not match. */
int slot_find(const struct binlog_file *file, const uint8_t *header, uint64_t counter, struct slot *slot);

#endif
