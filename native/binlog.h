/* What Python calls.  Python decides; these make system calls and run hot loops.
 *
 * Every function returns 0 or a count on success and -errno on failure, and
 * never retries what a signal interrupted where Python must see the signal.
 */
#ifndef BINLOG_H
#define BINLOG_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* fork.c: what a child must not inherit */
int binlog_fork_setup(void);
uint32_t binlog_fork_generation(void);
int binlog_fd_open(int directory, const char *name, int flags);
int binlog_fd_close(int fd);

/* lock.c: the open-file-description lock over a whole file */
int binlog_lock(int fd);
int binlog_try_lock(int fd);
int binlog_unlock(int fd);
int64_t binlog_lock_owner(int fd);

/* commit.c: writing */
enum binlog_commit_step {
    BINLOG_STEP_DATA = 1,
    BINLOG_STEP_DATA_SYNC,
    BINLOG_STEP_PUBLISH,
    BINLOG_STEP_PUBLISH_SYNC,
    BINLOG_STEP_BELL
};
int binlog_commit_strict(int fd, const uint8_t *data, size_t bytes, int64_t offset, const uint8_t *published,
                         size_t published_bytes, int64_t published_offset, uint32_t bell, int64_t bell_offset,
                         int *step);
int binlog_write(int fd, const uint8_t *data, size_t bytes, int64_t offset);
int64_t binlog_filesystem(int fd);

/* doorbell.c: the futex in the header */
void *binlog_bell_map(int fd, int64_t offset);
int binlog_bell_unmap(void *bell, int64_t offset);
int binlog_bell_wait(void *bell, uint32_t seen, int64_t timeout_ns);
int binlog_bell_wait_any(void **bells, const uint32_t *seen, uint32_t count, int64_t timeout_ns);
int binlog_bell_wake(void *bell);

/* scan.c: records in a run of bytes */
enum binlog_scan_stop { BINLOG_SCAN_END = 0, BINLOG_SCAN_SHORT, BINLOG_SCAN_LENGTH, BINLOG_SCAN_LARGE };
int64_t binlog_scan(const uint8_t *data, size_t bytes, uint64_t to_tail, uint32_t record_bytes_max, uint32_t *offsets,
                    int64_t count_max, uint64_t *consumed, int *stop);
int64_t binlog_gather(const uint8_t *data, const uint32_t *offsets, int64_t count, uint8_t *values, int32_t *ends);

/* crc32c.c */
uint32_t binlog_crc32c(uint32_t crc, const uint8_t *data, size_t bytes);

#endif
