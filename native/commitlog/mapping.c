/* Mapped files: of a fixed size, and written by one process.
 *
 * mmap(2): a store to a page that has no block, or cannot be read, raises SIGBUS.  So the file gets blocks and zeros before any
 * store, and madvise(2) with MADV_POPULATE_WRITE (Linux 5.14) touches the pages first: it returns an error in place of the
 * signal.
 *
 * fdatasync(2) also writes bytes that were stored through a mapping.
 */
#include "binlog.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Map the whole file; NULL with errno.  A forked child does not inherit the mapping, so it cannot store into its parent's. */
void *binlog_map(int fd, size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (madvise(map, bytes, MADV_DONTFORK) != 0) {
        int reason = errno;
        munmap(map, bytes);
        errno = reason;
        return NULL;
    }
    return map;
}

int binlog_unmap(void *map, size_t bytes)
{
    return munmap(map, bytes) == 0 ? 0 : -errno;
}

/* Prepare the pages with `bytes` from `offset` on for stores. */
int binlog_map_populate(void *map, size_t offset, size_t bytes)
{
    size_t within = offset % (size_t)sysconf(_SC_PAGESIZE);
    if (madvise((uint8_t *)map + offset - within, bytes + within, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
        return 0; /* EINVAL: an older kernel, which must do with the blocks and the zeros */
    return -errno;
}

/* Every store to a mapped file goes through this function, so that a crash recorder has one place to intercept. */
void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes)
{
    memcpy((uint8_t *)map + offset, data, bytes);
}

/* Fill a range of the file with zeros, and keep its blocks. */
int binlog_erase(int fd, int64_t start, int64_t bytes)
{
    int result;
    do
        result = fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, start, bytes);
    while (result != 0 && errno == EINTR); /* zeroing twice does no harm */
    return result == 0 ? 0 : -errno;
}
