/* The system calls of an append that is not synced: lock, status, header, data, live block, bell, unlock, wake. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

#define STEP_BYTES (64 << 20)

int64_t floor_calls(const struct floor_work *work)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, unlock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    int64_t count = 0, tail = 256, allocated = 0;
    char header[256] = {0}, *record = calloc(1, (size_t)work->bytes);
    int fd = open(work->path, O_RDWR | O_CLOEXEC);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    struct statx status;

    do {
        if (fcntl(fd, F_OFD_SETLKW, &lock) != 0 || statx(fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_NLINK, &status) != 0)
            return floor_failed();
        if (pread(fd, header, sizeof header, 0) != sizeof header)
            return floor_failed();
        if (tail + work->bytes > allocated) {
            if (fallocate(fd, 0, allocated, STEP_BYTES) != 0)
                return floor_failed();
            allocated += STEP_BYTES;
        }
        if (pwrite(fd, record, (size_t)work->bytes, tail) != work->bytes || pwrite(fd, header + 8, 120, 8) != 120)
            return floor_failed();
        if (pwrite(fd, header + 128, 4, 128) != 4 || fcntl(fd, F_OFD_SETLK, &unlock) != 0)
            return floor_failed();
        syscall(SYS_futex, page + 128, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        tail += work->bytes;
        count++;
    } while (!floor_stopped(work));
    munmap(page, 4096);
    close(fd);
    free(record);
    return count;
}
