/* The list of descriptors that one object has open.
 *
 * One call opens a file and records its descriptor, so that a signal handler cannot raise in between and leak it: the
 * descriptors that are still open are closed with the object.  If the program closes a descriptor, its number may name
 * another file, so device and inode are compared before closing.
 *
 * Invariant: a list is read and changed under the mutex of fork.c, so a forked child finds it consistent.  The child uses its
 * own copies of the descriptors.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct descriptor {
    int fd;
    uint64_t device, inode;
};

struct binlog_descriptors {
    size_t count, capacity;
    struct descriptor *all;
};

struct binlog_descriptors *binlog_descriptors_new(void)
{
    return calloc(1, sizeof(struct binlog_descriptors));
}

/* Records a descriptor.  If an old one has its number, the program closed that one. */
static int record(struct binlog_descriptors *self, int fd)
{
    struct stat status;
    size_t i = 0;

    if (fstat(fd, &status) != 0)
        return -errno;
    while (i < self->count && self->all[i].fd != fd)
        i++;
    if (i == self->capacity) {
        size_t capacity = self->capacity ? 2 * self->capacity : 8;
        struct descriptor *larger = realloc(self->all, capacity * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        self->all = larger;
        self->capacity = capacity;
    }
    if (i == self->count)
        self->count++;
    self->all[i] = (struct descriptor){fd, status.st_dev, status.st_ino};
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

/* Closes a descriptor of the list; does nothing if it is not in the list, or not of the file with this device and inode.
 *
 * inode: 0 for any file. */
int binlog_descriptors_close(struct binlog_descriptors *self, int fd, uint64_t device, uint64_t inode)
{
    int result = 0;

    binlog_fork_hold();
    for (size_t i = 0; self && i < self->count; i++) {
        struct descriptor found = self->all[i];
        if (found.fd == fd && (!inode || (found.device == device && found.inode == inode))) {
            self->all[i] = self->all[--self->count];
            result = binlog_fd_close_own(fd, found.device, found.inode);
            break;
        }
    }
    binlog_fork_release();
    return result;
}

/* Closes all descriptors of the list. */
void binlog_descriptors_clear(struct binlog_descriptors *self)
{
    binlog_fork_hold();
    while (self && self->count) {
        const struct descriptor *last = &self->all[--self->count];
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
