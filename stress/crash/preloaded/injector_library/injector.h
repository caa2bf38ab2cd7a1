/*
 * A library to preload (ld.so(8), LD_PRELOAD) that injects a fault into a chosen system call: the process dies before
 * or after it, or the call fails, or returns short, or is delayed.
 *
 * It counts the calls of libc's functions on files under one path, which is a prefix of the log's and of its shared
 * memory's.  It is preloaded after the recorder, which therefore records the result.  Nothing is injected before
 * binlog_injector_arm, and a forked child starts disarmed.
 */
#ifndef INJECTOR_H
#define INJECTOR_H

#include "../interposing.h"

#include <stdatomic.h>

/* stress/crash/preloaded/injector.py names them in the same order. */
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
    CALL_OTHER /* advice, times and modes: calls that change no byte and no name */
};

enum injection_action {
    INJECT_NOTHING,
    INJECT_KILL_BEFORE,
    INJECT_KILL_AFTER,
    INJECT_FAIL,
    INJECT_SHORT,
    INJECT_KILL_WITHIN, /* after whole pages of its write, or half of its store; after any other call */
    INJECT_STOP, /* the process stops before the call, until SIGCONT */
    INJECT_HANG  /* the thread waits before the call, until binlog_injector_disarm */
};

/* A fault to inject.  kinds: bit i for call kind i.  first: the first of those calls that is affected, from 0.
 * count: how many, -1 for all. */
struct injection_order {
    uint64_t kinds;
    int64_t first, count;
    int32_t action, error;
};

/* The counters that a process shows to others, in shared memory. */
struct injection_slot {
    _Atomic uint64_t calls;   /* counted calls */
    _Atomic uint64_t hits;  /* calls into which the fault was injected */
    _Atomic uint32_t locked;  /* the process holds the lock of a whole file */
    _Atomic uint32_t blocked; /* the process is waiting for a lock, or on a futex */
};

/* injection.c */
struct injection {
    int action, error;
};
bool injector_armed(void);
bool is_ours(int fd);
bool is_ours_at(int directory, const char *path);
struct injection injection_begin(enum call_kind kind, bool ours);
void injection_end(struct injection injection);
void show_locked(int fd, bool locked);
void show_blocked(bool blocked);
bool shows_locked(int fd);

#endif
