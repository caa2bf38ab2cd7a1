/* Guard: a mutex for changes of an object that the threads of a process share, which a broken-off change poisons.
 *
 * CPython runs signal handlers between two bytecodes, never inside a C function, and never between entering a `with` block
 * and its first bytecode (Python/ceval.c).  So __exit__ releases the mutex that __enter__ took, even if a handler raises.
 * If an exception ends a block that has set `changing`, the change is incomplete, and the guard is poisoned: all later
 * blocks are refused.
 *
 * `bind` ties a guard to a process and a file.  Then no thread can enter it in a forked child, or after the program closed
 * the descriptor of that file.
 *
 * Change, from `guard.change()`, is a block that excludes no thread and poisons the guard too: if an exception ends it that
 * is not harmless, or that is a PoisonedError.  Threads may share one, and enter it again.
 *
 * Invariant: a thread takes the mutex only while it holds the interpreter's lock, which it releases to wait.  A pthread mutex
 * would pass to a waiter that does not have the interpreter's lock yet, and the running thread would have to wait for it at
 * once, so that each change took two thread switches.
 */
#include "guard.h"

#include "binlog.h"

#include <errno.h>
#include <linux/futex.h>
#include <structmember.h>
#include <sys/syscall.h>
#include <unistd.h>

void binlog_futex_wake(uint32_t *word, int count)
{
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

int binlog_futex_sleep(uint32_t *word, uint32_t seen, const struct timespec *timeout)
{
    int reason;

    Py_BEGIN_ALLOW_THREADS
    reason = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0) == 0 ? 0 : errno;
    Py_END_ALLOW_THREADS
    return reason;
}

int binlog_futex_wait(uint32_t *word)
{
    uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

    return binlog_futex_sleep(word, seen, NULL) == EINTR ? PyErr_CheckSignals() : 0;
}

static void wake_one(struct mutex *self)
{
    struct waiters *waiters = self->next.count ? &self->next : &self->first;

    if (self->held || waiters->woken || !waiters->count)
        return;
    waiters->woken = 1;
    binlog_futex_wake(&waiters->word, 1);
}

int mutex_is_held_here(const struct mutex *self)
{
    return self->held && pthread_equal(self->owner, pthread_self());
}

/* Takes it; if `interruptible`, it may return -1 with the exception of a signal handler. */
static int take(struct mutex *self, int interruptible)
{
    struct waiters *waiters = &self->first;

    while (self->held || (waiters == &self->first && self->next.count)) {
        waiters->count++;
        int reason = binlog_futex_sleep(&waiters->word, waiters->word, NULL);
        waiters->count--;
        waiters->woken = 0;
        if (interruptible && reason == EINTR) {
            wake_one(self); /* the handler may take long, or take the mutex itself */
            if (PyErr_CheckSignals() != 0)
                return -1;
        }
        if (self->held)
            waiters = &self->next;
    }
    self->owner = pthread_self();
    self->held = 1;
    return 0;
}

int mutex_take(struct mutex *self)
{
    return take(self, 1);
}

void mutex_take_uninterrupted(struct mutex *self)
{
    take(self, 0);
}

void mutex_release(struct mutex *self)
{
    self->held = 0;
    wake_one(self);
}

static int guard_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct guard *self = (struct guard *)object;
    PyObject *name, *poisoned, *reentered, *harmless;

    (void)named;
    if (!PyArg_ParseTuple(args, "UOOO!:Guard", &name, &poisoned, &reentered, &PyTuple_Type, &harmless))
        return -1;
    if (self->is_initialized) {
        PyErr_SetString(PyExc_ValueError, "a Guard is initialized once");
        return -1;
    }
    self->is_initialized = 1;
    self->name = Py_NewRef(name);
    self->poisoned = Py_NewRef(poisoned);
    self->reentered = Py_NewRef(reentered);
    self->harmless = Py_NewRef(harmless);
    return 0;
}

