/* One commit to an open log file; see commit.c. */
#ifndef BINLOG_COMMIT_H
#define BINLOG_COMMIT_H

#include "live_block.h"

struct note;

/* Framed records that are committed together. */
struct group {
    const uint8_t *data;
    size_t bytes;
    size_t known_bytes; /* the CRC of this many bytes, from the start, is known */
    uint32_t known_crc;
    uint32_t record_count;    /* for the count in the header */
    int sync;          /* confirm this group, and everything before it */
    int written;       /* the file has the bytes already, all of known CRC; there is no data */
    struct note *note; /* the leader's note in the staging area, NULL if there is none */
};

/* Commits the group at the live tail.  The lock is held and the header needs no recovery.  Returns 0, or -errno with the step
 * that failed; commit_poisons then says whether the contents of the disk are unknown. */
int commit_group(struct binlog_file *file, uint8_t *header, struct live *live, const struct group *group, int *step);

int commit_read_header(int fd, uint8_t *header);

int commit_poisons(int result, int step);

/* Sets the poison flag in the file, for every other process.  If this write fails, its error is dropped, because the caller
 * reports the first one.
 * `live`: the published and confirmed values, as read under this lock.  The header is not read again: if its pages could not be
 * written, the disk may return an older header, and recovery would keep nothing after the bytes that it confirms. */
void commit_write_poison(const struct binlog_file *file, uint8_t *header, struct live *live, int number);

#endif
