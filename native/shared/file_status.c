/* The size of a file, whether it still has a name, and its file system.
 *
 * It does not use fstat(2), which queries the times too.  After such a query, a kernel with multigrain timestamps (Linux 6.13
 * and later) gives the next write a time of its own.  That changes the inode, and the next sync has one more block to write.
 */
#include "binlog.h"
#include "file_status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* 0 or -errno. */
int file_status(int fd, uint64_t *file_bytes, int *named)
{
    struct statx known;
    struct stat status;
    const unsigned wanted = STATX_SIZE | STATX_NLINK;
    if (statx(fd, "", AT_EMPTY_PATH, wanted, &known) == 0 && (known.stx_mask & wanted) == wanted) {
        *file_bytes = known.stx_size;
        *named = known.stx_nlink > 0;
        return 0;
    }
    if (fstat(fd, &status) != 0) /* in a sandbox without statx */
        return -errno;
    *file_bytes = (uint64_t)status.st_size;
    *named = status.st_nlink > 0;
    return 0;
}

/* The type of the file's file system, as in statfs(2). */
int64_t binlog_filesystem(int fd)
{
    struct statfs status;
    return fstatfs(fd, &status) == 0 ? (int64_t)(uint32_t)status.f_type : -errno;
}

/* 1 if the name exists in the directory, 0 if not; -errno. */
int binlog_has_name(int directory, const char *name)
{
    struct stat status;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    return errno == ENOENT ? 0 : -errno;
}
