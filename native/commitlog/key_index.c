/* Puts keys into a file of the key index, which is a mapped file with a header, slots and entries.
 *
 * The header is written last.  An entry is valid only once the header counts it; after a crash a slot may lead to an entry that
 * is not counted, and is then treated as empty.
 */
#include "binlog.h"

#include "big_endian.h"
#include "layout.h"

/* A key, in the order of walk.c. */
struct key {
    int64_t hash, offset, store_ms;
};

static int32_t seconds_between(int64_t begin_ms, int64_t store_ms)
{
    int64_t seconds = begin_ms <= 0 || store_ms < begin_ms ? 0 : (store_ms - begin_ms) / 1000;
    return seconds > INT32_MAX ? INT32_MAX : (int32_t)seconds;
}

/* Put `count` keys of three words each; return how many fitted in the file.
 * entries_max: the capacity of the file, including the unused entry 0. */
int64_t binlog_key_index_put(void *map, uint32_t slots, uint32_t entries_max, const int64_t *keys, int64_t count)
{
    const uint8_t *file = map;
    int64_t begin_ms = (int64_t)get_u64(file + KEY_INDEX_HEADER_BEGIN_MS);
    uint64_t begin_offset = get_u64(file + KEY_INDEX_HEADER_BEGIN_OFFSET);
    uint32_t slot_count = get_u32(file + KEY_INDEX_HEADER_SLOT_COUNT);
    uint32_t entry = get_u32(file + KEY_INDEX_HEADER_ENTRY_COUNT);
    size_t entries_at = KEY_INDEX_HEADER_BYTES + (size_t)slots * KEY_INDEX_SLOT_BYTES;
    int64_t done = 0;

    for (entry = entry == 0 ? 1 : entry; done < count && entry < entries_max; done++, entry++) {
        struct key key = {keys[3 * done], keys[3 * done + 1], keys[3 * done + 2]};
        if (entry == 1) {
            begin_ms = key.store_ms;
            begin_offset = (uint64_t)key.offset;
        }
        size_t slot_at = KEY_INDEX_HEADER_BYTES + (size_t)(key.hash % slots) * KEY_INDEX_SLOT_BYTES;
        uint32_t previous = get_u32(file + slot_at);
        if (previous >= entry) /* an entry that was never counted, because of a crash */
            previous = 0;
        slot_count += previous == 0;
        uint8_t bytes[KEY_INDEX_ENTRY_BYTES], slot[KEY_INDEX_SLOT_BYTES];
        put_u32(bytes + KEY_INDEX_ENTRY_KEY_HASH, (uint32_t)key.hash);
        put_u64(bytes + KEY_INDEX_ENTRY_OFFSET, (uint64_t)key.offset);
        put_u32(bytes + KEY_INDEX_ENTRY_SECONDS, (uint32_t)seconds_between(begin_ms, key.store_ms));
        put_u32(bytes + KEY_INDEX_ENTRY_PREVIOUS, previous);
        binlog_mapped_write(map, entries_at + (size_t)entry * sizeof bytes, bytes, sizeof bytes);
        put_u32(slot, entry);
        binlog_mapped_write(map, slot_at, slot, sizeof slot);
    }
    if (done > 0) {
        uint8_t header[KEY_INDEX_HEADER_BYTES];
        put_u64(header + KEY_INDEX_HEADER_BEGIN_MS, (uint64_t)begin_ms);
        put_u64(header + KEY_INDEX_HEADER_END_MS, (uint64_t)keys[3 * done - 1]);
        put_u64(header + KEY_INDEX_HEADER_BEGIN_OFFSET, begin_offset);
        put_u64(header + KEY_INDEX_HEADER_END_OFFSET, (uint64_t)keys[3 * done - 2]);
        put_u32(header + KEY_INDEX_HEADER_SLOT_COUNT, slot_count);
        put_u32(header + KEY_INDEX_HEADER_ENTRY_COUNT, entry);
        binlog_mapped_write(map, 0, header, sizeof header);
    }
    return done;
}
