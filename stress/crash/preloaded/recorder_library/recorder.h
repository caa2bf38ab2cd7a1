/*
 * A library to preload (ld.so(8), LD_PRELOAD) that records every system call that writes to a file or directory.
 *
 * It sees calls of libc's functions, from the interpreter and from compiled modules alike, and stores to mapped files
 * through binlog_mapped_write; the log makes no stores, and the commit log no others.  Nothing is recorded before
 * binlog_recorder_start; a forked child continues the same trace.
 *
 * The trace is a header followed by records, in host byte order; stress/crash/preloaded/trace.py reads it.  Several processes
 * write it at once, through one shared mapping.  `start` and `end` come from one counter: a call that ended before
 * another began has smaller ticks.
 *
 * A call that changes something holds the trace's lock, also while it takes its ticks; a sync only begins under the
 * lock.  So a sync that begins after a process saw a change begins after the end of that change.  Without the lock, a
 * process that is preempted between the change and its end tick would make a later sync, which does cover the change,
 * appear not to.
 *
 * BINLOG_RECORDER_BOOT: a file that is read as the kernel's boot id, so that a process can belong to another boot.
 * BINLOG_RECORDER_MEMORY: a prefix for every name of shared memory, so that it can be found and removed.
 * BINLOG_RECORDER_BUG: one of the names in bugs.c, a bug that the harness must find.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include "../interposing.h"

#include <pthread.h>

#define TRACE_MAGIC 0x3145434152544c42ull /* "BLTRACE1" */

enum trace_kind {
    TRACE_WRITE = 1,      /* inode, offset, data */
    TRACE_TRUNCATE,       /* inode, offset: the new size */
    TRACE_ALLOCATE,       /* inode, offset: the least size of the file */
    TRACE_SYNC,           /* inode: of a file or of a directory */
    TRACE_CREATE,         /* directory, name, inode */
    TRACE_LINK,           /* directory, name, inode */
    TRACE_UNLINK,         /* directory, name */
    TRACE_RENAME,         /* other_directory, other name: the old ones; directory, name, inode */
    TRACE_MAKE_DIRECTORY, /* directory, name, inode */
    TRACE_MARK,           /* a workload's own: MARK_NUMBERS numbers */
    TRACE_MEMORY,         /* inode: of shared memory, which is on no disk */
    TRACE_STORE = 13      /* inode, offset, data: through a mapping; 12 is trace.py's */
};

struct trace_header {
    uint64_t magic;
    uint64_t room;  /* bytes of the file */
    uint64_t first; /* offset of the first record */
    uint64_t used;  /* bytes used, this header included; more than `room` if the trace is incomplete */
    uint64_t ticks; /* the last tick given */
    pthread_mutex_t lock;
};

#define MARK_NUMBERS 8

struct trace_record {
    uint32_t bytes; /* of the record with its names and data, a multiple of 8 */
    uint32_t kind;
    uint32_t process;
    uint32_t failed;     /* 1 if the call failed, or changed nothing */
    uint64_t start, end; /* end 0: the process died in the call */
    uint64_t inode, directory, other_directory;
    int64_t offset;
    uint32_t name_bytes, other_name_bytes, data_bytes;
    uint32_t written_bytes; /* bytes of the data that the call wrote */
    int64_t mark[MARK_NUMBERS];
    /* the name, the other name, the data */
};

/* trace.c */
bool recording(void);
struct trace_record *record_begin(enum trace_kind kind, const char *name, const char *other_name, size_t data_bytes);
char *record_data(struct trace_record *record);
void record_end(struct trace_record *record, bool failed);
uint64_t inode_of(int fd);
uint64_t inode_at(int directory, const char *path);
_Noreturn void refuse(const char *what);

/* bugs.c */
bool bug_holds_write(int fd, const void *data, size_t bytes, int64_t offset);
void bug_after_write(int fd, int64_t offset);
bool bug_drops_sync(int fd);
void bug_after_sync(void);

/* bytes.c */
ssize_t recorded_pwrite(int fd, const void *data, size_t bytes, int64_t offset);

#endif
