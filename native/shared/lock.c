/* The lock that decides which process leads: exclusive, over the whole file, of the open file description.
 *
 * fcntl(2): F_OFD locks conflict with the classic locks of other processes, exclude threads that opened the file separately, and
 * are not dropped when another descriptor of the file closes.  Length 0 means to the end, however far: the range that a Java
 * FileChannel.lock() takes. l_pid must be 0.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRIES 8
#define POLL_NS (1000 * 1000)

static int file_lock(int fd, int command, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
    int result = fcntl(fd, command, &range);
    if (result != 0 && errno == EBADF && type == F_WRLCK) {
        /* A file opened for reading takes only a shared lock (fcntl(2)), which keeps writers out as well. */
        range.l_type = F_RDLCK;
        result = fcntl(fd, command, &range);
    }
    return result == 0 ? 0 : -errno;
}

int binlog_lock(int fd)
{
    return file_lock(fd, F_OFD_SETLKW, F_WRLCK); /* -EINTR goes to Python, which runs signal handlers */
}

int binlog_try_lock(int fd)
{
    return file_lock(fd, F_OFD_SETLK, F_WRLCK);
}

int binlog_unlock(int fd)
{
    return file_lock(fd, F_OFD_SETLK, F_UNLCK);
}

/* Whether this thread has a file's lock while Python runs.  A signal handler or __del__ that runs meanwhile must not wait for the
 * same lock, through any writer.  The mark changes with the lock, in one call. */
static _Thread_local int holds;

void binlog_hold(void)
{
    holds++;
}

int binlog_let_go(int fd)
{
    holds--;
    return binlog_unlock(fd);
}

int binlog_is_holding(void)
{
    return holds > 0;
}

static int is_busy(int result)
{
    return result == -EAGAIN || result == -EACCES;
}

/* A thread that queues for a lock until it has it, or is cancelled. */
struct queued {
    int fd;
    int result;
    _Atomic uint32_t done; /* a futex word */
};

static void *queue_for_lock(void *argument)
{
    struct queued *queued = argument;
    /* pthread_cancel(3) sends this thread a signal of the C library, so the wait ends at once. */
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    int result = binlog_lock(queued->fd);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    queued->result = result;
    atomic_store(&queued->done, 1);
    syscall(SYS_futex, &queued->done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

/* 1 after the thread is done; -ETIMEDOUT or -EINTR if the caller must stop waiting. */
static int wait_for_queued(struct queued *queued, int64_t timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = until.tv_sec * INT64_C(1000000000) + until.tv_nsec + timeout_ns;
    until = (struct timespec){.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    while (!atomic_load(&queued->done)) {
        long result = syscall(SYS_futex, &queued->done, FUTEX_WAIT_BITSET_PRIVATE, 0, &until, NULL, FUTEX_BITSET_MATCH_ANY);
        if (result != 0 && errno != EAGAIN)
            return -errno;
    }
    return 1;
}

/* As binlog_lock_within, if the process cannot start a thread: polls, without a place in the queue. */
static int poll_for_lock(int fd, int64_t timeout_ns)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    int result;
    for (; is_busy(result = binlog_try_lock(fd)) && timeout_ns > 0; timeout_ns -= POLL_NS)
        if (nanosleep(&pause, NULL) != 0)
            return -errno;
    return result;
}

/* As binlog_lock, but returns -EAGAIN after this time.  The wait is fair, as the kernel serves a queue in order; polling would
 * find the lock taken each time if others queue for it.  F_OFD_SETLKW has no timeout, and an alarm signal belongs to the program.
 * So a thread queues, on this descriptor, because the lock belongs to the open file and to no thread. */
int binlog_lock_within(int fd, int64_t timeout_ns)
{
    struct queued queued = {.fd = fd};
    pthread_t thread;
    sigset_t all, before;
    int result;

    for (int i = 0; is_busy(result = binlog_try_lock(fd)) && timeout_ns > 0 && i < TRIES; i++)
        sched_yield(); /* an unsynced commit ends sooner than a thread starts */
    if (!is_busy(result) || timeout_ns <= 0)
        return result;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread must not run signal handlers of the program */
    int failed = pthread_create(&thread, NULL, queue_for_lock, &queued);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return poll_for_lock(fd, timeout_ns);
    int waited = wait_for_queued(&queued, timeout_ns);
    if (waited <= 0)
        pthread_cancel(thread);
    pthread_join(thread, NULL);
    if (atomic_load(&queued.done))
        return queued.result;
    /* The thread may have been cancelled just after it got the lock.  The lock is then ours, and taking it again succeeds. */
    result = binlog_try_lock(fd);
    return is_busy(result) && waited == -EINTR ? -EINTR : result;
}

/* Returns the process id of the holder of a conflicting lock, -1 if the kernel does not know it (an F_OFD lock), 0 for none. */
int64_t binlog_lock_owner(int fd)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
    if (fcntl(fd, F_OFD_GETLK, &range) != 0)
        return -2;
    return range.l_type == F_UNLCK ? 0 : range.l_pid;
}

/* Locks on single bytes, through which the staging area's rings have owners. */
static int byte_lock(int fd, int command, short type, int64_t first, int64_t count)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count, .l_pid = 0};
    if (fcntl(fd, command, &range) != 0)
        return -errno;
    return command == F_OFD_GETLK ? range.l_type != F_UNLCK : 0;
}

int binlog_byte_lock(int fd, int64_t byte)
{
    return byte_lock(fd, F_OFD_SETLK, F_WRLCK, byte, 1);
}

int binlog_byte_lock_wait(int fd, int64_t byte)
{
    return byte_lock(fd, F_OFD_SETLKW, F_WRLCK, byte, 1);
}

int binlog_byte_unlock(int fd, int64_t byte)
{
    return byte_lock(fd, F_OFD_SETLK, F_UNLCK, byte, 1);
}

/* Whether another open file holds one of the bytes: 1 or 0. */
int binlog_bytes_locked(int fd, int64_t first, int64_t count)
{
    return byte_lock(fd, F_OFD_GETLK, F_WRLCK, first, count);
}
