/* CommitGroup: group commit for the threads of one process.
 *
 * `append` copies bytes to a buffer, with the guard held.  The `with` block `group.lead_or_wait(until) as leads` gets False
 * once everything up to `until` is committed, by this thread or another one.  If no thread leads, its `__enter__` does: in
 * one call it takes the buffer, writes it to the group's file, syncs that without the interpreter's lock, and wakes the
 * followers.  Meanwhile another buffer fills.  The block gets True if `__enter__` cannot commit, and then the block must: the
 * group has no file, `by_caller` is set, the path names another file, `until` was not appended, or the write or sync failed.
 *
 * Invariants:
 * - There is one leader at a time.  All fields change under the interpreter's lock, which a waiting thread releases; the
 *   fields of the buffer that fills also change under the guard only.
 * - A leader announces with `begin` how much it commits.  If an exception ends its block before the commit is finished, the
 *   contents of the disk are unknown, so the exception poisons the guard.
 * - No wake-up is lost: a follower reads its word before it releases the interpreter's lock, and the leader changes the word
 *   before it stops leading.  Followers whose bytes the leader commits sleep on one word, and are woken together.  Later ones
 *   sleep on the other word, and one of them is woken to lead next.  A follower that leaves wakes one more if no thread
 *   leads.  The next leader commits its bytes, whenever there is one.
 * - While there is a leader, no thread raises that the guard is poisoned, because the caller might then close the file.
 */
#include "binlog.h"
#include "commit_buffer.h"
#include "guard.h"

#include <errno.h>
#include <limits.h>
#include <structmember.h>
#include <sys/stat.h>
#include <unistd.h>

struct group {
    PyObject_HEAD
    struct guard *guard;
    uint64_t written, durable; /* everything up to here was written, and synced */
    uint64_t target;           /* the leader commits everything up to here */
    pthread_t leader;          /* if `leading` */
    char leading;
    char begun, syncing; /* the leader has begun to write up to `target`, and will sync it */
    uint32_t round;
    uint32_t words[2];   /* followers of this round sleep on words[round & 1], those of the next round on the other */
    uint32_t waiting[2]; /* the number of threads that sleep on each */
    struct commit_buffer filling, spare;
    int fd;                 /* the group's file, or -1 */
    uint64_t device, inode; /* of the file, compared before each write */
    PyObject *path;         /* as bytes; must name the file before each write; or NULL */
    uint64_t appended;      /* everything up to here was appended */
    char by_caller;         /* the block of the next leader must commit */
    int failed; /* the error of a write or sync within `lead_or_wait`, as `commit` returns it; then nothing more is written */
};

struct commit_wait {
    PyObject_HEAD
    struct group *group;
    uint64_t until;
    char synced, leads;
};

static int group_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct group *self = (struct group *)object;
    PyObject *guard;
    unsigned long long reached = 0;

    (void)named;
    if (!PyArg_ParseTuple(args, "O|K:CommitGroup", &guard, &reached))
        return -1;
    if (self->guard || !PyObject_TypeCheck(guard, guard_type)) {
        PyErr_SetString(PyExc_ValueError, "a CommitGroup takes a Guard, and is initialized once");
        return -1;
    }
    self->guard = (struct guard *)Py_NewRef(guard);
    self->written = self->durable = self->target = self->appended = reached;
    self->fd = -1;
    return 0;
}

/* Wakes a follower to lead, if no thread leads. */
static void wake_next(struct group *self)
{
    int word = self->round & 1;

    if (!self->leading && self->waiting[word])
        binlog_futex_wake(&self->words[word], 1);
}

static int is_reached(const struct group *self, const struct commit_wait *wait)
{
    return (wait->synced ? self->durable : self->written) >= wait->until;
}

/* Waits for a change; 0, or -1 with the exception of a signal handler. */
static int follow(struct group *self, const struct commit_wait *wait)
{
    int covered = wait->until <= self->target && (self->syncing || !wait->synced);
    int word = (self->round + !covered) & 1;

    self->waiting[word]++;
    int result = binlog_futex_wait(&self->words[word]);
    self->waiting[word]--;
    return result;
}

