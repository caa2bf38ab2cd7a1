/* CommitGroup: threads that wait until something is on the disk, of which one leads: it writes and syncs for all of them.
 *
 * `with group.turn(until) as leads` gives a leader True; a follower gets False, once all up to `until` was committed.
 * Invariants:
 * - There is one leader at a time.  All fields change under the interpreter's lock, which waits give away.
 * - A leader says with `begin` how much it takes.  If an exception ends its turn before that is committed, nobody knows
 *   what is on the disk, so it poisons the guard.
 * - No wake-up is lost: a follower reads its word before it gives the interpreter's lock away, and the leader changes it
 *   before its turn ends.  Followers that the leader's commit covers sleep on one word, and are woken together; those
 *   that came later sleep on another, and one of them is woken to lead next.  A follower that leaves wakes one more if
 *   nobody leads.  What it waited for is committed by the next leader, whenever that comes.
 */
#include "binlog.h"
#include "guard.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

struct group {
    PyObject_HEAD
    struct guard *guard;
    uint64_t written, durable; /* up to here all was written, and synced */
    uint64_t target;           /* what the leader takes */
    pthread_t leader;          /* if `leading` */
    char leading;
    char begun, syncing; /* the leader has begun to write all up to `target`, and syncs it */
    uint32_t round;
    uint32_t words[2];   /* followers of this round sleep on words[round & 1], those of the next on the other one */
    uint32_t waiting[2]; /* how many do */
};

struct turn {
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
        PyErr_SetString(PyExc_ValueError, "a CommitGroup is made once, of a Guard");
        return -1;
    }
    self->guard = (struct guard *)Py_NewRef(guard);
    self->written = self->durable = self->target = reached;
    return 0;
}

/* Has one of those who wait lead, if nobody does. */
static void wake_next(struct group *self)
{
    int word = self->round & 1;

    if (!self->leading && self->waiting[word])
        binlog_futex_wake(&self->words[word], 1);
}

static int is_reached(const struct group *self, const struct turn *turn)
{
    return (turn->synced ? self->durable : self->written) >= turn->until;
}

/* Waits until something has changed; 0, or -1 with what a signal handler raised. */
static int follow(struct group *self, const struct turn *turn)
{
    int covered = turn->until <= self->target && (self->syncing || !turn->synced);
    int word = (self->round + !covered) & 1;

    self->waiting[word]++;
    int result = binlog_futex_wait(&self->words[word]);
    self->waiting[word]--;
    return result;
}

static PyObject *turn_enter(PyObject *object, PyObject *unused)
{
    struct turn *self = (struct turn *)object;
    struct group *group = self->group;

    (void)unused;
    while (!is_reached(group, self)) {
        if (guard_check(group->guard) != 0)
            return NULL;
        if (!group->leading) {
            group->leading = self->leads = 1;
            group->leader = pthread_self();
            Py_RETURN_TRUE;
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

static PyObject *turn_exit(PyObject *object, PyObject *args)
{
    struct turn *self = (struct turn *)object;
    struct group *group = self->group;
    PyObject *type, *error, *trace;

    if (!PyArg_ParseTuple(args, "OOO:__exit__", &type, &error, &trace))
        return NULL;
    if (!self->leads)
        Py_RETURN_FALSE;
    if (error != Py_None && group->begun)
        guard_poison(group->guard, error);
    int word = group->round & 1;
    self->leads = group->leading = group->begun = group->syncing = 0;
    group->round++;
    binlog_futex_wake(&group->words[word], INT_MAX);
    if (group->guard->failure)
        binlog_futex_wake(&group->words[!word], INT_MAX);
    else
        wake_next(group);
    Py_RETURN_FALSE;
}

static void turn_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)((struct turn *)object)->group);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *group_turn(PyObject *object, PyObject *args)
{
    unsigned long long until;
    int synced = 1;
    struct turn *turn;

    if (!PyArg_ParseTuple(args, "K|p:turn", &until, &synced))
        return NULL;
    turn = (struct turn *)((allocfunc)PyType_GetSlot(turn_type, Py_tp_alloc))(turn_type, 0);
    if (turn) {
        turn->group = (struct group *)Py_NewRef(object);
        turn->until = until;
        turn->synced = (char)synced;
    }
    return (PyObject *)turn;
}

static PyObject *group_begin(PyObject *object, PyObject *args)
{
    struct group *self = (struct group *)object;
    unsigned long long target;
    int synced;

    if (!PyArg_ParseTuple(args, "Kp:begin", &target, &synced))
        return NULL;
    self->target = target;
    self->begun = 1;
    self->syncing = (char)synced;
    Py_RETURN_NONE;
}

static void reach(struct group *self)
{
    self->begun = 0;
    self->written = self->target;
    if (self->syncing)
        self->durable = self->target;
}

static PyObject *group_reach(PyObject *object, PyObject *unused)
{
    (void)unused;
    reach((struct group *)object);
    Py_RETURN_NONE;
}

/* A failed write is told as a negative errno, a failed sync as a positive one. */
static PyObject *group_commit(PyObject *object, PyObject *args)
{
    struct group *self = (struct group *)object;
    Py_buffer data;
    int fd, result;
    long long offset;

    if (!PyArg_ParseTuple(args, "iy*L:commit", &fd, &data, &offset))
        return NULL;
    int syncing = self->syncing;
    Py_BEGIN_ALLOW_THREADS
    result = binlog_write(fd, data.buf, (size_t)data.len, offset);
    if (result == 0 && syncing)
        while ((result = fdatasync(fd) != 0 ? errno : 0) == EINTR)
            continue;
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (result == 0)
        reach(self);
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
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef turn_methods[] = {
    {"__enter__", turn_enter, METH_NOARGS, "Lead, and get True; or return False once it was committed.  Raises: PoisonedError."},
    {"__exit__", turn_exit, METH_VARARGS, "Let another lead, and wake those who waited."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot turn_slots[] = {
    {Py_tp_doc, "A turn of a CommitGroup."},
    {Py_tp_dealloc, turn_dealloc},
    {Py_tp_methods, turn_methods},
    {0, NULL},
};

PyType_Spec turn_spec = {
    .name = "binlog._calls.Turn",
    .basicsize = sizeof(struct turn),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = turn_slots,
};

static PyMethodDef group_methods[] = {
    {"turn", group_turn, METH_VARARGS,
     "turn(until, synced=True): a block that waits until all up to `until` is synced, or written; True if it leads."},
    {"begin", group_begin, METH_VARARGS, "begin(target, synced): the leader writes, and maybe syncs, all up to `target`."},
    {"commit", group_commit, METH_VARARGS,
     "commit(fd, data, offset): write all that the leader takes, and sync it if it said so; 0, or -errno of the write, "
     "or errno of the sync."},
    {"reach", group_reach, METH_NOARGS, "The leader has written, and maybe synced, all that it takes."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef group_properties[] = {
    {"written", group_get_written, NULL, "Up to here all was written.", NULL},
    {"durable", group_get_durable, NULL, "Up to here all was synced.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_doc, "CommitGroup(guard, reached=0): one sync for all who wait.  Places count up from `reached`."},
    {Py_tp_init, group_init},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_traverse, group_traverse},
    {Py_tp_methods, group_methods},
    {Py_tp_getset, group_properties},
    {0, NULL},
};

PyType_Spec commit_group_spec = {
    .name = "binlog._calls.CommitGroup",
    .basicsize = sizeof(struct group),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = group_slots,
};
