/* One copy a record, into a ring of 1 MiB: the indispensable part of staging. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

#define RING_BYTES (1 << 20)

int64_t floor_copies(const struct floor_work *work)
{
    int64_t at = 0, count = 0;
    char *record = calloc(1, (size_t)work->bytes), *ring = calloc(1, RING_BYTES);

    do {
        if (at + work->bytes > RING_BYTES)
            at = 0;
        memcpy(ring + at, record, (size_t)work->bytes);
        /* Without it the compiler may see that the ring is never read. */
        __asm__ volatile("" : : "r"(ring) : "memory");
        at += work->bytes;
        count++;
    } while (!floor_stopped(work));
    free(record);
    free(ring);
    return count;
}
