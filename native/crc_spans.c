/* CRC-32C of any part of some data, from the CRCs of what comes before its two ends: see binlog_crc32c_rest. */
#include "crc_spans.h"

#include "binlog.h"

#include <stdlib.h>

int crc_spans_begin(struct crc_spans *spans, const uint8_t *data, size_t bytes)
{
    size_t steps = bytes / CRC_SPANS_STEP;
    uint32_t crc = 0;

    spans->before = malloc((steps + 1) * sizeof *spans->before);
    if (!spans->before)
        return -1;
    spans->data = data;
    for (size_t i = 0; i < steps; i++) {
        spans->before[i] = crc;
        crc = binlog_crc32c(crc, data + i * CRC_SPANS_STEP, CRC_SPANS_STEP);
    }
    spans->before[steps] = crc;
    return 0;
}

static uint32_t before(const struct crc_spans *spans, size_t offset)
{
    size_t step = offset / CRC_SPANS_STEP;
    return binlog_crc32c(spans->before[step], spans->data + step * CRC_SPANS_STEP, offset % CRC_SPANS_STEP);
}

uint32_t crc_spans_of(const struct crc_spans *spans, uint32_t crc, size_t start, size_t bytes)
{
    /* What goes on from `crc` is the rest of it all; both that lie before are taken away at once, for sums are. */
    return binlog_crc32c_rest(before(spans, start + bytes), before(spans, start) ^ crc, bytes);
}

void crc_spans_end(struct crc_spans *spans)
{
    free(spans->before);
    spans->before = NULL;
}
