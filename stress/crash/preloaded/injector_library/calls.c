/*
 * Calls on bytes, names and memory, each of which can be made to fail.
 *
 * The recorder, which is called first, maps functions with 64 in their names to the others, and all kinds of rename to
 * one.
 */
#include "injector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Make the call `made`, of type int, or inject the fault. */
#define INJECT_INT(kind, ours, made)                                                                                   \
    do {                                                                                                               \
        struct injection injection = injection_begin(kind, ours);                                                               \
        if (injection.action == INJECT_FAIL) {                                                                            \
            errno = injection.error;                                                                                      \
            return -1;                                                                                                 \
        }                                                                                                              \
        int result = made;                                                                                             \
        injection_end(injection);                                                                                            \
        return result;                                                                                                 \
    } while (0)

#define PAGE_BYTES 4096

/* Return how much of a write of `bytes` at `offset` reaches the file if a signal kills the process half-way.  Linux
 * checks for one only between two pages (generic_perform_write of mm/filemap.c, iomap_write_iter of
 * fs/iomap/buffered-io.c): so whole pages up to about the middle, and a write within one page as a whole. */
static size_t to_page_end(size_t bytes, off_t offset)
{
    size_t first = PAGE_BYTES - offset % PAGE_BYTES;
    if (bytes <= first)
        return bytes;
    return first + (bytes / 2 > first ? (bytes / 2 - first) / PAGE_BYTES * PAGE_BYTES : 0);
}

/* Call `next` for `bytes` at `data`, for fewer if it is to be short, or inject the fault. */
#define INJECT_BYTES(kind)                                                                                             \
    do {                                                                                                               \
        struct injection injection = injection_begin(kind, is_ours(fd));                                                        \
        if (injection.action == INJECT_FAIL) {                                                                            \
            errno = injection.error;                                                                                      \
            return -1;                                                                                                 \
        }                                                                                                              \
        if (injection.action == INJECT_SHORT && bytes > 1)                                                                \
            bytes /= 2;                                                                                                \
        if (injection.action == INJECT_KILL_WITHIN)                                                                       \
            bytes = to_page_end(bytes, offset);                                                                        \
        ssize_t result = next(fd, data, bytes, offset);                                                                \
        injection_end(injection);                                                                                            \
        return result;                                                                                                 \
    } while (0)

EXPORT ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
    NEXT(pread);
    INJECT_BYTES(CALL_READ);
}

EXPORT ssize_t pread64(int fd, void *data, size_t bytes, off64_t offset)
{
    return pread(fd, data, bytes, offset);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    NEXT(pwrite);
    INJECT_BYTES(CALL_WRITE);
}

EXPORT int fdatasync(int fd)
{
    NEXT(fdatasync);
    INJECT_INT(CALL_DATA_SYNC, is_ours(fd), next(fd));
}

EXPORT int fsync(int fd)
{
    NEXT(fsync);
    INJECT_INT(CALL_SYNC, is_ours(fd), next(fd));
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    NEXT(posix_fallocate);
    struct injection injection = injection_begin(CALL_ALLOCATE, is_ours(fd));
    if (injection.action == INJECT_FAIL)
        return injection.error; /* posix_fallocate(3) returns the error and does not set errno */
    int result = next(fd, offset, bytes);
    injection_end(injection);
    return result;
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    NEXT(fallocate);
    INJECT_INT(CALL_ALLOCATE, is_ours(fd), next(fd, mode, offset, bytes));
}

EXPORT int ftruncate(int fd, off_t size)
{
    NEXT(ftruncate);
    INJECT_INT(CALL_TRUNCATE, is_ours(fd), next(fd, size));
}

EXPORT int fchmod(int fd, mode_t mode)
{
    NEXT(fchmod);
    INJECT_INT(CALL_OTHER, is_ours(fd), next(fd, mode));
}

