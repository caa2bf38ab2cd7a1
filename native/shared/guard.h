/* The mutex that Guard and Monitor share, the guard, and private futexes; guard.c. */
#ifndef BINLOG_GUARD_H
#define BINLOG_GUARD_H

#include <Python.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

struct waiters {
    char woken;     /* one was woken, and has not run yet */
    uint32_t count; /* of threads */
    uint32_t word;  /* the futex that they sleep on */
};

/* A mutex that threads take and release only with the interpreter's lock.  A thread that was woken, and found the mutex
 * taken again, moves from `first` to `next`; all others wait until `next` is empty. */
struct mutex {
    pthread_t owner; /* if `held` */
    char held;
    struct waiters first, next;
};

/* Takes it; 0, or -1 with the exception of a signal handler. */
int mutex_take(struct mutex *self);
/* Takes it, and runs no signal handlers meanwhile. */
void mutex_take_uninterrupted(struct mutex *self);
void mutex_release(struct mutex *self);
/* Whether this thread holds it. */
int mutex_is_held_here(const struct mutex *self);

struct guard {
    PyObject_HEAD
    struct mutex mutex;
    char is_initialized, changing;
    PyObject *name;     /* of the guarded object, for errors: "the journal PATH" */
    PyObject *poisoned; /* the classes of the errors to raise */
    PyObject *reentered;
    PyObject *harmless; /* classes of errors: a `change` that ends with one has changed nothing */
    PyObject *failure;  /* the exception that poisoned it, or NULL */
    char is_bound; /* to the process of this generation, and, if fd >= 0, as long as that is open on the file */
    int fd;
    uint64_t device, inode;
    uint32_t generation;
};

/* 0, or -1 with PoisonedError. */
int guard_check(struct guard *self);
/* Poisons the guard: all later blocks are refused.  The first failure counts. */
void guard_poison(struct guard *self, PyObject *failure);
/* False in a child of the process that it is bound to. */
int guard_is_in_its_process(const struct guard *self);
/* Raises the error of a call in such a child, or after the program closed our descriptors. */
void guard_raise_lost(struct guard *self);
/* Raises the error of a call in a thread that is within another call. */
void guard_raise_reentered(struct guard *self);

/* Sleeps while the word is `seen`, without the interpreter's lock, for `timeout` at most; returns the errno, or 0.  It may
 * return early, so callers check again. */
int binlog_futex_sleep(uint32_t *word, uint32_t seen, const struct timespec *timeout);
/* Sleeps until the word changes; 0, or -1 with the exception of a signal handler.  It may return early. */
int binlog_futex_wait(uint32_t *word);
/* Changes the word, and wakes up to `count` threads that sleep on it. */
void binlog_futex_wake(uint32_t *word, int count);

extern PyObject *state_error; /* binlog.errors.StateError */
extern PyTypeObject *guard_type, *change_type, *commit_wait_type; /* of the only instance of the module */

#endif
