/* The entries of an index; index_ranges.c. */
#ifndef BINLOG_INDEX_RANGES_H
#define BINLOG_INDEX_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* The facts of an entry. */
struct index_facts {
    uint64_t sequence, offset, time_ns, bytes, records;
    uint32_t crc;
};

/* seed: of the checksums of a log file's entries. */
void index_entry_pack(uint8_t *at, uint32_t seed, const struct index_facts *facts);
int index_entry_holds(const uint8_t *at, uint32_t seed);
uint64_t index_range_length(const uint8_t *data, uint64_t bytes, uint64_t *records);

#endif