static void wake_all(struct group *self, int word)
{
    if (self->waiting[word])
        binlog_futex_wake(&self->words[word], INT_MAX);
}

/* Stops leading, and wakes the followers. */
static void end_leading(struct group *self)
{
    int word = self->round & 1;

    self->leading = self->begun = self->syncing = 0;
    self->round++;
    wake_all(self, word);
    if (self->guard->failure)
        wake_all(self, !word);
    else
        wake_next(self);
}

static void begin(struct group *self, uint64_t target, int synced)
{
    self->target = target;
    self->begun = 1;
    self->syncing = (char)synced;
}

static void finish(struct group *self)
{
    self->begun = 0;
    self->written = self->target;
    if (self->syncing)
        self->durable = self->target;
}

/* Writes, and syncs if `begin` asked for it; 0, -errno of the write, or errno of the sync. */
static int write_and_sync(const struct group *self, int fd, const uint8_t *data, size_t bytes, int64_t offset)
{
    int result, syncing = self->syncing;

    Py_BEGIN_ALLOW_THREADS
    result = bytes ? binlog_write(fd, data, bytes, offset) : 0;
    if (result == 0 && syncing)
        while ((result = fdatasync(fd) != 0 ? errno : 0) == EINTR)
            continue;
    Py_END_ALLOW_THREADS
    return result;
}

/* Commits the buffer, as the leader: 1, 0 if the block must do it, or -1 with an exception. */
static int commit_buffer(struct group *self, int synced)
{
    struct guard *guard = self->guard;

    if (self->failed)
        return 0;
    if (!binlog_fd_is(self->fd, self->device, self->inode)) {
        guard_raise_lost(guard);
        return -1;
    }
    if (mutex_is_held_here(&guard->mutex)) {
        guard_raise_reentered(guard);
        return -1;
    }
    mutex_take_uninterrupted(&guard->mutex); /* no signal handler runs in between: it might wait for a thread that waits for this commit */
    if (guard_check(guard) != 0 || self->by_caller ||
        (self->path && !binlog_path_is(PyBytes_AsString(self->path), self->device, self->inode))) {
        mutex_release(&guard->mutex);
        return guard->failure ? -1 : 0;
    }
    struct commit_buffer buffer = self->filling;
    int fd = self->fd;
    self->filling = self->spare;
    self->spare = (struct commit_buffer){0};
    begin(self, self->appended, synced);
    mutex_release(&guard->mutex);
    self->failed = write_and_sync(self, fd, buffer.bytes, buffer.used + buffer.zeros, buffer.offset);
    commit_buffer_reset(&buffer);
    self->spare = buffer;
    if (self->failed)
        return 0;
    finish(self);
    return 1;
}

static PyObject *commit_wait_enter(PyObject *object, PyObject *unused)
{
    struct commit_wait *self = (struct commit_wait *)object;
    struct group *group = self->group;

    (void)unused;
    if (!guard_is_in_its_process(group->guard)) {
        guard_raise_lost(group->guard);
        return NULL;
    }
    while (!is_reached(group, self)) {
        if (!group->leading) {
            if (guard_check(group->guard) != 0) {
                wake_next(group); /* so that all followers learn of it, one after the other */
                return NULL;
            }
            group->leading = 1;
            group->leader = pthread_self();
            int done = group->fd >= 0 && self->until <= group->appended ? commit_buffer(group, self->synced) : 0;
            if (done == 0) {
                self->leads = 1;
                Py_RETURN_TRUE;
            }
            end_leading(group);
            if (done < 0)
                return NULL;
            continue;
        }
        if (pthread_equal(group->leader, pthread_self())) {
            guard_raise_reentered(group->guard);
            return NULL;
        }
        if (follow(group, self) != 0) {
            wake_next(group);
            return NULL;
        }
    }
    wake_next(group);
    Py_RETURN_FALSE;
}

