/* A library to preload (ld.so(8), LD_PRELOAD) that strikes at a chosen system call: the process dies before or after it,
 * or the call fails, or is short.
 *
 * It counts the calls that go through libc's functions and concern files under one path, the log's and its shared
 * memory's; it is preloaded behind the recorder, which so records what came of a call that was struck.  Nothing is
 * struck before binlog_striker_arm, and a child starts without what its parent was armed with.
 */
#ifndef STRIKER_H
#define STRIKER_H

#include "../interposing.h"

#include <stdatomic.h>

/* stress/crash/striker.py names them in the same order. */
enum call_kind {
    CALL_READ,
    CALL_WRITE,
    CALL_DATA_SYNC,
    CALL_SYNC,
    CALL_ALLOCATE,
    CALL_TRUNCATE,
    CALL_OPEN,
    CALL_MEMORY, /* shm_open */
    CALL_LINK,
    CALL_UNLINK,
    CALL_MAKE_DIRECTORY,
    CALL_MAP,
    CALL_LOCK,
    CALL_UNLOCK,
    CALL_CLOSE,
    CALL_FUTEX,
    CALL_STORE, /* to a mapped file, by binlog_mapped_write */
    CALL_POPULATE,
    CALL_OTHER /* advice, times and modes: no byte and no name is another one after it */
};

enum strike_action {
    STRIKE_NOTHING,
    STRIKE_KILL_BEFORE,
    STRIKE_KILL_AFTER,
    STRIKE_FAIL,
    STRIKE_SHORT,
    STRIKE_KILL_WITHIN /* with whole pages of its write, or half of its store, done; after any other call */
};

/* What a process is armed with.  kinds: bit i for the call kind i.  first: which of those calls is struck, the first one
 * being 0.  count: how many from there on, -1 for every one. */
struct strike_order {
    uint64_t kinds;
    int64_t first, count;
    int32_t action, error;
};

/* What a process lets others see, in memory that it shares with them. */
struct strike_slot {
    _Atomic uint64_t calls;   /* counted */
    _Atomic uint64_t struck;  /* of those, how many */
    _Atomic uint32_t locked;  /* it holds the lock of a whole file */
    _Atomic uint32_t blocked; /* it is in a call that waits for a lock, or on a futex */
};

/* strike.c */
struct strike {
    int action, error;
};
bool striker_armed(void);
bool is_ours(int fd);
bool is_ours_at(int directory, const char *path);
struct strike strike_begin(enum call_kind kind, bool ours);
void strike_end(struct strike strike);
void show_locked(int fd, bool locked);
void show_blocked(bool blocked);
bool shows_locked(int fd);

#endif
