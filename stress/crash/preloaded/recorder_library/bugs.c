/*
 * Seeded bugs that need no change of the product: calls dropped, or made in another order.
 *
 * stress/crash/seeded_bugs/ lists them with their effects.
 */
#include "recorder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 256
#define TAIL_OFFSET 8

enum bug {
    NONE,
    NO_DATA_SYNC,
    NO_DIRECTORY_SYNC,
    NO_PARENT_SYNC,
    NO_SYNC_OF_NEW_FILES,
    SYNC_BEFORE_WRITE,
    TAIL_BEFORE_DATA,
    BUGS
};

static const char *const NAMES[BUGS] = {
    [NONE] = "none",
    [NO_DATA_SYNC] = "no-data-sync",
    [NO_DIRECTORY_SYNC] = "no-directory-sync",
    [NO_PARENT_SYNC] = "no-parent-sync",
    [NO_SYNC_OF_NEW_FILES] = "no-sync-of-new-files",
    [SYNC_BEFORE_WRITE] = "sync-before-write",
    [TAIL_BEFORE_DATA] = "tail-before-data",
};

static enum bug seeded;

__attribute__((constructor)) static void read_seeded(void)
{
    const char *name = getenv("BINLOG_RECORDER_BUG");
    for (int i = 0; name && i < BUGS; i++)
        if (strcmp(name, NAMES[i]) == 0)
            seeded = (enum bug)i;
    if (name && seeded == NONE && strcmp(name, NAMES[NONE]) != 0) {
        fprintf(stderr, "recorder: there is no bug %s\n", name);
        _exit(2); /* a misspelt canary would prove nothing */
    }
}

/* A write that was acknowledged but not made yet.  The log writes from data to tail in one thread, under one lock. */
static __thread struct {
    int fd;
    char *data;
    size_t bytes;
    int64_t offset;
} held = {.fd = -1};

static void release(void)
{
    if (held.fd < 0)
        return;
    recorded_pwrite(held.fd, held.data, held.bytes, held.offset);
    free(held.data);
    held.fd = -1;
}

static void hold(int fd, const void *data, size_t bytes, int64_t offset)
{
    release();
    held.fd = fd;
    held.data = malloc(bytes);
    if (!held.data)
        abort();
    memcpy(held.data, data, bytes);
    held.bytes = bytes;
    held.offset = offset;
}

bool bug_holds_write(int fd, const void *data, size_t bytes, int64_t offset)
{
    if (seeded == NONE || !recording() || !inode_of(fd))
        return false;
    if (seeded == SYNC_BEFORE_WRITE || (seeded == TAIL_BEFORE_DATA && offset >= HEADER_BYTES)) {
        hold(fd, data, bytes, offset);
        return true;
    }
    return false;
}

void bug_after_write(int fd, int64_t offset)
{
    if (seeded == TAIL_BEFORE_DATA && held.fd == fd && offset == TAIL_OFFSET)
        release();
}

static bool is_directory(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool same(int fd, const char *path)
{
    struct stat one, other;
    return fstat(fd, &one) == 0 && stat(path, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* Whether the file has only the name of an unfinished file. */
static bool is_unnamed(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    if (bytes < 0)
        return false;
    path[bytes] = '\0';
    const char *slash = strrchr(path, '/');
    return slash && slash[1] == '.';
}

bool bug_drops_sync(int fd)
{
    if (seeded == NONE || !recording())
        return false;
    switch (seeded) {
    case NO_DATA_SYNC:
        return !is_directory(fd);
    case NO_DIRECTORY_SYNC:
        return is_directory(fd);
    case NO_PARENT_SYNC: /* a workload runs in the parent directory of the log */
        return is_directory(fd) && same(fd, ".");
    case NO_SYNC_OF_NEW_FILES:
        return !is_directory(fd) && is_unnamed(fd);
    default:
        return false;
    }
}

void bug_after_sync(void)
{
    if (seeded == SYNC_BEFORE_WRITE)
        release();
}
