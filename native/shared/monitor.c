/* Monitor: a mutex with a condition variable.
 *
 * It replaces threading.Lock and threading.Condition.  The classes of Python's library that are written in Python may stay
 * locked forever if a signal handler raises within them (threading.Condition.__enter__, threading.Event.set), and
 * Condition.wait may return without the lock that it released.  Here each operation is one call of C, in which no handler
 * runs.  A thread that holds the monitor cannot take it again, as a signal handler would that makes another call.
 */
#include "guard.h"

#include <limits.h>
#include <math.h>

struct monitor {
    PyObject_HEAD
    struct mutex mutex;
    uint32_t notified; /* the futex that waiting threads sleep on; it changes with each notice */
};

static PyObject *monitor_enter(PyObject *object, PyObject *unused)
{
    struct monitor *self = (struct monitor *)object;

    (void)unused;
    if (mutex_is_held_here(&self->mutex)) {
        PyErr_SetString(state_error, "this thread is within a call of the same object");
        return NULL;
    }
    return mutex_take(&self->mutex) == 0 ? Py_NewRef(object) : NULL;
}

static PyObject *monitor_exit(PyObject *object, PyObject *args)
{
    (void)args;
    mutex_release(&((struct monitor *)object)->mutex);
    Py_RETURN_FALSE;
}

static PyObject *monitor_wait(PyObject *object, PyObject *args)
{
    struct monitor *self = (struct monitor *)object;
    double seconds = -1;
    uint32_t seen = self->notified;
    struct timespec timeout;

    if (!PyArg_ParseTuple(args, "|d:wait", &seconds))
        return NULL;
    if (!mutex_is_held_here(&self->mutex)) {
        PyErr_SetString(PyExc_RuntimeError, "only a thread that holds a monitor can wait for it");
        return NULL;
    }
    timeout.tv_sec = (time_t)seconds;
    timeout.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
    mutex_release(&self->mutex);
    binlog_futex_sleep(&self->notified, seen, seconds < 0 ? NULL : &timeout);
    mutex_take_uninterrupted(&self->mutex);
    if (PyErr_CheckSignals() != 0) /* the caller holds the mutex then, as after any call in the block */
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *monitor_notify(PyObject *object, PyObject *args)
{
    int count = INT_MAX;

    if (!PyArg_ParseTuple(args, "|i:notify", &count))
        return NULL;
    binlog_futex_wake(&((struct monitor *)object)->notified, count);
    Py_RETURN_NONE;
}

static PyObject *monitor_get_held(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct monitor *)object)->mutex.held);
}

static PyGetSetDef monitor_properties[] = {
    {"held", monitor_get_held, NULL, "Whether a thread holds it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef monitor_methods[] = {
    {"__enter__", monitor_enter, METH_NOARGS, "Take the mutex.  Raises: StateError if this thread holds it."},
    {"__exit__", monitor_exit, METH_VARARGS, "Release the mutex."},
    {"wait", monitor_wait, METH_VARARGS, "wait([seconds]): release the mutex until a notice or the timeout, forever if that is negative; it may return early."},
    {"notify", monitor_notify, METH_VARARGS, "notify([count]): wake that number of waiting threads, or all."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot monitor_slots[] = {
    {Py_tp_doc, "A mutex with a condition variable."},
    {Py_tp_methods, monitor_methods},
    {Py_tp_getset, monitor_properties},
    {0, NULL},
};

PyType_Spec monitor_spec = {
    .name = "binlog._calls.Monitor",
    .basicsize = sizeof(struct monitor),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = monitor_slots,
};