static PyObject *commit_wait_exit(PyObject *object, PyObject *args)
{
    struct commit_wait *self = (struct commit_wait *)object;
    struct group *group = self->group;
    PyObject *type, *error, *trace;

    if (!PyArg_ParseTuple(args, "OOO:__exit__", &type, &error, &trace))
        return NULL;
    if (!self->leads)
        Py_RETURN_FALSE;
    if (error != Py_None && group->begun)
        guard_poison(group->guard, error);
    self->leads = 0;
    end_leading(group);
    /* A failed commit poisons, so this caller gets PoisonedError like the others. */
    if (PyErr_GivenExceptionMatches(error, group->guard->harmless) && guard_check(group->guard) != 0)
        return NULL;
    Py_RETURN_FALSE;
}

static void commit_wait_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)((struct commit_wait *)object)->group);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *group_lead_or_wait(PyObject *object, PyObject *args)
{
    unsigned long long until;
    int synced = 1;
    struct commit_wait *wait;

    if (!PyArg_ParseTuple(args, "K|p:lead_or_wait", &until, &synced))
        return NULL;
    wait = (struct commit_wait *)((allocfunc)PyType_GetSlot(commit_wait_type, Py_tp_alloc))(commit_wait_type, 0);
    if (wait) {
        wait->group = (struct group *)Py_NewRef(object);
        wait->until = until;
        wait->synced = (char)synced;
    }
    return (PyObject *)wait;
}

static PyObject *group_open(PyObject *object, PyObject *args)
{
    struct group *self = (struct group *)object;
    struct stat status = {0};
    PyObject *path = NULL;
    int fd;

    if (!PyArg_ParseTuple(args, "i|O!:open", &fd, &PyBytes_Type, &path))
        return NULL;
    if (self->filling.used) {
        PyErr_SetString(PyExc_ValueError, "the bytes in the buffer belong to another file");
        return NULL;
    }
    if (fd >= 0 && fstat(fd, &status) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_XDECREF(self->path);
    self->path = path ? Py_NewRef(path) : NULL;
    self->device = status.st_dev;
    self->inode = status.st_ino;
    self->fd = fd;
    Py_RETURN_NONE;
}

static PyObject *group_append(PyObject *object, PyObject *args)
{
    struct group *self = (struct group *)object;
    Py_buffer data;
    Py_ssize_t zeros = 0;
    long long offset;
    unsigned long long until;

    if (!PyArg_ParseTuple(args, "y*LK|n:append", &data, &offset, &until, &zeros))
        return NULL;
    int result = commit_buffer_append(&self->filling, &data, offset, zeros);
    PyBuffer_Release(&data);
    if (result != 0)
        return NULL;
    self->appended = until;
    Py_RETURN_NONE;
}

static PyObject *group_take_pending(PyObject *object, PyObject *unused)
{
    (void)unused;
    return commit_buffer_take(&((struct group *)object)->filling);
}

static PyObject *group_take(PyObject *object, PyObject *args)
{
    struct group *self = (struct group *)object;
    int synced;

    if (!PyArg_ParseTuple(args, "p:take", &synced))
        return NULL;
    PyObject *taken = commit_buffer_take(&self->filling);
    if (taken) {
        begin(self, self->appended, synced);
        self->by_caller = 0;
    }
    return taken;
}

static PyObject *group_begin(PyObject *object, PyObject *args)
{
    unsigned long long target;
    int synced;

    if (!PyArg_ParseTuple(args, "Kp:begin", &target, &synced))
        return NULL;
    begin((struct group *)object, target, synced);
    Py_RETURN_NONE;
}

static PyObject *group_finish(PyObject *object, PyObject *unused)
{
    (void)unused;
    finish((struct group *)object);
    Py_RETURN_NONE;
}

static PyObject *group_commit(PyObject *object, PyObject *args)
{
    struct group *self = (struct group *)object;
    Py_buffer data;
    int fd;
    long long offset;

    if (!PyArg_ParseTuple(args, "iy*L:commit", &fd, &data, &offset))
        return NULL;
    int result = write_and_sync(self, fd, data.buf, (size_t)data.len, offset);
    PyBuffer_Release(&data);
    if (result == 0)
        finish(self);
    return PyLong_FromLong(result);
}

static PyObject *group_get_written(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct group *)object)->written);
}