EXPORT int futimens(int fd, const struct timespec times[2])
{
    NEXT(futimens);
    INJECT_INT(CALL_OTHER, is_ours(fd), next(fd, times));
}

EXPORT int posix_fadvise64(int fd, off64_t offset, off64_t bytes, int advice)
{
    NEXT(posix_fadvise64);
    INJECT_INT(CALL_OTHER, is_ours(fd), next(fd, offset, bytes, advice));
}

EXPORT int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
    return posix_fadvise64(fd, offset, bytes, advice);
}

EXPORT int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned int flags)
{
    NEXT(sync_file_range);
    INJECT_INT(CALL_OTHER, is_ours(fd), next(fd, offset, bytes, flags));
}

static const char *other_boot;

/* Make this process read its boot id from that file. */
EXPORT void binlog_injector_boot(const char *path)
{
    other_boot = path ? strdup(path) : NULL;
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
    NEXT(openat);
    GIVEN_MODE(flags, mode);
    const char *boot = getenv("BINLOG_RECORDER_BOOT"); /* the recorder's replacement of the kernel's file */
    if (other_boot && boot && strcmp(path, boot) == 0)
        path = other_boot;
    INJECT_INT(CALL_OPEN, is_ours_at(directory, path), next(directory, path, flags, mode));
}

EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
    NEXT(shm_open);
    INJECT_INT(CALL_MEMORY, true, next(name, flags, mode));
}

EXPORT int shm_unlink(const char *name)
{
    NEXT(shm_unlink);
    INJECT_INT(CALL_UNLINK, true, next(name));
}

EXPORT int linkat(int old_directory, const char *old, int directory, const char *path, int flags)
{
    NEXT(linkat);
    INJECT_INT(CALL_LINK, is_ours_at(directory, path), next(old_directory, old, directory, path, flags));
}

EXPORT int renameat2(int old_directory, const char *old, int directory, const char *path, unsigned int flags)
{
    NEXT(renameat2);
    INJECT_INT(CALL_LINK, is_ours_at(directory, path), next(old_directory, old, directory, path, flags));
}

EXPORT int unlinkat(int directory, const char *path, int flags)
{
    NEXT(unlinkat);
    INJECT_INT(CALL_UNLINK, is_ours_at(directory, path), next(directory, path, flags));
}

EXPORT int mkdirat(int directory, const char *path, mode_t mode)
{
    NEXT(mkdirat);
    INJECT_INT(CALL_MAKE_DIRECTORY, is_ours_at(directory, path), next(directory, path, mode));
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap);
    struct injection injection = injection_begin(CALL_MAP, fd >= 0 && is_ours(fd));
    if (injection.action == INJECT_FAIL) {
        errno = injection.error;
        return MAP_FAILED;
    }
    void *result = next(address, bytes, protection, flags, fd, offset);
    injection_end(injection);
    return result;
}

/* madvise(2): the call that fails if a page cannot be had; a store would raise a signal instead. */
EXPORT int madvise(void *address, size_t bytes, int advice)
{
    NEXT(madvise);
    INJECT_INT(CALL_POPULATE, advice == MADV_POPULATE_WRITE, next(address, bytes, advice));
}

void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes);

/* Replaces the one in native/commitlog/mapping.c, which RTLD_NEXT does not find because it is in a module that Python opened. */
EXPORT void binlog_mapped_write(void *map, size_t offset, const void *data, size_t bytes)
{
    struct injection injection = injection_begin(CALL_STORE, true);
    memcpy((uint8_t *)map + offset, data, injection.action == INJECT_KILL_WITHIN ? bytes / 2 : bytes);
    injection_end(injection);
}

EXPORT int close(int fd)
{
    NEXT(close);
    bool ours = is_ours(fd), frees = shows_locked(fd);
    struct injection injection = injection_begin(CALL_CLOSE, ours);
    int result = next(fd);
    if (frees)
        show_locked(fd, false);
    injection_end(injection);
    return result;
}
