/* The descriptors that one object has open.
 *
 * A call opens a file and records it here, so an exception of a signal handler cannot come in between and lose it: what is
 * still open is closed with the object.  A descriptor that was closed behind our back may be another file's by now, so
 * device and inode are compared before one is closed.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct own {
    int fd;
    uint64_t device, inode;
};

struct binlog_descriptors {
    pthread_mutex_t mutex; /* for what follows */
    uint32_t generation;
    size_t count, room;
    struct own *all;
};

struct binlog_descriptors *binlog_descriptors_new(void)
{
    struct binlog_descriptors *self = calloc(1, sizeof *self);

    if (self) {
        pthread_mutex_init(&self->mutex, NULL);
        self->generation = binlog_fork_generation();
    }
    return self;
}

/* In a forked child the mutex may be held for ever; what the child has of its parent's stays open there. */
static int is_own(const struct binlog_descriptors *self)
{
    return self && self->generation == binlog_fork_generation();
}

static int make_room(struct binlog_descriptors *self)
{
    if (self->count < self->room)
        return 0;
    size_t room = self->room ? 2 * self->room : 8;
    struct own *larger = realloc(self->all, room * sizeof *larger);
    if (!larger)
        return -ENOMEM;
    self->all = larger;
    self->room = room;
    return 0;
}

/* openat(2): a descriptor, or -errno. */
int binlog_descriptors_open(struct binlog_descriptors *self, int directory, const char *name, int flags, int mode)
{
    struct stat status;
    int fd;

    if (!is_own(self))
        return -EBADF;
    pthread_mutex_lock(&self->mutex);
    fd = make_room(self);
    if (fd == 0 && (fd = openat(directory, name, flags, mode)) < 0)
        fd = -errno;
    if (fd >= 0 && fstat(fd, &status) != 0) {
        int reason = -errno;
        close(fd);
        fd = reason;
    }
    if (fd >= 0)
        self->all[self->count++] = (struct own){fd, status.st_dev, status.st_ino};
    pthread_mutex_unlock(&self->mutex);
    return fd;
}

/* Closes one of them; nothing if it is none of them any more. */
int binlog_descriptors_close(struct binlog_descriptors *self, int fd)
{
    int result = 0;

    if (!is_own(self))
        return 0;
    pthread_mutex_lock(&self->mutex);
    for (size_t i = 0; i < self->count; i++) {
        if (self->all[i].fd == fd) {
            result = binlog_fd_close_own(fd, self->all[i].device, self->all[i].inode);
            self->all[i] = self->all[--self->count];
            break;
        }
    }
    pthread_mutex_unlock(&self->mutex);
    return result;
}

/* Closes all of them. */
void binlog_descriptors_clear(struct binlog_descriptors *self)
{
    if (!is_own(self))
        return;
    pthread_mutex_lock(&self->mutex);
    while (self->count) {
        const struct own *last = &self->all[--self->count];
        (void)binlog_fd_close_own(last->fd, last->device, last->inode);
    }
    pthread_mutex_unlock(&self->mutex);
}

void binlog_descriptors_free(struct binlog_descriptors *self)
{
    if (!self)
        return;
    binlog_descriptors_clear(self);
    free(self->all);
    free(self);
}
