/* Files mapped for writing: of a size that does not change, each by one process.
 *
 * mmap(2): a store to a page for which there is no block, or that cannot be read, is SIGBUS.  So the file has blocks, and
 * zeros were written to them, before anything is stored there, and madvise(2) with MADV_POPULATE_WRITE (Linux 5.14) is
 * asked first: it does what a store would do, and returns what would be the signal.
 *
 * fdatasync(2) writes what was stored through a mapping as it writes everything else.
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

/* The whole file; NULL with errno.  A child must not store what its parent, too, stores: so it does not have it. */
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

/* Make ready for stores the pages that hold `bytes` from `offset` on. */
int binlog_map_populate(void *map, size_t offset, size_t bytes)
{
    size_t within = offset % (size_t)sysconf(_SC_PAGESIZE);
    if (madvise((uint8_t *)map + offset - within, bytes + within, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
        return 0; /* EINVAL: an older kernel, on which the blocks and the zeros have to do */
    return -errno;
}

/* Every store to a mapped file is this one, so that who records or delays them has one place to stand in. */
void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes)
{
    memcpy((uint8_t *)map + offset, data, bytes);
}

/* Make zeros of what the file has there, and keep its blocks. */
int binlog_erase(int fd, int64_t start, int64_t bytes)
{
    int result;
    do
        result = fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, start, bytes);
    while (result != 0 && errno == EINTR); /* zeros are made as well a second time */
    return result == 0 ? 0 : -errno;
}
