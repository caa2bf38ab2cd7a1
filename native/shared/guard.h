#ifndef BINLOG_GUARD_H
#define BINLOG_GUARD_H

#include <Python.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

struct waiters {
    char woken;     /* one was woken, and has not run yet */
    uint32_t count; /* threads */
    uint32_t word;  /* what they sleep on */
};

/* Taken and given back only with the interpreter's lock.  A thread that was woken, and found it taken again, moves from
 * `first` to `next`; until `next` is empty, all others wait. */
struct mutex {
    pthread_t owner; /* if `held` */
    char held;
    struct waiters first, next;
};

/* Takes it; 0, or -1 with what a signal handler raised. */
int mutex_take(struct mutex *self);
/* Takes it, whatever signals come meanwhile. */
void mutex_take_back(struct mutex *self);
void mutex_release(struct mutex *self);
/* Whether this thread has it. */
int mutex_is_held_here(const struct mutex *self);

struct guard {
    PyObject_HEAD
    struct mutex mutex;
    char made, changing;
    PyObject *what;     /* its name in errors: "the journal PATH" */
    PyObject *poisoned; /* the classes of errors */
    PyObject *reentered;
    PyObject *harmless; /* errors of ours: a `change` that ends with one has changed nothing */
    PyObject *failure;  /* what poisoned it, or NULL */
    char is_bound; /* to the process of this generation, and, if there is a descriptor, for as long as it is of that file */
    int fd;
    uint64_t device, inode;
    uint32_t generation;
};

/* 0, or -1 with what a poisoned guard raises. */
int guard_check(struct guard *self);
/* Has each later block be refused; the first failure counts. */
void guard_poison(struct guard *self, PyObject *failure);
/* False in a child of the process that it is bound to. */
int guard_is_in_its_process(const struct guard *self);
/* Raises what a call gets in such a child, or after our descriptors were closed. */
void guard_raise_lost(struct guard *self);
/* Raises what a call gets whose thread is within another one. */
void guard_raise_reentered(struct guard *self);

/* Sleeps while the word is `seen`, without the interpreter's lock, and `timeout` at most; the errno.  It may return early, so
 * the caller looks again. */
int binlog_futex_sleep(uint32_t *word, uint32_t seen, const struct timespec *timeout);
/* Sleeps until the word changes; 0, or -1 with what a signal handler raised. */
int binlog_futex_wait(uint32_t *word);
/* Changes the word, and wakes some of those who sleep on it. */
void binlog_futex_wake(uint32_t *word, int count);

extern PyObject *state_error; /* binlog.errors.StateError */
extern PyTypeObject *guard_type, *change_type, *commit_wait_type; /* of the one module there is */

#endif
