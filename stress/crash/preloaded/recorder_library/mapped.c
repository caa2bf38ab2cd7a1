/*
 * Files that are mapped for writing, and stores to them.
 *
 * All stores to mapped files go through binlog_mapped_write (native/commitlog/mapping.c), which is called through the dynamic
 * linker and therefore reaches this library first.  A store changes the file as a write does, but the kernel may put
 * part of it on the disk before it is complete.
 */
#include "recorder.h"

#include <string.h>
#include <sys/mman.h>

#define MAPS_MAX 4096

/* A mapping: its address, and the bytes of the file that it shows. */
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
    for (int j = 0; j < MAPS_MAX; j++) /* a mapping that the parent has, and a forked child does not */
        if (maps[j].start && start < maps[j].start + maps[j].bytes && maps[j].start < start + bytes)
            maps[j].start = NULL;
    while (i < MAPS_MAX && maps[i].start)
        i++;
    if (i == MAPS_MAX)
        refuse("more than 4096 mapped files");
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

/* Return the mapping that has all of these bytes. */
static struct map find(const char *at, size_t bytes)
{
    struct map found = {0};
    pthread_mutex_lock(&maps_lock);
    for (int i = 0; i < MAPS_MAX && !found.start; i++)
        if (maps[i].start && at >= maps[i].start && at + bytes <= maps[i].start + maps[i].bytes)
            found = maps[i];
    pthread_mutex_unlock(&maps_lock);
    if (!found.start)
        refuse("a store to a file that was mapped before the recording");
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
        forget(address); /* before another mapping gets the address */
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
