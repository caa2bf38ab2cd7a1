/* What a forked child must not inherit.
 *
 * A file lock of the F_OFD kind belongs to the open file description, which a
 * fork shares: the child would keep its parent's lock alive after the parent
 * died, and parent and child would not exclude each other (fcntl(2), "Open
 * file description locks").  So the child closes the descriptors in this table
 * at once, and opens anew on first use.  It only closes: an unlock in the
 * child would free the parent's lock.
 *
 * pthread_atfork(3) runs for fork(3) from any language.  A clone(2) that skips
 * it is told by a page with MADV_WIPEONFORK (madvise(2)), which reads as zeros
 * in a child; the child then closes on its first call here.
 *
 * Invariant: the table, and each list of descriptors.c, is read and changed under the mutex, which the forking
 * thread holds across the fork, so a child never sees it half-changed.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry {
    int fd;
    uint64_t device, inode, serial;
} *table;
static uint64_t last_serial;
static size_t table_count, table_room;
static volatile uint32_t *not_forked; /* 1 here, 0 in a child */
static uint32_t generation;

static int close_own(const struct entry *entry)
{
    return binlog_fd_close_own(entry->fd, entry->device, entry->inode);
}

static void start_generation(void)
{
    for (size_t i = 0; i < table_count; i++)
        close_own(&table[i]);
    table_count = 0;
    generation++;
    *not_forked = 1;
}

static void before_fork(void)
{
    pthread_mutex_lock(&table_mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&table_mutex);
}

static void in_child(void)
{
    start_generation();
    pthread_mutex_unlock(&table_mutex);
}

/* A second call, as when the module is loaded again, changes nothing: handlers that ran twice would lock twice. */
int binlog_fork_setup(void)
{
    if (not_forked)
        return 0;
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) != 0)
        return -errno;
    not_forked = page;
    *not_forked = 1;
    return -pthread_atfork(before_fork, in_parent, in_child);
}

uint32_t binlog_fork_generation(void)
{
    if (!*not_forked) {
        /* A raw clone: one thread, and the mutex perhaps held by one that is not here. */
        pthread_mutex_init(&table_mutex, NULL);
        start_generation();
    }
    return generation;
}

/* Keeps forks off, so that a child finds whole what is changed until `binlog_fork_release`. */
void binlog_fork_hold(void)
{
    (void)binlog_fork_generation();
    pthread_mutex_lock(&table_mutex);
}

void binlog_fork_release(void)
{
    pthread_mutex_unlock(&table_mutex);
}

/* Forgets a descriptor that was closed behind our back, and whose number was given to another file. */
static void forget(int fd)
{
    for (size_t i = 0; i < table_count; i++)
        if (table[i].fd == fd)
            table[i--] = table[--table_count];
}

static int make_room(void)
{
    if (table_count < table_room)
        return 0;
    size_t room = table_room ? 2 * table_room : 16;
    struct entry *larger = realloc(table, room * sizeof *table);
    if (!larger)
        return -ENOMEM;
    table = larger;
    table_room = room;
    return 0;
}

/* Opens a file that is there, and registers it, with no fork in between: a child that got the descriptor unregistered
 * would keep its parent's lock for as long as it lives.
 *
 * opened: if not NULL, gets the descriptor and its serial, for an exception of a signal handler may come before the caller has
 * what this returns. */
int binlog_fd_open(int directory, const char *name, int flags, int64_t *opened)
{
    pthread_mutex_lock(&table_mutex);
    int result = make_room();
    if (result == 0) {
        struct stat status;
        result = openat(directory, name, flags);
        if (result < 0)
            result = -errno;
        else if (fstat(result, &status) == 0) {
            forget(result);
            table[table_count++] = (struct entry){result, status.st_dev, status.st_ino, ++last_serial};
            if (opened) {
                opened[0] = result;
                opened[1] = (int64_t)last_serial;
            }
        } else {
            int failed = -errno;
            close(result);
            result = failed;
        }
    }
    pthread_mutex_unlock(&table_mutex);
    return result;
}

/* Which of all that were registered a descriptor is: its number alone may be another one's by the time it is closed. */
uint64_t binlog_fd_serial(int fd)
{
    uint64_t serial = 0;
    pthread_mutex_lock(&table_mutex);
    for (size_t i = 0; i < table_count; i++)
        if (table[i].fd == fd)
            serial = table[i].serial;
    pthread_mutex_unlock(&table_mutex);
    return serial;
}

/* Closes the descriptor with this serial; nothing if it was closed behind our back. */
int binlog_fd_close_serial(int fd, uint64_t serial)
{
    return binlog_fd_serial(fd) == serial ? binlog_fd_close(fd) : 0;
}

int binlog_fd_close(int fd)
{
    int result = -EBADF;
    pthread_mutex_lock(&table_mutex);
    for (size_t i = 0; i < table_count; i++) {
        if (table[i].fd == fd) {
            struct entry entry = table[i];
            table[i] = table[--table_count];
            result = close_own(&entry);
            break;
        }
    }
    pthread_mutex_unlock(&table_mutex);
    return result;
}
