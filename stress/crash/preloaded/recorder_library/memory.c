/* Shared memory: a power cut empties it, so the harness must find and remove all that the process made. */
#include "recorder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define NAMES_MAX 64
#define NAME_ROOM (NAME_MAX + 2)

static char memory_names[NAMES_MAX][NAME_ROOM];
static int memory_names_count;

/* Pool buffers of a commit log keep their names, which say which folder they belong to: recovery lists them. */
static bool is_listed(const char *name)
{
    return strncmp(name + (*name == '/'), "binlog-pool-", 12) == 0;
}

static const char *own_name(const char *name, char *room, size_t bytes)
{
    const char *prefix = getenv("BINLOG_RECORDER_MEMORY");
    if (!prefix || is_listed(name))
        return name;
    snprintf(room, bytes, "/%s%s", prefix, name + (*name == '/'));
    return room;
}

EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
    NEXT(shm_open);
    char room[NAME_ROOM];
    name = own_name(name, room, sizeof room);
    int fd = next(name, flags, mode);
    if (fd >= 0 && (flags & O_CREAT) && memory_names_count < NAMES_MAX)
        snprintf(memory_names[memory_names_count++], sizeof memory_names[0], "%s", name);
    struct trace_record *record = fd >= 0 ? record_begin(TRACE_MEMORY, NULL, NULL, 0) : NULL;
    if (record)
        record->inode = inode_of(fd);
    record_end(record, false);
    return fd;
}

EXPORT int shm_unlink(const char *name)
{
    NEXT(shm_unlink);
    char room[NAME_ROOM];
    return next(own_name(name, room, sizeof room));
}

/* Remove the shared memory that this process made; return the number of names. */
EXPORT int binlog_recorder_forget_memory(void)
{
    NEXT(shm_unlink);
    int count = memory_names_count;
    while (memory_names_count > 0)
        next(memory_names[--memory_names_count]); /* it may be gone already */
    return count;
}
