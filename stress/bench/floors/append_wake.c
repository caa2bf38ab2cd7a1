/* Waking another process with a record: the system calls of an append and of reading it, after both have slept. */
#include "append.h"

#include <stdlib.h>

#define RUNG (FLOOR_HEADER_BYTES + 64) /* offset in the first page of the time when an append began, in ns */

static uint64_t *rung(const struct floor_log *log)
{
    return (uint64_t *)(log->page + RUNG);
}

/* Append again and again, each time after the other process has slept for a while; once more at the end. */
int64_t floor_append_ring(const struct floor_work *work)
{
    struct timespec idle = {.tv_nsec = work->idle_ms * 1000000L};
    struct floor_log log;
    char *record = calloc(1, (size_t)work->bytes);
    int last;

    if (floor_log_open(&log, work->path) != 0)
        return floor_failed();
    do {
        nanosleep(&idle, NULL);
        last = floor_stopped(work);
        __atomic_store_n(rung(&log), floor_now(), __ATOMIC_RELAXED);
        if (floor_append(&log, record, work->bytes) != 0)
            return floor_failed();
    } while (!last);
    floor_log_close(&log);
    free(record);
    return 0;
}

/* Wait for each record, read it, and note how long ago its append began. */
int64_t floor_append_wait(const struct floor_work *work)
{
    struct floor_log log;
    char *record = calloc(1, (size_t)work->bytes);
    int64_t count = 0;

    if (floor_log_open(&log, work->path) != 0)
        return floor_failed();
    uint32_t *bell = (uint32_t *)(log.page + FLOOR_BELL), seen = __atomic_load_n(bell, __ATOMIC_ACQUIRE), word;
    do {
        while ((word = __atomic_load_n(bell, __ATOMIC_ACQUIRE)) == seen)
            syscall(SYS_futex, bell, FUTEX_WAIT, seen, NULL, NULL, 0);
        if (pread(log.fd, log.header, sizeof log.header, 0) != sizeof log.header ||
            pread(log.fd, record, (size_t)work->bytes, log.tail) != work->bytes)
            return floor_failed();
        log.tail += work->bytes;
        if (count >= work->waits_count)
            return -EOVERFLOW;
        work->waits[count++] = floor_now() - __atomic_load_n(rung(&log), __ATOMIC_RELAXED);
        seen = word;
    } while (!floor_stopped(work));
    floor_log_close(&log);
    free(record);
    return count;
}
