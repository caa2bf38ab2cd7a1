/* The ranges of an index that cover a read; covered.c. */
#ifndef BINLOG_COVERED_H
#define BINLOG_COVERED_H

#include "binlog.h"

#include <stddef.h>
#include <stdint.h>

/* Whole ranges to read, with their entries, which are buffered. */
struct covered {
    const uint8_t *entries;
    int64_t count;
    uint64_t bytes, records;
};

int covered_is_buffered(const struct binlog_reading *reading, uint64_t offset);
int covered_find(struct binlog_reading *reading, uint64_t offset);
void covered_within(const struct binlog_reading *reading, uint64_t size, uint64_t to_tail, uint64_t records_max,
                    uint64_t largest, struct covered *covered);

#endif
