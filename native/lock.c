/* The lock that decides: exclusive, over the whole file, of the open file description.
 *
 * fcntl(2): F_OFD locks conflict with the classic locks of other processes,
 * exclude threads that opened the file for themselves, and are not dropped when
 * another descriptor of the file closes.  Length 0 means to the end, for ever:
 * the range that a Java FileChannel.lock() takes.  l_pid must be 0.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int file_lock(int fd, int command, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
    return fcntl(fd, command, &range) == 0 ? 0 : -errno;
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

/* The process id of who holds a conflicting lock, -1 where the kernel knows none (an F_OFD lock), 0 for nobody. */
int64_t binlog_lock_owner(int fd)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
    if (fcntl(fd, F_OFD_GETLK, &range) != 0)
        return -2;
    return range.l_type == F_UNLCK ? 0 : range.l_pid;
}

/* Locks on single bytes, by which the segment's rings have owners. */
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

/* Whether somebody else holds one of the bytes: 1 or 0. */
int binlog_bytes_locked(int fd, int64_t first, int64_t count)
{
    return byte_lock(fd, F_OFD_GETLK, F_WRLCK, first, count);
}
