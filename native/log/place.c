/* Checks whether a descriptor, and the name of a log file, still lead to the file that was opened.
 *
 * Facts relied on:
 * - close(2): a program that closes descriptors it does not know may close ours; then the number may be another file's.
 * - rename(2), unlink(2): they change the directory, and so its time of change (inode(7), st_ctim).  A kernel before Linux 6.13
 *   gives changes within one tick of CLOCK_REALTIME_COARSE the same time, so a time of the current tick proves nothing.
 * - Renaming the directory itself changes it too; renaming one above it does not, so the whole path is looked up now and then.
 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define CHECK_NS ((int64_t)100 * 1000 * 1000)

struct facts {
    uint64_t device, inode, file_bytes;
    int64_t changed_s;
    uint32_t changed_ns, links;
};

/* Returns 0 or -errno.  name: "" for the descriptor itself.  Times of a log file are not requested: see file_status.c. */
static int get_facts(int at, const char *name, unsigned mask, struct facts *facts)
{
    struct statx known;
    struct stat status;
    const int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    if (statx(at, name, flags, mask, &known) == 0 && (known.stx_mask & mask) == mask) {
        *facts = (struct facts){makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino, known.stx_size,
                                known.stx_ctime.tv_sec, known.stx_ctime.tv_nsec, known.stx_nlink};
        return 0;
    }
    if (fstatat(at, name, &status, flags) != 0)
        return -errno;
    *facts = (struct facts){status.st_dev, status.st_ino, (uint64_t)status.st_size, status.st_ctim.tv_sec,
                            (uint32_t)status.st_ctim.tv_nsec, (uint32_t)status.st_nlink};
    return 0;
}

/* Whether `fd` still is the file with this device and inode. */
int binlog_fd_is(int fd, uint64_t device, uint64_t inode)
{
    struct facts facts;
    return fd >= 0 && get_facts(fd, "", STATX_INO, &facts) == 0 && facts.device == device && facts.inode == inode;
}

/* Whether the path leads to the file with this device and inode. */
int binlog_path_is(const char *path, uint64_t device, uint64_t inode)
{
    struct facts facts;
    return get_facts(AT_FDCWD, path, STATX_INO, &facts) == 0 && facts.device == device && facts.inode == inode;
}

/* Closes a descriptor if it still is our file: a program that closed all its descriptors, as a daemon does, may have given the
 * number to a file of its own. */
int binlog_fd_close_own(int fd, uint64_t device, uint64_t inode)
{
    if (!binlog_fd_is(fd, device, inode))
        return 0;
    return close(fd) == 0 ? 0 : -errno;
}

/* Whether `fd` still is the file and the file has a name; also returns its size. */
int binlog_fd_is_named(int fd, uint64_t device, uint64_t inode, uint64_t *file_bytes)
{
    struct facts facts;
    if (fd < 0 || get_facts(fd, "", STATX_INO | STATX_SIZE | STATX_NLINK, &facts) != 0)
        return 0;
    *file_bytes = facts.file_bytes;
    return facts.device == device && facts.inode == inode && facts.links > 0;
}

/* Whether the descriptor still is the open file; remembers its size. */
int place_is_open(struct binlog_place *place, int fd)
{
    struct facts facts;
    if (!place->name) /* no name to check */
        return 1;
    if (get_facts(fd, "", STATX_INO | STATX_SIZE, &facts) != 0 || facts.device != place->device || facts.inode != place->inode)
        return 0;
    place->file_bytes = facts.file_bytes;
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
    struct facts file;
    return get_facts(place->at, place->name, STATX_INO, &file) == 0 && file.device == place->device &&
           file.inode == place->inode;
}

/* Whether the name leads to the file.  It is looked up only if the directory has changed, or after CHECK_NS.
 *
 * After CHECK_NS the directory is not asked, so that a writer that appends rarely makes one call, like one that appends often.
 * The known time of change stays right, because the name led to the file then. */
int place_leads(struct binlog_place *place)
{
    struct facts directory;
    int64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    if (!place->name) /* no name to check */
        return 1;
    if (place->changed_ns > 0 && now - place->looked_ns >= CHECK_NS) {
        if (!name_leads(place))
            return 0; /* the next call must check again, because the directory itself may be unchanged */
        place->looked_ns = now;
        return 1;
    }
    if (get_facts(place->directory, "", STATX_INO | STATX_CTIME, &directory) != 0 ||
        directory.device != place->directory_device || directory.inode != place->directory_inode)
        return 0;
    int64_t changed_ns = directory.changed_s * 1000000000 + directory.changed_ns;
    if (changed_ns == place->changed_ns)
        return 1;
    int64_t tick_ns = clock_ns(CLOCK_REALTIME_COARSE); /* before the lookup, so that a later change has a later time */
    if (!name_leads(place))
        return 0;
    place->changed_ns = changed_ns < tick_ns ? changed_ns : -1;
    place->looked_ns = now;
    return 1;
}
