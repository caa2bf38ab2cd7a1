/* CallGuard: a lock around each call of an object, which any thread, or a signal handler within a call, may close.
 *
 * It is in C because a signal handler's exception could leave a lock taken that is taken and released by lines of Python
 * (guard.c has the facts).  The lock itself is Python's RLock: with gevent and eventlet it is theirs, which other greenlets
 * wait for; and a thread may take it again, because a signal handler may make another call of the same object.
 *
 * Invariant: the object is closed only by a thread that has the lock, and never within a call: the kernel may give the
 * number of a closed descriptor to another file, from which the call would then read.
 */
#include <Python.h>

#include "binlog.h"

#include <pthread.h>

struct call_guard {
    PyObject_HEAD
    PyObject *object;    /* has wake() and close() */
    PyObject *error;     /* the class of the exception that a call of a closed object raises, and its text */
    PyObject *text;
    PyObject *make_lock; /* threading.RLock */
    PyObject *lock;
    uint32_t depth;      /* how many calls, one within the other, its holder is in */
    uint64_t holder;     /* its pthread_t, if `depth` */
    uint32_t generation; /* of forks */
    char closed;
};

static int call_guard_init(PyObject *self_object, PyObject *args, PyObject *named)
{
    struct call_guard *self = (struct call_guard *)self_object;
    PyObject *object, *error, *text, *make_lock;

    (void)named;
    if (!PyArg_ParseTuple(args, "OOUO:CallGuard", &object, &error, &text, &make_lock))
        return -1;
    if (self->object) {
        PyErr_SetString(PyExc_ValueError, "a CallGuard is initialized once");
        return -1;
    }
    self->generation = binlog_fork_generation();
    self->lock = PyObject_CallNoArgs(make_lock);
    if (!self->lock)
        return -1;
    self->object = Py_NewRef(object);
    self->error = Py_NewRef(error);
    self->text = Py_NewRef(text);
    self->make_lock = Py_NewRef(make_lock);
    return 0;
}

/* In a forked child, makes a new lock, unless the thread that forked has it: the other threads do not exist. */
static int renew_after_fork(struct call_guard *self)
{
    uint32_t generation = binlog_fork_generation();

    if (self->generation == generation)
        return 0;
    if (self->depth && self->holder == binlog_fork_thread()) {
        self->generation = generation;
        return 0;
    }
    PyObject *lock = PyObject_CallNoArgs(self->make_lock);
    if (!lock)
        return -1;
    if (self->generation != generation) { /* else another thread made one meanwhile */
        PyObject *before = self->lock;
        self->generation = generation;
        self->depth = 0;
        self->lock = lock;
        lock = before;
    }
    Py_DECREF(lock);
    return 0;
}

static int call_method(PyObject *object, const char *method)
{
    PyObject *result = PyObject_CallMethod(object, method, NULL);

    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int enter(struct call_guard *self)
{
    if (!self->object) {
        PyErr_SetString(PyExc_ValueError, "a CallGuard is initialized before it is used");
        return -1;
    }
    if (renew_after_fork(self) != 0 || call_method(self->lock, "acquire") != 0)
        return -1;
    self->depth++;
    self->holder = (uint64_t)pthread_self();
    return 0;
}

/* Releases the lock; closes the object before, if the outermost call has ended and the guard is closed. */
static int leave(struct call_guard *self)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;

    if (!self->depth && self->closed && call_method(self->object, "close") != 0)
        PyErr_Fetch(&type, &value, &trace);
    if (call_method(self->lock, "release") != 0) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return -1;
    }
    PyErr_Restore(type, value, trace);
    return type ? -1 : 0;
}

static PyObject *call_guard_exit(PyObject *object, PyObject *args)
{
    struct call_guard *self = (struct call_guard *)object;

    (void)args;
    if (!self->depth) {
        PyErr_SetString(PyExc_RuntimeError, "no call has begun");
        return NULL;
    }
    self->depth--;
    if (leave(self) != 0)
        return NULL;
    Py_RETURN_FALSE;
}

static PyObject *call_guard_enter(PyObject *object, PyObject *unused)
{
    struct call_guard *self = (struct call_guard *)object;

    (void)unused;
    if (enter(self) != 0)
        return NULL;
    if (!self->closed)
        Py_RETURN_NONE;
    self->depth--;
    if (leave(self) == 0)
        PyErr_SetObject(self->error, self->text);
    return NULL;
}

/* Takes the lock, and wakes the call that has it again and again: it may not have been asleep yet when it was woken. */
static int take_from_call(struct call_guard *self)
{
    PyObject *acquire = PyObject_GetAttrString(self->lock, "acquire"), *none = PyTuple_New(0);
    PyObject *timeout = Py_BuildValue("{s:d}", "timeout", 0.01);
    int taken = acquire && none && timeout ? 0 : -1;

    while (taken == 0) {
        PyObject *result = PyObject_Call(acquire, none, timeout);
        taken = result ? PyObject_IsTrue(result) : -1;
        Py_XDECREF(result);
        if (taken == 0 && call_method(self->object, "wake") != 0)
            taken = -1;
    }
    Py_XDECREF(acquire);
    Py_XDECREF(none);
    Py_XDECREF(timeout);
    return taken;
}

static PyObject *call_guard_close(PyObject *object, PyObject *unused)
{
    struct call_guard *self = (struct call_guard *)object;

    (void)unused;
    if (!self->object)
        Py_RETURN_NONE;
    self->closed = 1;
    if (renew_after_fork(self) != 0 || take_from_call(self) < 0 || leave(self) != 0)
        return NULL;
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
    return PyBool_FromLong(((struct call_guard *)object)->depth > 0);
}

static int call_guard_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct call_guard *self = (struct call_guard *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->object);
    Py_VISIT(self->error);
    Py_VISIT(self->make_lock);
    Py_VISIT(self->lock);
    return 0;
}

static int call_guard_clear(PyObject *object)
{
    struct call_guard *self = (struct call_guard *)object;

    Py_CLEAR(self->object);
    Py_CLEAR(self->error);
    Py_CLEAR(self->make_lock);
    Py_CLEAR(self->lock);
    return 0;
}

static void call_guard_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    call_guard_clear(object);
    Py_CLEAR(((struct call_guard *)object)->text);
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
    {Py_tp_doc, "CallGuard(object, error, text, make_lock): a lock around each call of an object.  object: has wake(), which ends the wait of another thread, and close().  error, text: what a call of a closed object raises.  make_lock: returns an RLock."},
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
