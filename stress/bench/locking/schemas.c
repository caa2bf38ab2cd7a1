/* Ways in which many threads append messages to one page file after the other.
 *
 * A message is written with 24 bytes in front of it, by one pwritev, and is in the file when the call returns.  A page
 * is no larger than `limit`; the next one follows it.  All return 0, or an errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEAD_BYTES 24
#define BUFFER_BYTES (1 << 20)

struct pages {
    int directory, fd, number;
    uint64_t at, limit;
    pthread_mutex_t mutex;
    pthread_rwlock_t moving; /* places: whoever writes has it shared, whoever goes to the next page alone */
    pthread_cond_t done;     /* combined */
    uint8_t *filling, *writing;
    uint64_t filled, batch, written;
    int leading, failure;
};

static int next_page(struct pages *self)
{
    char name[32];
    snprintf(name, sizeof name, "%09d.page", ++self->number);
    if (self->fd >= 0)
        close(self->fd);
    self->at = 0;
    self->fd = openat(self->directory, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0640);
    return self->fd < 0 ? errno : 0;
}

static int written(int fd, struct iovec *parts, int count, uint64_t bytes, uint64_t at)
{
    ssize_t done = pwritev(fd, parts, count, (off_t)at);
    return done == (ssize_t)bytes ? 0 : done < 0 ? errno : EIO;
}

static int message(int fd, const void *data, uint64_t bytes, uint64_t at)
{
    uint8_t head[HEAD_BYTES] = {'{'};
    struct iovec parts[] = {{head, HEAD_BYTES}, {(void *)(uintptr_t)data, bytes}};
    memcpy(head + 1, &bytes, sizeof bytes);
    return written(fd, parts, 2, HEAD_BYTES + bytes, at);
}

struct pages *pages_open(int directory, uint64_t limit)
{
    struct pages *self = calloc(1, sizeof *self);
    self->directory = directory;
    self->limit = limit;
    self->fd = -1;
    self->filling = malloc(BUFFER_BYTES);
    self->writing = malloc(BUFFER_BYTES);
    pthread_mutex_init(&self->mutex, NULL);
    pthread_rwlock_init(&self->moving, NULL);
    pthread_cond_init(&self->done, NULL);
    next_page(self);
    return self;
}

void pages_close(struct pages *self)
{
    close(self->fd);
    free(self->filling);
    free(self->writing);
    free(self);
}

/* One after the other: each writes its message under the mutex. */
int one_after_the_other(struct pages *self, const void *data, uint64_t bytes)
{
    int failure = 0;
    pthread_mutex_lock(&self->mutex);
    if (self->at + HEAD_BYTES + bytes > self->limit)
        failure = next_page(self);
    if (!failure)
        failure = message(self->fd, data, bytes, self->at);
    self->at += HEAD_BYTES + bytes;
    pthread_mutex_unlock(&self->mutex);
    return failure;
}

/* Places first: each is given its place under the mutex, and then all write at once. */
int places_first(struct pages *self, const void *data, uint64_t bytes)
{
    int failure = 0, fd;
    uint64_t at;
    pthread_mutex_lock(&self->mutex);
    if (self->at + HEAD_BYTES + bytes > self->limit) {
        pthread_rwlock_wrlock(&self->moving);
        failure = next_page(self);
        pthread_rwlock_unlock(&self->moving);
    }
    at = self->at;
    fd = self->fd;
    self->at += HEAD_BYTES + bytes;
    pthread_rwlock_rdlock(&self->moving); /* before the mutex is free: else the page may be closed meanwhile */
    pthread_mutex_unlock(&self->mutex);
    if (!failure)
        failure = message(fd, data, bytes, at);
    pthread_rwlock_unlock(&self->moving);
    return failure;
}

/* The mutex is held, and let go of while the batch is written. */
static void lead(struct pages *self)
{
    self->leading = 1;
    while (self->filled) {
        uint64_t batch = self->batch++, bytes = self->filled;
        uint8_t *data = self->filling;
        struct iovec part = {data, bytes};
        self->filling = self->writing;
        self->writing = data;
        self->filled = 0;
        if (self->at + bytes > self->limit)
            self->failure = next_page(self);
        pthread_mutex_unlock(&self->mutex);
        int failure = written(self->fd, &part, 1, bytes, self->at);
        pthread_mutex_lock(&self->mutex);
        self->failure = self->failure ? self->failure : failure;
        self->at += bytes;
        self->written = batch + 1;
        pthread_cond_broadcast(&self->done);
    }
    self->leading = 0;
}

/* Combined: messages go to a buffer, and who is first writes for all. */
int combined(struct pages *self, const void *data, uint64_t bytes)
{
    uint64_t batch, whole = HEAD_BYTES + bytes;
    pthread_mutex_lock(&self->mutex);
    while (self->filled + whole > BUFFER_BYTES)
        pthread_cond_wait(&self->done, &self->mutex);
    memset(self->filling + self->filled, '{', HEAD_BYTES);
    memcpy(self->filling + self->filled + HEAD_BYTES, data, bytes);
    self->filled += whole;
    batch = self->batch;
    if (!self->leading)
        lead(self);
    while (self->written <= batch && !self->failure)
        pthread_cond_wait(&self->done, &self->mutex);
    int failure = self->failure;
    pthread_mutex_unlock(&self->mutex);
    return failure;
}