static PyObject *group_get_durable(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct group *)object)->durable);
}

static PyObject *group_get_pending(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct group *)object)->filling.used);
}

static int group_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct group *)object)->guard);
    return 0;
}

static void group_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)((struct group *)object)->guard);
    Py_XDECREF(((struct group *)object)->path);
    commit_buffer_free(&((struct group *)object)->filling);
    commit_buffer_free(&((struct group *)object)->spare);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef commit_wait_methods[] = {
    {"__enter__", commit_wait_enter, METH_NOARGS,
     "Commit, or wait for another thread's commit; return False.  Return True if the block must commit.  Raises: PoisonedError."},
    {"__exit__", commit_wait_exit, METH_VARARGS,
     "Stop leading, and wake the followers.  Raises: PoisonedError in place of an error with which the commit failed."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot commit_wait_slots[] = {
    {Py_tp_doc, "The block of CommitGroup.lead_or_wait."},
    {Py_tp_dealloc, commit_wait_dealloc},
    {Py_tp_methods, commit_wait_methods},
    {0, NULL},
};

PyType_Spec commit_wait_spec = {
    .name = "binlog._calls.CommitWait",
    .basicsize = sizeof(struct commit_wait),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = commit_wait_slots,
};

static PyMethodDef group_methods[] = {
    {"lead_or_wait", group_lead_or_wait, METH_VARARGS,
     "lead_or_wait(until, synced=True): a block that waits until everything up to `until` is synced, or written; True if it must commit."},
    {"open", group_open, METH_VARARGS,
     "open(fd[, path]): set the file of the bytes that are appended from now on.  path: if it names another file at the time of "
     "the write, the block must commit."},
    {"append", group_append, METH_VARARGS,
     "append(data, offset, until, zeros=0): copy bytes to the buffer, with the guard held.  offset: of the bytes in the file; they "
     "must follow those in the buffer.  until: the new value of `appended`.  zeros: the number of zeros to write after the last "
     "bytes."},
    {"take_pending", group_take_pending, METH_NOARGS, "Empty the buffer; return its offset and bytes.  The caller holds the guard."},
    {"take", group_take, METH_VARARGS,
     "take(synced): begin to commit everything that was appended, in the leader's block, with the guard held; return the buffer's "
     "offset and bytes.  Sets `by_caller` to False."},
    {"begin", group_begin, METH_VARARGS, "begin(target, synced): announce that the leader writes, and if `synced` syncs, everything up to `target`."},
    {"commit", group_commit, METH_VARARGS,
     "commit(fd, data, offset): write the leader's bytes, and sync them if `begin` asked for it; return 0, -errno of the write, "
     "or errno of the sync."},
    {"finish", group_finish, METH_NOARGS, "Record that the leader has written everything that it announced, and synced it if it announced that."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef group_properties[] = {
    {"written", group_get_written, NULL, "Everything up to here was written.", NULL},
    {"durable", group_get_durable, NULL, "Everything up to here was synced.", NULL},
    {"pending", group_get_pending, NULL, "The number of bytes in the buffer.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef group_members[] = {
    {"appended", T_ULONGLONG, offsetof(struct group, appended), 0, "Everything up to here was appended."},
    {"by_caller", T_BOOL, offsetof(struct group, by_caller), 0,
     "Whether the block of the next leader must commit.  Set it with the guard held."},
    {"failed", T_INT, offsetof(struct group, failed), READONLY,
     "The error of a write or sync within `lead_or_wait`, as `commit` returns it; or 0."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_doc, "CommitGroup(guard, reached=0): one sync for all threads that wait.  Positions count up from `reached`."},
    {Py_tp_init, group_init},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_traverse, group_traverse},
    {Py_tp_methods, group_methods},
    {Py_tp_members, group_members},
    {Py_tp_getset, group_properties},
    {0, NULL},
};

PyType_Spec commit_group_spec = {
    .name = "binlog._calls.CommitGroup",
    .basicsize = sizeof(struct group),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = group_slots,
};
