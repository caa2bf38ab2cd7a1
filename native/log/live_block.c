/* Reading and writing the live block and the commit slots.  The offsets come from the layout tables, through layout.h. */
#include "live_block.h"

#include "big_endian.h"

#define IDENTITY_BYTES (LOG_HEADER_PUBLISHED_TAIL - LOG_HEADER_MAGIC)
#define LIVE_BYTES (LOG_HEADER_LIVE_CRC - LOG_HEADER_PUBLISHED_TAIL)

_Static_assert(sizeof(((struct binlog_file *)0)->identity) == IDENTITY_BYTES, "binlog.h knows the size of the identity");
_Static_assert(sizeof(((struct binlog_file *)0)->boot_id) == LOG_HEADER_FLAGS - LOG_HEADER_BOOT_ID, "and of the boot id");

static void live_parse(const uint8_t *header, struct live *live)
{
    live->tail = get_u64(header + LOG_HEADER_TAIL);
    live->published_tail = get_u64(header + LOG_HEADER_PUBLISHED_TAIL);
    live->record_count = get_u64(header + LOG_HEADER_RECORD_COUNT);
    live->confirmed_end = get_u64(header + LOG_HEADER_CONFIRMED_END);
    live->confirmed_counter = get_u64(header + LOG_HEADER_CONFIRMED_COUNTER);
    live->running_crc = get_u32(header + LOG_HEADER_RUNNING_CRC);
    live->epoch = get_u32(header + LOG_HEADER_EPOCH);
    live->doorbell = get_u32(header + LOG_HEADER_DOORBELL);
    live->flags = get_u16(header + LOG_HEADER_FLAGS);
    live->poison_errno = get_u16(header + LOG_HEADER_POISON_ERRNO);
}

static uint32_t live_crc(const struct binlog_file *file, const uint8_t *header)
{
    return binlog_crc32c(file->seed, header + LOG_HEADER_PUBLISHED_TAIL, LIVE_BYTES);
}

/* Anything but the common case goes to Python, which applies the recovery table: a closed file, another program's tail, a pending
 * commit, poison, another boot or epoch, a counter that went back.  The read is not torn, because the caller holds the file's
 * lock. */
int live_is_plain(const struct binlog_file *file, const uint8_t *header, struct live *live)
{
    struct slot pending;
    uint16_t unusual = file->has_intent ? FLAG_POISON : FLAG_POISON | FLAG_INTENT;
    live_parse(header, live);
    return memcmp(header + LOG_HEADER_MAGIC, file->identity, IDENTITY_BYTES) == 0 &&
           get_u32(header + LOG_HEADER_NUMBER) == file->number && get_u16(header + LOG_HEADER_STATUS) == 0 &&
           get_u32(header + LOG_HEADER_NEXT_NUMBER) == 0 &&
           get_u32(header + LOG_HEADER_LIVE_CRC) == live_crc(file, header) && live->tail == live->published_tail &&
           live->confirmed_end <= live->tail && live->tail <= INT64_MAX && (live->flags & unusual) == 0 &&
           live->epoch == file->epoch && live->confirmed_counter >= file->counter &&
           memcmp(header + LOG_HEADER_BOOT_ID, file->boot_id, sizeof file->boot_id) == 0 &&
           !slot_find(file, header, live->confirmed_counter + 1, &pending);
}

void live_pack(const struct binlog_file *file, uint8_t *header, const struct live *live)
{
    put_u64(header + LOG_HEADER_TAIL, live->tail);
    put_u64(header + LOG_HEADER_PUBLISHED_TAIL, live->published_tail);
    put_u64(header + LOG_HEADER_RECORD_COUNT, live->record_count);
    put_u64(header + LOG_HEADER_CONFIRMED_END, live->confirmed_end);
    put_u64(header + LOG_HEADER_CONFIRMED_COUNTER, live->confirmed_counter);
    put_u32(header + LOG_HEADER_RUNNING_CRC, live->running_crc);
    put_u32(header + LOG_HEADER_EPOCH, live->epoch);
    put_u16(header + LOG_HEADER_FLAGS, live->flags);
    put_u16(header + LOG_HEADER_POISON_ERRNO, live->poison_errno);
    put_u32(header + LOG_HEADER_LIVE_CRC, live_crc(file, header));
}

int slot_offset(uint64_t counter)
{
    return counter & 1 ? LOG_HEADER_SLOT_1 : LOG_HEADER_SLOT_0;
}

static uint32_t slot_crc(const struct binlog_file *file, const uint8_t *bytes)
{
    return binlog_crc32c(file->seed, bytes, COMMIT_SLOT_SLOT_CRC);
}

void slot_pack(const struct binlog_file *file, uint8_t *bytes, const struct slot *slot)
{
    put_u64(bytes + COMMIT_SLOT_COUNTER, slot->counter);
    put_u64(bytes + COMMIT_SLOT_START, slot->start);
    put_u64(bytes + COMMIT_SLOT_END, slot->end);
    put_u64(bytes + COMMIT_SLOT_RECORD_COUNT, slot->record_count);
    put_u64(bytes + COMMIT_SLOT_TIME_NS, slot->time_ns);
    put_u32(bytes + COMMIT_SLOT_GROUP_CRC, slot->group_crc);
    put_u32(bytes + COMMIT_SLOT_EPOCH, slot->epoch);
    put_u32(bytes + COMMIT_SLOT_NONCE, slot->nonce);
    put_u32(bytes + COMMIT_SLOT_SLOT_CRC, slot_crc(file, bytes));
}

int slot_find(const struct binlog_file *file, const uint8_t *header, uint64_t counter, struct slot *slot)
{
    const uint8_t *bytes = header + slot_offset(counter);
    if (get_u64(bytes + COMMIT_SLOT_COUNTER) != counter || get_u32(bytes + COMMIT_SLOT_SLOT_CRC) != slot_crc(file, bytes))
        return 0;
    slot->counter = counter;
    slot->start = get_u64(bytes + COMMIT_SLOT_START);
    slot->end = get_u64(bytes + COMMIT_SLOT_END);
    slot->record_count = get_u64(bytes + COMMIT_SLOT_RECORD_COUNT);
    slot->time_ns = get_u64(bytes + COMMIT_SLOT_TIME_NS);
    slot->group_crc = get_u32(bytes + COMMIT_SLOT_GROUP_CRC);
    slot->epoch = get_u32(bytes + COMMIT_SLOT_EPOCH);
    slot->nonce = get_u32(bytes + COMMIT_SLOT_NONCE);
    return 1;
}
