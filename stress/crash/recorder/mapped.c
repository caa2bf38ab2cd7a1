/* Files that are mapped for writing, and stores to them.
 *
 * Whoever stores to a mapped file does it by binlog_mapped_write (native/commitlog/mapping.c), a call of which goes through the
 * dynamic linker, and so comes here first.  A store is a change of the file as a write is, but one that the kernel may
 * begin to put on the disk in the middle of it.
 */
#include "recorder.h"

#include <string.h>
#include <sys/mman.h>

#define MAPS_MAX 4096

/* A mapping: where it lies, and which bytes of which file it shows. */
struct map {
    const char *start;
    size_t bytes;
    uint64_t inode;
    int64_t offset;
};

static struct map maps[MAPS_MAX];
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;

void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes);

static void remember(const char *start, size_t bytes, int fd, int64_t offset)
{
    uint64_t inode = inode_of(fd);
    int i = 0;
    pthread_mutex_lock(&maps_lock);
    for (int j = 0; j < MAPS_MAX; j++) /* one that the parent has, and a forked child has not */
        if (maps[j].start && start < maps[j].start + maps[j].bytes && maps[j].start < start + bytes)
            maps[j].start = NULL;
    while (i < MAPS_MAX && maps[i].start)
        i++;
    if (i == MAPS_MAX)
        refuse("so many mapped files");
    maps[i] = (struct map){start, bytes, inode, offset};
    pthread_mutex_unlock(&maps_lock);
}

static void forget(const char *start)
{
    pthread_mutex_lock(&maps_lock);
    for (int i = 0; i < MAPS_MAX; i++)
        if (maps[i].start == start)
            maps[i].start = NULL;
    pthread_mutex_unlock(&maps_lock);
}

/* The mapping that holds all of these bytes. */
static struct map find(const char *at, size_t bytes)
{
    struct map found = {0};
    pthread_mutex_lock(&maps_lock);
    for (int i = 0; i < MAPS_MAX && !found.start; i++)
        if (maps[i].start && at >= maps[i].start && at + bytes <= maps[i].start + maps[i].bytes)
            found = maps[i];
    pthread_mutex_unlock(&maps_lock);
    if (!found.start)
        refuse("a store to a file that was mapped before anything was recorded");
    return found;
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap);
    void *result = next(address, bytes, protection, flags, fd, offset);
    if (recording() && result != MAP_FAILED && fd >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED))
        remember(result, bytes, fd, offset);
    return result;
}

EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
    return mmap(address, bytes, protection, flags, fd, offset);
}

EXPORT int munmap(void *address, size_t bytes)
{
    NEXT(munmap);
    if (address)
        forget(address); /* before somebody else is given the address */
    return next(address, bytes);
}

EXPORT void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes)
{
    NEXT(binlog_mapped_write);
    struct trace_record *record = NULL;
    if (recording()) {
        const char *at = (const char *)map + offset;
        struct map found = find(at, bytes);
        record = record_begin(TRACE_STORE, NULL, NULL, bytes);
        if (record) {
            record->inode = found.inode;
            record->offset = found.offset + (at - found.start);
            record->written_bytes = (uint32_t)bytes;
            memcpy(record_data(record), data, bytes);
        }
    }
    next(map, offset, data, bytes);
    record_end(record, false);
}
