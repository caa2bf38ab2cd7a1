/* Calls that change a file's bytes or size, and syncs. */
#include "recorder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The arguments of a write: one buffer, or several; offset < 0: at the descriptor's own position. */
struct write_call {
    int fd, count;
    const struct iovec *parts;
    int64_t offset;
    bool many;
};

static ssize_t call_next(const struct write_call *call)
{
    if (call->many) {
        NEXT(pwritev);
        static __typeof__(&writev) next_writev;
        if (!next_writev)
            next_writev = (__typeof__(&writev))dlsym(RTLD_NEXT, "writev");
        return call->offset < 0 ? next_writev(call->fd, call->parts, call->count)
                                : next(call->fd, call->parts, call->count, call->offset);
    }
    NEXT(pwrite);
    static __typeof__(&write) next_write;
    if (!next_write)
        next_write = (__typeof__(&write))dlsym(RTLD_NEXT, "write");
    const struct iovec *part = call->parts;
    return call->offset < 0 ? next_write(call->fd, part->iov_base, part->iov_len)
                            : next(call->fd, part->iov_base, part->iov_len, call->offset);
}

static ssize_t recorded_write(const struct write_call *call)
{
    uint64_t inode = recording() ? inode_of(call->fd) : 0;
    if (!inode)
        return call_next(call);
    size_t bytes = 0;
    for (int i = 0; i < call->count; i++)
        bytes += call->parts[i].iov_len;
    struct trace_record *record = record_begin(TRACE_WRITE, NULL, NULL, bytes);
    if (record) {
        record->inode = inode;
        record->offset = call->offset >= 0 ? call->offset : lseek(call->fd, 0, SEEK_CUR);
        record->written_bytes = (uint32_t)bytes; /* the most that a process that dies in the call may have written */
        char *to = record_data(record);
        for (int i = 0; i < call->count; to += call->parts[i++].iov_len)
            memcpy(to, call->parts[i].iov_base, call->parts[i].iov_len);
    }
    ssize_t result = call_next(call);
    if (record && result >= 0) {
        record->written_bytes = (uint32_t)result;
        if (call->offset < 0) /* with O_APPEND the kernel moved it to the end first */
            record->offset = lseek(call->fd, 0, SEEK_CUR) - result;
    }
    record_end(record, result < 0);
    return result;
}

ssize_t recorded_pwrite(int fd, const void *data, size_t bytes, int64_t offset)
{
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    return recorded_write(&(struct write_call){.fd = fd, .count = 1, .parts = &part, .offset = offset});
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    if (bug_holds_write(fd, data, bytes, offset))
        return (ssize_t)bytes;
    ssize_t result = recorded_pwrite(fd, data, bytes, offset);
    bug_after_write(fd, offset);
    return result;
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    return pwrite(fd, data, bytes, offset);
}

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
    return recorded_pwrite(fd, data, bytes, -1);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    struct write_call call = {.fd = fd, .count = count, .parts = parts, .offset = offset, .many = true};
    return recorded_write(&call);
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return pwritev(fd, parts, count, offset);
}

/* Python calls this for os.pwritev. */
EXPORT ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    if (recording() && flags)
        refuse("a write with flags");
    return pwritev(fd, parts, count, offset);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return pwritev2(fd, parts, count, offset, flags);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return pwritev(fd, parts, count, -1);
}

static struct trace_record *begin_on(enum trace_kind kind, int fd, int64_t size)
{
    uint64_t inode = recording() ? inode_of(fd) : 0;
    struct trace_record *record = inode ? record_begin(kind, NULL, NULL, 0) : NULL;
    if (record) {
        record->inode = inode;
        record->offset = size;
    }
    return record;
}

EXPORT int ftruncate(int fd, off_t size)
{
    NEXT(ftruncate);
    struct trace_record *record = begin_on(TRACE_TRUNCATE, fd, size);
    int result = next(fd, size);
    record_end(record, result != 0);
    return result;
}

EXPORT int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

/* Recorded as a write of zeros to the existing bytes, some of which may reach the disk without the others. */
static int zero_range(int fd, int mode, off_t offset, off_t bytes, int (*next)(int, int, off_t, off_t))
{
    struct stat status;
    uint64_t inode = inode_of(fd);
    if (!inode || fstat(fd, &status) != 0)
        return next(fd, mode, offset, bytes);
    int64_t stop = offset + bytes < status.st_size ? offset + bytes : status.st_size;
    size_t zeros = stop > offset ? (size_t)(stop - offset) : 0;
    struct trace_record *record = record_begin(TRACE_WRITE, NULL, NULL, zeros);
    if (record) {
        record->inode = inode;
        record->offset = offset;
        record->written_bytes = (uint32_t)zeros;
        memset(record_data(record), 0, zeros);
    }
    int result = next(fd, mode, offset, bytes);
    record_end(record, result != 0);
    return result;
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    NEXT(fallocate);
    if (recording() && mode == (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE))
        return zero_range(fd, mode, offset, bytes, next);
    if (recording() && (mode & ~FALLOC_FL_KEEP_SIZE))
        refuse("fallocate with this mode");
    struct trace_record *record = mode ? NULL : begin_on(TRACE_ALLOCATE, fd, offset + bytes);
    int result = next(fd, mode, offset, bytes);
    record_end(record, result != 0);
    return result;
}

EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
    return fallocate(fd, mode, offset, bytes);
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    NEXT(posix_fallocate);
    struct trace_record *record = begin_on(TRACE_ALLOCATE, fd, offset + bytes);
    int result = next(fd, offset, bytes);
    record_end(record, result != 0);
    return result;
}

EXPORT int posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
    return posix_fallocate(fd, offset, bytes);
}

EXPORT int truncate(const char *path, off_t size)
{
    NEXT(truncate);
    if (recording())
        refuse("truncation of a file by its name");
    return next(path, size);
}

EXPORT int truncate64(const char *path, off64_t size)
{
    return truncate(path, size);
}

EXPORT ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t bytes,
                               unsigned int flags)
{
    NEXT(copy_file_range);
    if (recording())
        refuse("a copy inside the kernel");
    return next(from, from_offset, to, to_offset, bytes, flags);
}

static int recorded_sync(int fd, int (*next)(int))
{
    if (bug_drops_sync(fd))
        return 0;
    struct trace_record *record = begin_on(TRACE_SYNC, fd, 0);
    int result = next(fd);
    record_end(record, result != 0);
    bug_after_sync();
    return result;
}

EXPORT int fsync(int fd)
{
    NEXT(fsync);
    return recorded_sync(fd, next);
}

EXPORT int fdatasync(int fd)
{
    NEXT(fdatasync);
    return recorded_sync(fd, next);
}
