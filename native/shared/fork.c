/* The table of descriptors that a forked child closes.
 *
 * An F_OFD lock belongs to the open file description, which a fork shares: the child would keep the parent's lock after the
 * parent's death, and parent and child would not exclude each other (fcntl(2), "Open file description locks").  So the child
 * closes the descriptors in this table at once, and opens the files again on first use.  It only closes: an unlock in the
 * child would free the parent's lock.
 *
 * pthread_atfork(3) runs for fork(3) from any language.  A clone(2) that skips it is detected by a page with MADV_WIPEONFORK
 * (madvise(2)), which reads as zeros in a child; the child then closes the descriptors on its first call here.
 *
 * Invariant: the table, and each list of descriptors.c, is read and changed under the mutex, which the forking thread holds
 * during the fork, so a child never finds it half changed.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry {
    int fd;
    uint64_t device, inode, serial;
} *table;
static uint64_t last_serial;
static size_t table_count, table_capacity;
static volatile uint32_t *not_forked; /* 1 in this process, 0 in a child */
static uint32_t generation;
static uint64_t forking_thread; /* its pthread_t */

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
    forking_thread = (uint64_t)pthread_self();
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

/* Does nothing on a second call, when the module is loaded again: a second set of handlers would lock twice. */
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
        /* A raw clone: this is the only thread, and a thread of the parent may have held the mutex. */
        pthread_mutex_init(&table_mutex, NULL);
        start_generation();
    }
    return generation;
}

/* The pthread_t of the thread that this child was forked in.  A new thread of a child may get that of another thread of its
 * parent, so a comparison with pthread_self is not enough. */
uint64_t binlog_fork_thread(void)
{
    return forking_thread;
}

/* Delays forks until `binlog_fork_release`, so that a child finds no half-finished change. */
void binlog_fork_hold(void)
{
    (void)binlog_fork_generation();
    pthread_mutex_lock(&table_mutex);
}

void binlog_fork_release(void)
{
    pthread_mutex_unlock(&table_mutex);
}

/* Removes a descriptor that the program closed, and whose number the kernel has given to another file. */
static void forget(int fd)
{
    for (size_t i = 0; i < table_count; i++)
        if (table[i].fd == fd)
            table[i--] = table[--table_count];
}

static int make_room(void)
{
    if (table_count < table_capacity)
        return 0;
    size_t capacity = table_capacity ? 2 * table_capacity : 16;
    struct entry *larger = realloc(table, capacity * sizeof *table);
    if (!larger)
        return -ENOMEM;
    table = larger;
    table_capacity = capacity;
    return 0;
}

/* Opens an existing file and registers it, with no fork in between: a child with an unregistered descriptor would keep the
 * parent's lock as long as it lives.
 *
 * opened: if not NULL, gets the descriptor and its serial, because a signal handler may raise before the caller stores the
 * result. */
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

/* The serial number of a registration.  The descriptor's number alone may belong to a later one when it is closed. */
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

/* Closing alone frees a lock only after each child has closed its copy, which it does as soon as it runs.  A child never
 * unlocks a descriptor of its parent, because those are not in its table. */
static void unlock(const struct entry *entry)
{
    if (binlog_fd_is(entry->fd, entry->device, entry->inode)) {
        (void)binlog_unlock(entry->fd);
        (void)flock(entry->fd, LOCK_UN);
    }
}

/* Unlocks and closes the descriptor with this serial; does nothing if the program closed it. */
int binlog_fd_close_serial(int fd, uint64_t serial)
{
    int result = 0;
    (void)binlog_fork_generation(); /* after a raw clone, this empties the table */
    pthread_mutex_lock(&table_mutex);
    for (size_t i = 0; i < table_count; i++) {
        if (table[i].fd == fd && table[i].serial == serial) {
            struct entry entry = table[i];
            table[i] = table[--table_count];
            unlock(&entry);
            result = close_own(&entry);
            break;
        }
    }
    pthread_mutex_unlock(&table_mutex);
    return result;
}
