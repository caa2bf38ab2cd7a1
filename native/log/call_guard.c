/* CallGuard: a mutex around each call of an object, which any thread, or a signal handler within a call, may close.
 *
 * It is in C for the reason that guard.c gives: a signal handler that raises cannot leave it locked.  Unlike Monitor, a thread
 * that holds it may take it again, because a signal handler may make another call of the same object.
 *
 * Invariant: files are closed only by a thread that holds the mutex, and never within a call: the kernel may give the number
 * of a closed descriptor to another file, from which the call would then read.
 */
#include "binlog.h"
#include "guard.h"

#include <errno.h>

struct call_guard {
    PyObject_HEAD
    struct mutex mutex;
    uint32_t depth; /* of the calls of the thread that holds the mutex */
    uint32_t ended; /* the futex that `close` sleeps on; it changes at the end of an outermost call */
    uint32_t generation;
    char closed;
    PyObject *used;  /* has wake() and close() */
    PyObject *error; /* the class of the exception that a call of a closed object raises, and its text */
    PyObject *text;
};

/* For how long `close` waits before it wakes the call again, which may only have been about to sleep. */
static const struct timespec wake_interval = {.tv_nsec = 10000000};

static int call_guard_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct call_guard *self = (struct call_guard *)object;
    PyObject *used, *error, *text;

    (void)named;
    if (!PyArg_ParseTuple(args, "OOU:CallGuard", &used, &error, &text))
        return -1;
    if (self->used) {
        PyErr_SetString(PyExc_ValueError, "a CallGuard is initialized once");
        return -1;
    }
    self->used = Py_NewRef(used);
    self->error = Py_NewRef(error);
    self->text = Py_NewRef(text);
    self->generation = binlog_fork_generation();
    return 0;
}

/* In a forked child, the other threads do not exist, so none of them holds the mutex or waits for it. */
static void renew_after_fork(struct call_guard *self)
{
    if (self->generation == binlog_fork_generation())
        return;
    self->generation = binlog_fork_generation();
    if (mutex_is_held_here(&self->mutex)) {
        self->mutex.first = self->mutex.next = (struct waiters){0};
    } else {
        self->mutex = (struct mutex){0};
        self->depth = 0;
    }
}

static int call_used(struct call_guard *self, const char *method)
{
    if (!self->used) /* the garbage collector cleared it */
        return 0;
    PyObject *result = PyObject_CallMethod(self->used, method, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int leave(struct call_guard *self)
{
    int result = 0;

    if (!mutex_is_held_here(&self->mutex))
        return 0;
    if (self->depth == 1 && self->closed)
        result = call_used(self, "close");
    if (--self->depth == 0) {
        mutex_release(&self->mutex);
        binlog_futex_wake(&self->ended, 1);
    }
    return result;
}

static int enter(struct call_guard *self)
{
    renew_after_fork(self);
    if (!mutex_is_held_here(&self->mutex) && mutex_take(&self->mutex) != 0)
        return -1;
    self->depth++;
    return 0;
}

static PyObject *call_guard_enter(PyObject *object, PyObject *unused)
{
    struct call_guard *self = (struct call_guard *)object;

    (void)unused;
    if (enter(self) != 0)
        return NULL;
    if (!self->closed)
        Py_RETURN_NONE;
    if (leave(self) == 0)
        PyErr_SetObject(self->error, self->text);
    return NULL;
}

static PyObject *call_guard_exit(PyObject *object, PyObject *args)
{
    (void)args;
    if (leave((struct call_guard *)object) != 0)
        return NULL;
    Py_RETURN_FALSE;
}

static PyObject *call_guard_close(PyObject *object, PyObject *unused)
{
    struct call_guard *self = (struct call_guard *)object;

    (void)unused;
    self->closed = 1;
    renew_after_fork(self);
    if (!mutex_is_held_here(&self->mutex)) {
        while (self->mutex.held) {
            uint32_t seen = self->ended;
            if (call_used(self, "wake") != 0)
                return NULL;
            if (self->mutex.held && binlog_futex_sleep(&self->ended, seen, &wake_interval) == EINTR && PyErr_CheckSignals() != 0)
                return NULL;
        }
        if (enter(self) != 0 || leave(self) != 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *call_guard_get_closed(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct call_guard *)object)->closed);
}

static PyObject *call_guard_get_held(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct call_guard *)object)->mutex.held);
}

static int call_guard_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct call_guard *)object)->used);
    return 0;
}

static int call_guard_clear(PyObject *object)
{
    Py_CLEAR(((struct call_guard *)object)->used);
    return 0;
}

static void call_guard_dealloc(PyObject *object)
{
    struct call_guard *self = (struct call_guard *)object;
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    call_guard_clear(object);
    Py_CLEAR(self->error);
    Py_CLEAR(self->text);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef call_guard_methods[] = {
    {"__enter__", call_guard_enter, METH_NOARGS, "Begin a call; a thread may begin one within another.  Raises: the error, if it is closed."},
    {"__exit__", call_guard_exit, METH_VARARGS, "End a call; if it is the outermost one, and `close` was called meanwhile, close the object."},
    {"close", call_guard_close, METH_NOARGS,
     "Refuse further calls and close the object: within a call at its end, otherwise after waking the call of another thread and waiting for it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef call_guard_properties[] = {
    {"closed", call_guard_get_closed, NULL, "Whether `close` was called.", NULL},
    {"held", call_guard_get_held, NULL, "Whether a thread is within a call.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot call_guard_slots[] = {
    {Py_tp_doc, "CallGuard(used, error, text): a mutex around each call of an object.  used: has wake(), which ends the wait of another thread, and close().  error, text: what a call of a closed object raises."},
    {Py_tp_init, call_guard_init},
    {Py_tp_dealloc, call_guard_dealloc},
    {Py_tp_traverse, call_guard_traverse},
    {Py_tp_clear, call_guard_clear},
    {Py_tp_methods, call_guard_methods},
    {Py_tp_getset, call_guard_properties},
    {0, NULL},
};

PyType_Spec call_guard_spec = {
    .name = "binlog._calls.CallGuard",
    .basicsize = sizeof(struct call_guard),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = call_guard_slots,
};
