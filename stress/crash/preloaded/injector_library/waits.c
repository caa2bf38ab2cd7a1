/* Calls that take locks or wait; they show others when a process waits, or is between lock and unlock. */
#include "injector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_lock(int command)
{
    return command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

/* The lock that decides covers the whole file; locks of single bytes are not shown. */
static bool is_whole(const struct flock *range)
{
    return range->l_start == 0 && range->l_len == 0;
}

static int locked(int (*next)(int, int, ...), int fd, int command, struct flock *range)
{
    bool unlocks = range->l_type == F_UNLCK;
    struct injection injection = injection_begin(unlocks ? CALL_UNLOCK : CALL_LOCK, true);
    if (injection.action == INJECT_FAIL && !unlocks) {
        errno = injection.error;
        return -1;
    }
    if (unlocks && is_whole(range))
        show_locked(fd, false);
    if (command == F_OFD_SETLKW)
        show_blocked(true);
    int result = next(fd, command, range);
    if (command == F_OFD_SETLKW)
        show_blocked(false);
    if (result == 0 && !unlocks && is_whole(range))
        show_locked(fd, true);
    injection_end(injection);
    return result;
}

EXPORT int fcntl64(int fd, int command, ...)
{
    static int (*next)(int, int, ...);
    if (!next && !(next = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64")))
        abort();
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *); /* fcntl(2): an int or a pointer, and either fits */
    va_end(arguments);
    if (is_lock(command) && injector_armed() && is_ours(fd))
        return locked(next, fd, command, argument);
    return next(fd, command, argument);
}

EXPORT int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl64(fd, command, argument);
}

/* Futexes are called through syscall(2). */
EXPORT long syscall(long number, ...)
{
    static long (*next)(long, ...);
    if (!next && !(next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall")))
        abort();
    va_list arguments;
    long given[6];
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        given[i] = va_arg(arguments, long);
    va_end(arguments);
    struct injection injection = injection_begin(CALL_FUTEX, number == SYS_futex);
    if (number == SYS_futex)
        show_blocked(true);
    long result = next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
    if (number == SYS_futex)
        show_blocked(false);
    injection_end(injection);
    return result;
}
