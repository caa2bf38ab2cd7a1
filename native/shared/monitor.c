/* Monitor: a mutex, and the threads that wait for what happens under it.
 *
 * It is for what threading.Lock and threading.Condition are for.  Those of Python's library that are written in Python may
 * be left locked for ever if a signal handler raises within them (threading.Condition.__enter__, threading.Event.set), and
 * Condition.wait may come back without the lock that it gave away.  Here each is one call of C, between whose steps no
 * handler runs; and a thread that has it, and would wait for itself, is refused: a signal handler that makes another call.
 */
#include "guard.h"

#include <limits.h>
#include <math.h>

struct monitor {
    PyObject_HEAD
    struct mutex mutex;
    uint32_t notified; /* what those sleep on who wait; it changes with each notice */
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
        PyErr_SetString(PyExc_RuntimeError, "only a thread that has a monitor can wait for it");
        return NULL;
    }
    timeout.tv_sec = (time_t)seconds;
    timeout.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
    mutex_release(&self->mutex);
    binlog_futex_sleep(&self->notified, seen, seconds < 0 ? NULL : &timeout);
    mutex_take_back(&self->mutex);
    if (PyErr_CheckSignals() != 0) /* who handles that has it, as after any call in the block */
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
    {"held", monitor_get_held, NULL, "Whether a thread has it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef monitor_methods[] = {
    {"__enter__", monitor_enter, METH_NOARGS, "Take it.  Raises: StateError if this thread has it."},
    {"__exit__", monitor_exit, METH_VARARGS, "Give it back."},
    {"wait", monitor_wait, METH_VARARGS, "wait([seconds]): give it away until a notice, or for so long, less than 0 for ever; it may return early."},
    {"notify", monitor_notify, METH_VARARGS, "notify([count]): wake so many of those who wait, or all."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot monitor_slots[] = {
    {Py_tp_doc, "A mutex, and those who wait for what happens under it."},
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