/* Raises PoisonedError, with the failure as its cause. */
static void raise_poisoned(struct guard *self)
{
    PyObject *type, *error, *trace, *failure = Py_NewRef(self->failure);
    /* The text of a KeyboardInterrupt is empty, so show its repr. */
    const char *form = PyErr_GivenExceptionMatches(failure, PyExc_Exception) ? "%U takes no more changes until it is reopened: %S"
                                                                             : "%U takes no more changes until it is reopened: %R";

    PyErr_Format(self->poisoned, form, self->name, failure);
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (error)
        PyException_SetCause(error, Py_NewRef(failure));
    PyErr_Restore(type, error, trace);
    Py_DECREF(failure);
}

void guard_raise_reentered(struct guard *self)
{
    PyErr_Format(self->reentered, "this thread is within a call of %U", self->name);
}

int guard_check(struct guard *self)
{
    if (!self->failure)
        return 0;
    raise_poisoned(self);
    return -1;
}

void guard_poison(struct guard *self, PyObject *failure)
{
    if (!self->failure)
        self->failure = Py_NewRef(failure);
}

int guard_is_in_its_process(const struct guard *self)
{
    return !self->is_bound || self->generation == binlog_fork_generation();
}

void guard_raise_lost(struct guard *self)
{
    PyErr_Format(self->reentered, "%U belongs to the parent process, or the program closed its descriptors", self->name);
}

/* Checked before taking the mutex, which a forked child may find held forever. */
static int is_ours(const struct guard *self)
{
    return guard_is_in_its_process(self) &&
           (!self->is_bound || self->fd < 0 || binlog_fd_is(self->fd, self->device, self->inode));
}

static PyObject *guard_bind(PyObject *object, PyObject *args)
{
    struct guard *self = (struct guard *)object;
    unsigned long long device, inode;

    if (!PyArg_ParseTuple(args, "iKK:bind", &self->fd, &device, &inode))
        return NULL;
    self->device = device;
    self->inode = inode;
    self->generation = binlog_fork_generation();
    self->is_bound = 1;
    Py_RETURN_NONE;
}

static PyObject *guard_enter(PyObject *object, PyObject *unused)
{
    struct guard *self = (struct guard *)object;

    (void)unused;
    if (!is_ours(self)) {
        guard_raise_lost(self);
        return NULL;
    }
    if (!self->is_initialized || mutex_is_held_here(&self->mutex)) {
        guard_raise_reentered(self);
        return NULL;
    }
    if (mutex_take(&self->mutex) != 0)
        return NULL;
    self->changing = 0;
    if (guard_check(self) != 0) {
        mutex_release(&self->mutex);
        return NULL;
    }
    return Py_NewRef(object);
}

static PyObject *guard_exit(PyObject *object, PyObject *args)
{
    struct guard *self = (struct guard *)object;
    PyObject *type, *error, *trace;

    if (!PyArg_ParseTuple(args, "OOO:__exit__", &type, &error, &trace))
        return NULL;
    if (error != Py_None && self->changing)
        guard_poison(self, error);
    mutex_release(&self->mutex);
    Py_RETURN_FALSE;
}

static PyObject *guard_fail(PyObject *object, PyObject *failure)
{
    guard_poison((struct guard *)object, failure);
    Py_RETURN_NONE;
}

static PyObject *guard_do_check(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (guard_check((struct guard *)object) != 0)
        return NULL;
    Py_RETURN_NONE;
}

struct change {
    PyObject_HEAD
    struct guard *guard;
};

static PyObject *guard_change(PyObject *object, PyObject *unused)
{
    struct change *change = (struct change *)((allocfunc)PyType_GetSlot(change_type, Py_tp_alloc))(change_type, 0);

    (void)unused;
    if (change)
        change->guard = (struct guard *)Py_NewRef(object);
    return (PyObject *)change;
}

