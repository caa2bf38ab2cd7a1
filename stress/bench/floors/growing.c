/* The classic order, on a file that grows: lock, read the tail, write, sync, write the tail, sync, unlock. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop.h"

int64_t floor_growing(const struct floor_work *work)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, unlock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    int64_t count = 0, tail;
    uint64_t before = floor_now();
    char *record = calloc(1, (size_t)work->bytes);
    int fd = open(work->path, O_RDWR | O_CLOEXEC);

    do {
        if (fcntl(fd, F_OFD_SETLKW, &lock) != 0 || pread(fd, &tail, sizeof tail, 8) != sizeof tail)
            return floor_failed();
        if (pwrite(fd, record, (size_t)work->bytes, tail) != work->bytes || fdatasync(fd) != 0)
            return floor_failed();
        tail += work->bytes;
        if (pwrite(fd, &tail, sizeof tail, 8) != sizeof tail || fdatasync(fd) != 0)
            return floor_failed();
        if (fcntl(fd, F_OFD_SETLK, &unlock) != 0)
            return floor_failed();
        if ((before = floor_note(work, count, before)) == 0)
            return -EOVERFLOW;
        count++;
    } while (!floor_stopped(work));
    close(fd);
    free(record);
    return count;
}
