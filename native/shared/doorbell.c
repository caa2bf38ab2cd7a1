/* The doorbell: a futex in the first page of a file, on which processes wait.
 *
 * futex(2): the kernel identifies a shared futex by file and offset, so it is enough that waiters and wakers map the same
 * page of the same file, read-only.  Writers change the word with pwrite(2), which the page cache makes visible to every
 * mapping.  The mapping is never read here: if the file is truncated to nothing, a read would kill the process with SIGBUS,
 * while the kernel returns EFAULT.  Wake-ups may be spurious, so callers check again.
 */
#include "binlog.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_ANY_MAX 128 /* FUTEX_WAITV_MAX */

/* The layout of struct futex_waitv, which older kernel headers lack (Linux 5.16). */
struct wait_word {
    uint64_t seen;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};
#define WAIT_WORD_32 2 /* FUTEX_32 */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* the same on every architecture */
#endif

/* Maps the word at `offset`, which is in the file's first page; returns its address, or NULL with errno. */
void *binlog_bell_map(int fd, int64_t offset)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *page = mmap(NULL, page_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    /* A child could wait on an inherited mapping, but it might unmap it twice. */
    if (madvise(page, page_bytes, MADV_DONTFORK) != 0) {
        int reason = errno;
        munmap(page, page_bytes);
        errno = reason;
        return NULL;
    }
    return page + offset;
}

int binlog_bell_unmap(void *bell, int64_t offset)
{
    return munmap((uint8_t *)bell - offset, (size_t)sysconf(_SC_PAGESIZE)) == 0 ? 0 : -errno;
}

static struct timespec relative(int64_t timeout_ns)
{
    return (struct timespec){.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
}

/* Waits while the word is `seen`, in the byte order of memory.  0 if woken; -EAGAIN if the word differs; -ETIMEDOUT. */
int binlog_bell_wait(void *bell, uint32_t seen, int64_t timeout_ns)
{
    struct timespec timeout = relative(timeout_ns);
    long result = syscall(SYS_futex, bell, FUTEX_WAIT, seen, &timeout, NULL, 0);
    return result == 0 ? 0 : -errno;
}

/* Waits for any of up to 128 words; returns the index of one that was woken, or as above. */
int binlog_bell_wait_any(void **bells, const uint32_t *seen, uint32_t count, int64_t timeout_ns)
{
    struct wait_word words[WAIT_ANY_MAX];
    struct timespec deadline, timeout = relative(timeout_ns);
    if (count > WAIT_ANY_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++)
        words[i] = (struct wait_word){.seen = seen[i], .address = (uintptr_t)bells[i], .flags = WAIT_WORD_32};
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout.tv_sec;
    deadline.tv_nsec += timeout.tv_nsec;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    long result = syscall(SYS_futex_waitv, words, count, 0, &deadline, CLOCK_MONOTONIC);
    return result >= 0 ? (int)result : -errno;
}

int binlog_bell_wake(void *bell)
{
    long woken = syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return woken >= 0 ? (int)woken : -errno;
}
