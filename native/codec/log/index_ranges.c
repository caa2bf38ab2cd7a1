/* Builds the entries of an index from records, and verifies records with them.  The bytes may be hostile. */
#include "index_ranges.h"

#include "big_endian.h"
#include "codec.h"
#include "layout.h"

void index_entry_pack(uint8_t *at, uint32_t seed, const struct index_facts *facts)
{
    put_u64(at + INDEX_ENTRY_SEQUENCE, facts->sequence);
    put_u64(at + INDEX_ENTRY_OFFSET, facts->offset);
    put_u64(at + INDEX_ENTRY_TIME_NS, facts->time_ns);
    put_u32(at + INDEX_ENTRY_RANGE_BYTES, (uint32_t)facts->bytes);
    put_u32(at + INDEX_ENTRY_RANGE_CRC, facts->crc);
    put_u32(at + INDEX_ENTRY_RECORD_COUNT, (uint32_t)facts->records);
    put_u32(at + INDEX_ENTRY_ENTRY_CRC, binlog_crc32c(seed, at, INDEX_ENTRY_ENTRY_CRC));
}

int index_entry_holds(const uint8_t *at, uint32_t seed)
{
    return get_u32(at + INDEX_ENTRY_ENTRY_CRC) == binlog_crc32c(seed, at, INDEX_ENTRY_ENTRY_CRC);
}

/* Returns the bytes of the records at the start of `data` that form one range; 0 if `data` ends before that is known. */
uint64_t index_range_length(const uint8_t *data, uint64_t bytes, uint64_t *records)
{
    uint64_t at = 0;
    *records = 0;
    while (at < bytes) {
        uint64_t next = at + RECORD_BYTES;
        if (next <= bytes)
            next += get_u32(data + at);
        if (*records > 0 && next > BINLOG_INDEX_RANGE_BYTES)
            break;
        if (next > bytes)
            return 0;
        at = next;
        ++*records;
    }
    return at;
}

/* Builds entries for the whole ranges of `data`, from `state` on and with its time; `state` moves along.
 *
 * to_end: no record follows the data, so the last range is whole whatever its size.  Returns how many. */
int64_t binlog_index_build(const uint8_t *data, size_t bytes, int to_end, struct binlog_index_state *state,
                           uint8_t *entries, int64_t count_max)
{
    uint64_t at = 0, records;
    int64_t count = 0;

    for (; at < bytes && count < count_max; count++, entries += INDEX_ENTRY_BYTES) {
        uint64_t length = index_range_length(data + at, bytes - at, &records);
        if (length == 0 || length > UINT32_MAX || (at + length == bytes && !to_end && length < BINLOG_INDEX_RANGE_BYTES))
            break;
        uint32_t crc = binlog_crc32c(0, data + at, length);
        const struct index_facts facts = {state->sequence, state->end, state->time_ns, length, records, crc};
        index_entry_pack(entries, state->seed, &facts);
        state->crc = binlog_crc32c_rest(crc, state->crc, length);
        state->sequence += records;
        state->end += length;
        at += length;
    }
    return count;
}

/* Returns how many whole records fill `data`; 0 if they do not fill it. */
static uint64_t whole_records(const uint8_t *data, uint64_t bytes)
{
    uint64_t reached = 0, records = 0, next;
    while (reached < bytes && bytes - reached >= RECORD_BYTES &&
           (next = reached + RECORD_BYTES + get_u32(data + reached)) <= bytes) {
        reached = next;
        records++;
    }
    return reached == bytes ? records : 0;
}

/* Returns how many entries, from the first of `entries` on, are consecutive from `state` on, fit in `bytes`, and match the
 * data; `state` moves along.  data: of the log file, from `state->end` on; NULL to check only the entries. */
int64_t binlog_index_verify(const uint8_t *entries, int64_t count, const uint8_t *data, size_t bytes,
                            struct binlog_index_state *state)
{
    uint64_t at = 0;
    int64_t done = 0;

    for (state->stop = BINLOG_INDEX_END; done < count; done++, entries += INDEX_ENTRY_BYTES) {
        uint64_t length = get_u32(entries + INDEX_ENTRY_RANGE_BYTES), records = get_u32(entries + INDEX_ENTRY_RECORD_COUNT);
        uint64_t time_ns = get_u64(entries + INDEX_ENTRY_TIME_NS);
        state->stop = BINLOG_INDEX_ENTRY;
        if (!state->by_bytes && !index_entry_holds(entries, state->seed))
            break;
        state->stop = BINLOG_INDEX_CHAIN;
        if (get_u64(entries + INDEX_ENTRY_OFFSET) != state->end || records == 0 || records > length / RECORD_BYTES ||
            (time_ns < state->time_ns && !state->by_bytes) ||
            (state->counted ? get_u64(entries + INDEX_ENTRY_SEQUENCE) != state->sequence
                            : get_u64(entries + INDEX_ENTRY_SEQUENCE) < state->sequence))
            break;
        state->stop = BINLOG_INDEX_SHORT;
        if (length > bytes - at)
            break;
        state->stop = BINLOG_INDEX_CRC;
        if (data && binlog_crc32c(0, data + at, length) != get_u32(entries + INDEX_ENTRY_RANGE_CRC))
            break;
        state->stop = BINLOG_INDEX_RECORDS;
        if (data && whole_records(data + at, length) != records)
            break;
        state->stop = BINLOG_INDEX_END;
        state->end += length;
        state->sequence = get_u64(entries + INDEX_ENTRY_SEQUENCE) + records;
        state->counted = 1;
        state->time_ns = time_ns;
        at += length;
    }
    if (state->stop != BINLOG_INDEX_END && state->stop != BINLOG_INDEX_SHORT && !index_entry_holds(entries, state->seed))
        state->stop = BINLOG_INDEX_ENTRY;
    return done;
}
