/*
 * An append that is not synced, as system calls: lock, status, header, data, live block with the doorbell, unlock,
 * wake.
 */
#ifndef BENCH_APPEND_H
#define BENCH_APPEND_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

#define FLOOR_HEADER_BYTES 256
#define FLOOR_BELL 128
#define FLOOR_STEP_BYTES (64 << 20)

/* A file with a header, its mapped first page, and its end. */
struct floor_log {
    int fd;
    char *page, header[FLOOR_HEADER_BYTES];
    int64_t tail, allocated;
    uint32_t rings;
};

static inline int floor_log_open(struct floor_log *log, const char *path)
{
    *log = (struct floor_log){.fd = open(path, O_RDWR | O_CLOEXEC), .tail = 4096};
    log->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, log->fd, 0);
    return log->page == MAP_FAILED ? -1 : 0;
}

static inline void floor_log_close(struct floor_log *log)
{
    munmap(log->page, 4096);
    close(log->fd);
}

static inline int floor_append(struct floor_log *log, const char *record, int32_t bytes)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, unlock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    struct statx status;

    if (fcntl(log->fd, F_OFD_SETLKW, &lock) != 0 ||
        statx(log->fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_NLINK, &status) != 0 ||
        pread(log->fd, log->header, sizeof log->header, 0) != sizeof log->header)
        return -1;
    if (log->tail + bytes > log->allocated) {
        if (fallocate(log->fd, 0, log->allocated, FLOOR_STEP_BYTES) != 0)
            return -1;
        log->allocated += FLOOR_STEP_BYTES;
    }
    log->rings++;
    memcpy(log->header + FLOOR_BELL, &log->rings, sizeof log->rings);
    if (pwrite(log->fd, record, (size_t)bytes, log->tail) != bytes || pwrite(log->fd, log->header + 8, 124, 8) != 124 ||
        fcntl(log->fd, F_OFD_SETLK, &unlock) != 0)
        return -1;
    syscall(SYS_futex, log->page + FLOOR_BELL, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    log->tail += bytes;
    return 0;
}

#endif
