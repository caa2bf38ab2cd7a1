/* The descriptors that one object has open.
 *
 * A call opens a file and records it here, so an exception of a signal handler cannot come in between and lose it: what is
 * still open is closed with the object.  A descriptor that was closed behind our back may be another file's by now, so
 * device and inode are compared before one is closed.
 *
 * Invariant: a list is read and changed under the mutex of fork.c, so a forked child finds it whole, and goes on with its
 * own copies of the descriptors.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct own {
    int fd;
    uint64_t device, inode;
};

struct binlog_descriptors {
    size_t count, room;
    struct own *all;
};

struct binlog_descriptors *binlog_descriptors_new(void)
{
    return calloc(1, sizeof(struct binlog_descriptors));
}

/* Records a descriptor.  Another one with its number was closed behind our back. */
static int record(struct binlog_descriptors *self, int fd)
{
    struct stat status;
    size_t i = 0;

    if (fstat(fd, &status) != 0)
        return -errno;
    while (i < self->count && self->all[i].fd != fd)
        i++;
    if (i == self->room) {
        size_t room = self->room ? 2 * self->room : 8;
        struct own *larger = realloc(self->all, room * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        self->all = larger;
        self->room = room;
    }
    if (i == self->count)
        self->count++;
    self->all[i] = (struct own){fd, status.st_dev, status.st_ino};
    return 0;
}

/* openat(2): a descriptor, or -errno. */
int binlog_descriptors_open(struct binlog_descriptors *self, int directory, const char *name, int flags, int mode)
{
    int fd = openat(directory, name, flags, mode);

    if (fd < 0)
        return -errno;
    binlog_fork_hold();
    int result = self ? record(self, fd) : -ENOMEM;
    binlog_fork_release();
    if (result == 0)
        return fd;
    close(fd);
    return result;
}

/* Closes one of them; nothing if it is none of them any more, or is not the file with this device and inode.
 *
 * inode: 0 for any. */
int binlog_descriptors_close(struct binlog_descriptors *self, int fd, uint64_t device, uint64_t inode)
{
    int result = 0;

    binlog_fork_hold();
    for (size_t i = 0; self && i < self->count; i++) {
        struct own own = self->all[i];
        if (own.fd == fd && (!inode || (own.device == device && own.inode == inode))) {
            self->all[i] = self->all[--self->count];
            result = binlog_fd_close_own(fd, own.device, own.inode);
            break;
        }
    }
    binlog_fork_release();
    return result;
}

/* Closes all of them. */
void binlog_descriptors_clear(struct binlog_descriptors *self)
{
    binlog_fork_hold();
    while (self && self->count) {
        const struct own *last = &self->all[--self->count];
        (void)binlog_fd_close_own(last->fd, last->device, last->inode);
    }
    binlog_fork_release();
}

void binlog_descriptors_free(struct binlog_descriptors *self)
{
    if (!self)
        return;
    binlog_descriptors_clear(self);
    free(self->all);
    free(self);
}
