/* Writing the index of an open log file; index.c. */
#ifndef BINLOG_INDEX_H
#define BINLOG_INDEX_H

#include "commit.h"

/* A group that was just published. */
struct index_commit {
    const struct group *group;
    uint64_t start;                 /* where it starts */
    uint64_t count;                 /* records of the file before it */
    uint32_t crc_before, crc_after; /* the running CRC there, and behind the group, before any confirm */
    int confirmed;                  /* the commit was confirmed */
};

/* Remembers the group, or writes the entries that are due.  The lock is held; nothing that fails here matters. */
void index_follow(struct binlog_file *file, const struct live *live, const struct index_commit *commit);

#endif
