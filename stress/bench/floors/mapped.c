/* One copy a record into a mapped file that was allocated and written before: the indispensable part of an append. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop.h"

int64_t floor_mapped(const struct floor_work *work)
{
    int64_t at = 0, count = 0;
    char *record = calloc(1, (size_t)work->bytes);
    int fd = open(work->path, O_RDWR | O_CLOEXEC);
    char *map = mmap(NULL, (size_t)work->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     work->index * work->region_bytes);

    if (map == MAP_FAILED)
        return floor_failed();
    do {
        if (at + work->bytes > work->region_bytes)
            at = 0;
        memcpy(map + at, record, (size_t)work->bytes);
        at += work->bytes;
        count++;
    } while (!floor_stopped(work));
    munmap(map, (size_t)work->region_bytes);
    close(fd);
    free(record);
    return count;
}
