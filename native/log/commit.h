/* One commit to an open log file; commit.c. */
#ifndef BINLOG_COMMIT_H
#define BINLOG_COMMIT_H

#include "live_block.h"

struct note;

/* Framed records that go into the file together. */
struct group {
    const uint8_t *data;
    size_t bytes;
    size_t known_bytes; /* of which this is known: from the start, and their CRC */
    uint32_t known_crc;
    uint32_t units;    /* records, for the count in the header */
    int sync;          /* confirm this group, and all before it */
    int written;       /* the bytes, all of them known, are in the file already; there is no data */
    struct note *note; /* the leader's note in the staging area, NULL where there is none */
};

/* Commits the group at the live tail.  The lock is held and the header plain.  Returns 0, or -errno with the step that
 * failed, after which `poisons` says whether the disk's bytes are still known. */
int commit_group(struct binlog_file *file, uint8_t *header, struct live *live, const struct group *group, int *step);

int commit_read_header(int fd, uint8_t *header);

int commit_poisons(int result, int step);

/* Marks the file as poisoned, for every other process.  What fails here is lost: the error that led here is told.
 * `live`: what is published and confirmed, as it was read under this lock.  It is not read anew: a header whose pages could
 * not be written may come back from the disk as an older one, and nothing beyond what it confirms would be kept. */
void commit_write_poison(const struct binlog_file *file, uint8_t *header, struct live *live, int number);

#endif