static PyObject *change_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (guard_check(((struct change *)object)->guard) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *change_exit(PyObject *object, PyObject *args)
{
    struct guard *guard = ((struct change *)object)->guard;
    PyObject *type, *error, *trace;

    if (!PyArg_ParseTuple(args, "OOO:__exit__", &type, &error, &trace))
        return NULL;
    if (error != Py_None && (!PyErr_GivenExceptionMatches(error, guard->harmless) ||
                             PyErr_GivenExceptionMatches(error, guard->poisoned)))
        guard_poison(guard, error);
    Py_RETURN_FALSE;
}

/* The failure has frames that may have references to the guarded object, and so to the guard. */
static int change_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct change *)object)->guard);
    return 0;
}

static void change_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    Py_XDECREF((PyObject *)((struct change *)object)->guard);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef change_methods[] = {
    {"__enter__", change_enter, METH_NOARGS, "Raises: PoisonedError if the guard is poisoned."},
    {"__exit__", change_exit, METH_VARARGS, "Poison the guard if an exception has left the change incomplete."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot change_slots[] = {
    {Py_tp_doc, "A change of what a Guard guards; it takes no lock."},
    {Py_tp_dealloc, change_dealloc},
    {Py_tp_traverse, change_traverse},
    {Py_tp_methods, change_methods},
    {0, NULL},
};

PyType_Spec change_spec = {
    .name = "binlog._calls.Change",
    .basicsize = sizeof(struct change),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = change_slots,
};

static PyObject *guard_get_failure(PyObject *object, void *unused)
{
    struct guard *self = (struct guard *)object;
    (void)unused;
    return Py_NewRef(self->failure ? self->failure : Py_None);
}

static PyObject *guard_get_held(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(mutex_is_held_here(&((struct guard *)object)->mutex));
}

static PyObject *guard_is_ours(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_ours((struct guard *)object));
}

static int guard_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct guard *self = (struct guard *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->failure);
    return 0;
}

static int guard_clear(PyObject *object)
{
    struct guard *self = (struct guard *)object;
    Py_CLEAR(self->failure);
    return 0;
}

static void guard_dealloc(PyObject *object)
{
    struct guard *self = (struct guard *)object;
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    guard_clear(object);
    Py_CLEAR(self->name);
    Py_CLEAR(self->poisoned);
    Py_CLEAR(self->reentered);
    Py_CLEAR(self->harmless);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef guard_methods[] = {
    {"__enter__", guard_enter, METH_NOARGS, "Take the mutex.  Raises: PoisonedError; StateError if this thread holds it, or in another process than the bound one."},
    {"__exit__", guard_exit, METH_VARARGS, "Release the mutex; poison the guard if an exception ended a change."},
    {"change", guard_change, METH_NOARGS, "Return a block that poisons the guard too, and takes no lock."},
    {"bind", guard_bind, METH_VARARGS,
     "bind(fd, device, inode): refuse entry in a forked child, and, unless fd is -1, after fd is no longer open on that file."},
    {"fail", guard_fail, METH_O, "Poison the guard with an exception, unless it is poisoned: all later blocks are refused."},
    {"check", guard_do_check, METH_NOARGS, "Raise PoisonedError if the guard is poisoned."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef guard_members[] = {
    {"changing", T_BOOL, offsetof(struct guard, changing), 0, "Set it while an exception would leave a change incomplete."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef guard_properties[] = {
    {"failure", guard_get_failure, NULL, "The exception that poisoned it, or None.", NULL},
    {"held", guard_get_held, NULL, "Whether this thread holds the mutex.", NULL},
    {"is_ours", guard_is_ours, NULL, "Whether this process may enter it; True before `bind`.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot guard_slots[] = {
    {Py_tp_doc, "Guard(name, poisoned, reentered, harmless): a mutex for changes, which an incomplete change poisons."},
    {Py_tp_init, guard_init},
    {Py_tp_dealloc, guard_dealloc},
    {Py_tp_traverse, guard_traverse},
    {Py_tp_clear, guard_clear},
    {Py_tp_methods, guard_methods},
    {Py_tp_members, guard_members},
    {Py_tp_getset, guard_properties},
    {0, NULL},
};

PyType_Spec guard_spec = {
    .name = "binlog._calls.Guard",
    .basicsize = sizeof(struct guard),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = guard_slots,
};
