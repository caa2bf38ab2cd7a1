/* Calls that change a directory's names, and the file from which the boot id is read. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_ROOM 4096

/* Return the inode of the directory in which `path` is; `name` becomes the path's last part. */
static uint64_t split(int directory, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash)
        return directory == AT_FDCWD ? inode_at(AT_FDCWD, ".") : inode_of(directory);
    char above[PATH_ROOM];
    snprintf(above, sizeof above, "%.*s/.", (int)(slash - path), path);
    return inode_at(directory, above);
}

static struct trace_record *begin_named(enum trace_kind kind, int directory, const char *path)
{
    if (!recording())
        return NULL;
    const char *name;
    uint64_t inode = split(directory, path, &name);
    struct trace_record *record = record_begin(kind, name, NULL, 0);
    if (record)
        record->directory = inode;
    return record;
}

static const char *boot_or(const char *path)
{
    static const char *other;
    if (!other && !(other = getenv("BINLOG_RECORDER_BOOT")))
        other = "";
    return *other && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? other : path;
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
    NEXT(openat);
    GIVEN_MODE(flags, mode);
    if (!recording() || !(flags & (O_CREAT | O_TRUNC)))
        return next(directory, boot_or(path), flags, mode);
    bool there = inode_at(directory, path) != 0;
    if (there && (flags & O_TRUNC))
        refuse("open with O_TRUNC");
    struct trace_record *record = there ? NULL : begin_named(TRACE_CREATE, directory, path);
    int fd = next(directory, path, flags, mode);
    if (record)
        record->inode = fd < 0 ? 0 : inode_of(fd);
    record_end(record, fd < 0);
    return fd;
}

EXPORT int openat64(int directory, const char *path, int flags, ...)
{
    GIVEN_MODE(flags, mode);
    return openat(directory, path, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
    GIVEN_MODE(flags, mode);
    return openat(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    GIVEN_MODE(flags, mode);
    return openat(AT_FDCWD, path, flags, mode);
}

EXPORT int linkat(int old_directory, const char *old, int directory, const char *path, int flags)
{
    NEXT(linkat);
    struct trace_record *record = begin_named(TRACE_LINK, directory, path);
    if (record)
        record->inode = inode_at(old_directory, old);
    int result = next(old_directory, old, directory, path, flags);
    record_end(record, result != 0);
    return result;
}

EXPORT int link(const char *old, const char *path)
{
    return linkat(AT_FDCWD, old, AT_FDCWD, path, 0);
}

EXPORT int unlinkat(int directory, const char *path, int flags)
{
    NEXT(unlinkat);
    struct trace_record *record = begin_named(TRACE_UNLINK, directory, path);
    int result = next(directory, path, flags);
    record_end(record, result != 0);
    return result;
}

EXPORT int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

EXPORT int renameat2(int old_directory, const char *old, int directory, const char *path, unsigned int flags)
{
    NEXT(renameat2);
    if (recording() && (flags & ~(unsigned)RENAME_NOREPLACE))
        refuse("an exchange of two names");
    struct trace_record *record = NULL;
    if (recording()) {
        const char *name, *old_name;
        uint64_t inode = split(directory, path, &name), old_inode = split(old_directory, old, &old_name);
        record = record_begin(TRACE_RENAME, name, old_name, 0);
        if (record) {
            record->directory = inode;
            record->other_directory = old_inode;
            record->inode = inode_at(old_directory, old);
        }
    }
    int result = next(old_directory, old, directory, path, flags);
    record_end(record, result != 0);
    return result;
}

EXPORT int renameat(int old_directory, const char *old, int directory, const char *path)
{
    return renameat2(old_directory, old, directory, path, 0);
}

EXPORT int rename(const char *old, const char *path)
{
    return renameat2(AT_FDCWD, old, AT_FDCWD, path, 0);
}

EXPORT int mkdirat(int directory, const char *path, mode_t mode)
{
    NEXT(mkdirat);
    struct trace_record *record = begin_named(TRACE_MAKE_DIRECTORY, directory, path);
    int result = next(directory, path, mode);
    if (record && result == 0)
        record->inode = inode_at(directory, path);
    record_end(record, result != 0);
    return result;
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
