/* See journal_counts.h. */
#include "journal_counts.h"

#include "big_endian.h"
#include "id_table.h"

int file_is_later(uint32_t file_id, uint32_t other)
{
    return file_id != other && file_id - other < 1U << 31;
}

uint32_t counts_oldest(const uint8_t *counts, size_t counts_bytes)
{
    uint32_t oldest = counts_bytes ? get_u32(counts) : 0;

    for (size_t at = 0; at < counts_bytes; at += JOURNAL_PLACE_BYTES)
        if (file_is_later(oldest, get_u32(counts + at)))
            oldest = get_u32(counts + at);
    return oldest;
}

int counts_are_odd(uint32_t file_id, const uint8_t *counts, size_t counts_bytes)
{
    struct id_table met = {0};
    int result = 0;

    for (size_t at = 0; at < counts_bytes && result == 0; at += JOURNAL_PLACE_BYTES) {
        uint32_t said = get_u32(counts + at);
        result = (int32_t)get_u32(counts + at + 4) < 1 || file_is_later(said, file_id) ||
                 id_table_get(&met, said) != ID_TABLE_NONE;
        if (result == 0 && counts_bytes > JOURNAL_PLACE_BYTES)
            result = id_table_set(&met, said, 0);
    }
    id_table_free(&met);
    return result;
}
