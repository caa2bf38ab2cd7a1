/* The loop of a floor: when to stop, and how long each iteration took. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "floor.h"

static inline int floor_stopped(const struct floor_work *work)
{
    return __atomic_load_n(work->stop, __ATOMIC_RELAXED) != 0;
}

static inline uint64_t floor_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Return the result of a failed call; a short write sets no errno. */
static inline int64_t floor_failed(void)
{
    return errno > 0 ? -errno : -ENOSPC;
}

/* Note how long iteration `count` took, which began at `before`; return the beginning of the next, 0 if there is no
 * room. */
static inline uint64_t floor_note(const struct floor_work *work, int64_t count, uint64_t before)
{
    uint64_t now;
    if (work->waits == NULL)
        return before;
    if (count >= work->waits_count)
        return 0;
    now = floor_now();
    work->waits[count] = now - before;
    return now;
}

#endif
