/*
 * The least that waking another process takes: one word that both map, FUTEX_WAIT and FUTEX_WAKE.
 *
 * futex(2): spurious wake-ups happen, so the word is checked again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"

/* The beginning of the file, in both processes' memory. */
struct shared {
    uint32_t word;
    uint64_t rung; /* time of the ring, in ns */
};

static struct shared *map(const struct floor_work *work)
{
    int fd = open(work->path, O_RDWR | O_CLOEXEC);
    return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

/* Ring again and again, each time after the other process has slept for a while; once more at the end. */
int64_t floor_ring(const struct floor_work *work)
{
    struct timespec idle = {.tv_nsec = work->idle_ms * 1000000L};
    struct shared *shared = map(work);
    int last;

    if (shared == MAP_FAILED)
        return floor_failed();
    do {
        nanosleep(&idle, NULL);
        last = floor_stopped(work);
        __atomic_store_n(&shared->rung, floor_now(), __ATOMIC_RELAXED);
        __atomic_add_fetch(&shared->word, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &shared->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    } while (!last);
    return 0;
}

/* Wait for each ring, and note how long ago it was. */
int64_t floor_wait(const struct floor_work *work)
{
    struct shared *shared = map(work);
    uint32_t seen = 0, word;
    int64_t count = 0;

    if (shared == MAP_FAILED)
        return floor_failed();
    do {
        while ((word = __atomic_load_n(&shared->word, __ATOMIC_ACQUIRE)) == seen)
            syscall(SYS_futex, &shared->word, FUTEX_WAIT, seen, NULL, NULL, 0);
        if (count >= work->waits_count)
            return -EOVERFLOW;
        work->waits[count++] = floor_now() - __atomic_load_n(&shared->rung, __ATOMIC_RELAXED);
        seen = word;
    } while (!floor_stopped(work));
    return count;
}
