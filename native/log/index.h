/* Writing the index of an open log file; index.c. */
#ifndef BINLOG_INDEX_H
#define BINLOG_INDEX_H

#include "commit.h"

/* A group that was just published. */
struct index_commit {
    const struct group *group;
    uint64_t start;                 /* the group's offset */
    uint64_t count;                 /* the file's records before it */
    uint32_t crc_before, crc_after; /* the running CRC before and after the group, before any confirm */
    int confirmed;                  /* the commit was confirmed */
};

/* Remembers the group, or writes the entries that are due.  The lock is held; errors are ignored. */
void index_follow(struct binlog_file *file, const struct live *live, const struct index_commit *commit);

#endif
