/* One write and one sync a record, in a file that was allocated and written before. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop.h"

int64_t floor_prepared(const struct floor_work *work)
{
    int64_t first = work->index * work->region_bytes, at = first, count = 0;
    uint64_t before = floor_now();
    char *record = calloc(1, (size_t)work->bytes);
    int fd = open(work->path, O_WRONLY | O_CLOEXEC);

    do {
        if (at + work->bytes > first + work->region_bytes)
            at = first;
        if (pwrite(fd, record, (size_t)work->bytes, at) != work->bytes || fdatasync(fd) != 0)
            return floor_failed();
        if ((before = floor_note(work, count, before)) == 0)
            return -EOVERFLOW;
        at += work->bytes;
        count++;
    } while (!floor_stopped(work));
    close(fd);
    free(record);
    return count;
}
