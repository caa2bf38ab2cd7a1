/* Whether a descriptor, and the name of a log file, still lead to the file that was opened.
 *
 * Facts relied on:
 * - close(2): a program that closes descriptors that it does not know may close ours; the number then names another file.
 * - rename(2), unlink(2): they change the directory, and so its time of change (inode(7), st_ctim).  A kernel before Linux 6.13
 *   gives changes within one tick of CLOCK_REALTIME_COARSE the same time, so that a time of this very tick says nothing.
 * - A directory that is itself renamed changes too; one above it does not, so the whole path is looked up now and then.
 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS ((int64_t)100 * 1000 * 1000)

struct found {
    uint64_t device, inode, file_bytes;
    int64_t changed_s;
    uint32_t changed_ns, links;
};

/* 0 or -errno.  name: "" for the descriptor itself.  The times of a log file are not asked for: see file_status.c. */
static int find(int at, const char *name, unsigned wanted, struct found *found)
{
    struct statx known;
    struct stat status;
    const int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    if (statx(at, name, flags, wanted, &known) == 0 && (known.stx_mask & wanted) == wanted) {
        *found = (struct found){makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino, known.stx_size,
                                known.stx_ctime.tv_sec, known.stx_ctime.tv_nsec, known.stx_nlink};
        return 0;
    }
    if (fstatat(at, name, &status, flags) != 0)
        return -errno;
    *found = (struct found){status.st_dev, status.st_ino, (uint64_t)status.st_size, status.st_ctim.tv_sec,
                            (uint32_t)status.st_ctim.tv_nsec, (uint32_t)status.st_nlink};
    return 0;
}

/* Whether `fd` is still the file with this device and inode. */
int binlog_fd_is(int fd, uint64_t device, uint64_t inode)
{
    struct found found;
    return fd >= 0 && find(fd, "", STATX_INO, &found) == 0 && found.device == device && found.inode == inode;
}

/* Whether the path leads to it. */
int binlog_path_is(const char *path, uint64_t device, uint64_t inode)
{
    struct found found;
    return find(AT_FDCWD, path, STATX_INO, &found) == 0 && found.device == device && found.inode == inode;
}

/* Closes a descriptor that is still what was opened: a program that closed all it had, as a daemon does, may have given its
 * number to a file of its own. */
int binlog_fd_close_own(int fd, uint64_t device, uint64_t inode)
{
    if (!binlog_fd_is(fd, device, inode))
        return 0;
    return close(fd) == 0 ? 0 : -errno;
}

/* As binlog_fd_is, and whether the file still has a name; its size. */
int binlog_fd_is_named(int fd, uint64_t device, uint64_t inode, uint64_t *file_bytes)
{
    struct found found;
    if (fd < 0 || find(fd, "", STATX_INO | STATX_SIZE | STATX_NLINK, &found) != 0)
        return 0;
    *file_bytes = found.file_bytes;
    return found.device == device && found.inode == inode && found.links > 0;
}

/* The same of an open file, whose size is remembered. */
int place_is_open(struct binlog_place *place, int fd)
{
    struct found found;
    if (!place->name) /* nobody has said which */
        return 1;
    if (find(fd, "", STATX_INO | STATX_SIZE, &found) != 0 || found.device != place->device || found.inode != place->inode)
        return 0;
    place->file_bytes = found.file_bytes;
    return 1;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int name_leads(const struct binlog_place *place)
{
    struct found file;
    return find(place->at, place->name, STATX_INO, &file) == 0 && file.device == place->device &&
           file.inode == place->inode;
}

/* Whether the name leads to the file.  It is looked up only if the directory has changed, or after LOOK_NS.
 *
 * After LOOK_NS the directory is not asked, so a writer that appends now and then makes one call, as one that appends often.  The
 * time of change that is known stays right: the name led to the file then. */
int place_leads(struct binlog_place *place)
{
    struct found directory;
    int64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    if (!place->name) /* nobody has said which */
        return 1;
    if (place->changed_ns > 0 && now - place->looked_ns >= LOOK_NS) {
        if (!name_leads(place))
            return 0; /* the next call must look again, for the directory itself may be unchanged */
        place->looked_ns = now;
        return 1;
    }
    if (find(place->directory, "", STATX_INO | STATX_CTIME, &directory) != 0 ||
        directory.device != place->directory_device || directory.inode != place->directory_inode)
        return 0;
    int64_t changed_ns = directory.changed_s * 1000000000 + directory.changed_ns;
    if (changed_ns == place->changed_ns)
        return 1;
    int64_t tick_ns = clock_ns(CLOCK_REALTIME_COARSE); /* before the name is looked up: what changes after it has a later time */
    if (!name_leads(place))
        return 0;
    place->changed_ns = changed_ns < tick_ns ? changed_ns : -1;
    place->looked_ns = now;
    return 1;
}
