/* One commit, from the data's write to the bell, in one call.
 *
 * No Python runs in between, so neither a signal handler nor Ctrl-C can leave
 * it half done: whatever ends it early counts as the death of the process.
 * The caller holds the file's lock.
 */
#include "binlog.h"

#include <errno.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

int binlog_write(int fd, const uint8_t *data, size_t bytes, int64_t offset)
{
    while (bytes > 0) {
        ssize_t written = pwrite(fd, data, bytes, offset);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (written == 0)
            return -ENOSPC; /* write(2) allows it for a full device; a loop would never end */
        data += written;
        bytes -= (size_t)written;
        offset += written;
    }
    return 0;
}

/* A failed sync is never tried again: the kernel may have dropped the dirty pages and would answer OK (fsync(2)). */
static int sync_data(int fd)
{
    int result;
    do
        result = fdatasync(fd);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : -errno;
}

/* The strict classic order: data, sync, tail, sync.  `step` says which step failed.
 * bell_offset < 0: the file has no doorbell. */
int binlog_commit_strict(int fd, const uint8_t *data, size_t bytes, int64_t offset, const uint8_t *published,
                         size_t published_bytes, int64_t published_offset, uint32_t bell, int64_t bell_offset,
                         int *step)
{
    uint8_t bell_bytes[4] = {(uint8_t)(bell >> 24), (uint8_t)(bell >> 16), (uint8_t)(bell >> 8), (uint8_t)bell};
    int result;

    *step = BINLOG_STEP_DATA;
    if ((result = binlog_write(fd, data, bytes, offset)) != 0)
        return result;
    *step = BINLOG_STEP_DATA_SYNC;
    if ((result = sync_data(fd)) != 0)
        return result;
    *step = BINLOG_STEP_PUBLISH;
    if ((result = binlog_write(fd, published, published_bytes, published_offset)) != 0)
        return result;
    *step = BINLOG_STEP_PUBLISH_SYNC;
    if ((result = sync_data(fd)) != 0)
        return result;
    /* The bell comes after what it announces: a reader that sees it change must find the new tail. */
    *step = BINLOG_STEP_BELL;
    return bell_offset < 0 ? 0 : binlog_write(fd, bell_bytes, sizeof bell_bytes, bell_offset);
}

/* The type of the file system that holds the file, as in statfs(2). */
int64_t binlog_filesystem(int fd)
{
    struct statfs status;
    return fstatfs(fd, &status) == 0 ? (int64_t)(uint32_t)status.f_type : -errno;
}
