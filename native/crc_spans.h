/* CRC-32C of any part of some data, in about the same time whatever its length. */
#ifndef BINLOG_CRC_SPANS_H
#define BINLOG_CRC_SPANS_H

#include <stddef.h>
#include <stdint.h>

/* CRCs of what comes before each CRC_SPANS_STEP-th byte of the data, up to which each costs going through it once. */
#define CRC_SPANS_STEP ((size_t)256)

struct crc_spans {
    const uint8_t *data;
    uint32_t *before;
};

/* -1 where there is no memory; goes through all of the data. */
int crc_spans_begin(struct crc_spans *spans, const uint8_t *data, size_t bytes);

/* The CRC, going on from `crc`, of the bytes from `start` on; goes through two steps of the data at most. */
uint32_t crc_spans_of(const struct crc_spans *spans, uint32_t crc, size_t start, size_t bytes);

/* Also where nothing was begun, and all is zero. */
void crc_spans_end(struct crc_spans *spans);

#endif
