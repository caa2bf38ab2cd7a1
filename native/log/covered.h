/* What an index tells of a log file; covered.c. */
#ifndef BINLOG_COVERED_H
#define BINLOG_COVERED_H

#include "binlog.h"

#include <stddef.h>
#include <stdint.h>

/* What is to be read, from the start of a range: whole ranges with their entries, which are at hand. */
struct covered {
    const uint8_t *entries;
    int64_t count;
    uint64_t bytes, records;
};

int covered_at_hand(const struct binlog_reading *reading, uint64_t offset);
int covered_find(struct binlog_reading *reading, uint64_t offset);
void covered_within(const struct binlog_reading *reading, uint64_t size, uint64_t to_tail, uint64_t records_max,
                    uint64_t largest, struct covered *covered);

#endif
