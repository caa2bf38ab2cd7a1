/* What a Session inherits from: what the compiled code may do by itself, and who is at it.
 *
 * Python arms it with addresses of what it has opened, and with what keeps that alive; quick_append.c does the rest.
 * The mutex is Python's, as is the order in which it and the locks are taken: see binlog/log/session.py.
 */
#include "quick_session.h"

#include <structmember.h>

#include <limits.h>
#include <stddef.h>

static PyTypeObject *session_type;
static PyObject *no_wait; /* the arguments of an acquire() that does not wait */

/* Whether this thread is now the one of the session that is in a call; -1 with an error. */
int session_enter(struct session *session)
{
    if (session->busy || !session->file || !session->acquire || PyList_Size(session->inside) != 0)
        return 0;
    PyObject *got = PyObject_Call(session->acquire, no_wait, NULL);
    int entered = got ? PyObject_IsTrue(got) : -1;
    Py_XDECREF(got);
    if (entered > 0)
        session->busy = 1;
    return entered;
}

/* Whatever error is set stays so. */
void session_leave(struct session *session)
{
    PyObject *type, *value, *trace;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* what took their place is not in this limited API */
    PyErr_Fetch(&type, &value, &trace);
    session->busy = 0;
    PyObject *done = PyObject_CallNoArgs(session->release);
    if (!done)
        PyErr_WriteUnraisable(session->release);
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
#pragma GCC diagnostic pop
}

/* Whether it is a session, and was made. */
int session_made(PyObject *object)
{
    return PyObject_TypeCheck(object, session_type) && ((struct session *)object)->inside;
}

static int session_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct session *self = (struct session *)object;
    PyObject *mutex, *inside;
    unsigned long generation;

    if (named && PyDict_Size(named) > 0) {
        PyErr_SetString(PyExc_TypeError, "a QuickSession takes no named arguments");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OO!k:QuickSession", &mutex, &PyList_Type, &inside, &generation))
        return -1;
    if (self->inside) {
        PyErr_SetString(PyExc_RuntimeError, "a QuickSession is made once");
        return -1;
    }
    PyObject *release = PyObject_GetAttrString(mutex, "release");
    PyObject *acquire = release ? PyObject_GetAttrString(mutex, "acquire") : NULL;
    if (!acquire) {
        Py_XDECREF(release);
        return -1;
    }
    self->acquire = acquire;
    self->release = release;
    self->inside = Py_NewRef(inside);
    self->limit = LLONG_MAX;
    self->generation = (uint32_t)generation;
    return 0;
}

static void set_file(struct session *self, unsigned long long file, unsigned long long own, PyObject *kept)
{
    PyObject *before = self->file_kept;
    self->file = (struct binlog_file *)(uintptr_t)file;
    self->own = (struct binlog_append *)(uintptr_t)own;
    self->file_kept = Py_XNewRef(kept);
    Py_XDECREF(before);
}

static void set_segment(struct session *self, unsigned long long segment, PyObject *kept)
{
    PyObject *before = self->segment_kept;
    self->segment = (struct binlog_segment *)(uintptr_t)segment;
    self->segment_kept = Py_XNewRef(kept);
    Py_XDECREF(before);
}

static PyObject *session_arm(PyObject *object, PyObject *args)
{
    unsigned long long file, own;
    PyObject *kept;
    if (!PyArg_ParseTuple(args, "KKO:_arm", &file, &own, &kept))
        return NULL;
    set_file((struct session *)object, file, own, kept);
    Py_RETURN_NONE;
}

static PyObject *session_disarm(PyObject *object, PyObject *unused)
{
    (void)unused;
    set_file((struct session *)object, 0, 0, NULL);
    Py_RETURN_NONE;
}

static PyObject *session_stage_in(PyObject *object, PyObject *args)
{
    unsigned long long segment;
    PyObject *kept;
    if (!PyArg_ParseTuple(args, "KO:_stage_in", &segment, &kept))
        return NULL;
    set_segment((struct session *)object, segment, kept);
    Py_RETURN_NONE;
}

static int session_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct session *self = (struct session *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->acquire);
    Py_VISIT(self->release);
    Py_VISIT(self->inside);
    Py_VISIT(self->file_kept);
    Py_VISIT(self->segment_kept);
    return 0;
}

static int session_clear(PyObject *object)
{
    struct session *self = (struct session *)object;
    set_file(self, 0, 0, NULL);
    set_segment(self, 0, NULL);
    Py_CLEAR(self->acquire);
    Py_CLEAR(self->release);
    Py_CLEAR(self->inside);
    return 0;
}

static void session_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    session_clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef session_methods[] = {
    {"_arm", session_arm, METH_VARARGS,
     "Let records go straight to this file: addresses of a binlog_file and a binlog_append, and what keeps them alive."},
    {"_disarm", session_disarm, METH_NOARGS, "Let no record go straight to a file."},
    {"_stage_in", session_stage_in, METH_VARARGS,
     "Stage records in this segment: its address, 0 for none, and what keeps it alive."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef session_members[] = {
    {"_busy", T_BOOL, offsetof(struct session, busy), 0, "Whether a thread is in a call."},
    {"_background", T_BOOL, offsetof(struct session, background), 0,
     "Whether somebody sees to records that no caller waits for."},
    {"_limit", T_LONGLONG, offsetof(struct session, limit), 0,
     "What ends here or beyond has brought the file to a limit: `_within_limits` is called with it."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot session_slots[] = {
    {Py_tp_doc, "What a session lets the compiled code do by itself.\n\n"
                "Made of its mutex, a list while which is empty appends are made here, and the fork generation."},
    {Py_tp_init, session_init},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_traverse, session_traverse},
    {Py_tp_clear, session_clear},
    {Py_tp_methods, session_methods},
    {Py_tp_members, session_members},
    {0, NULL},
};

static PyType_Spec session_spec = {
    .name = "binlog._calls.QuickSession",
    .basicsize = sizeof(struct session),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = session_slots,
};

int session_add_type(PyObject *module)
{
    if (!session_type)
        session_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &session_spec, NULL);
    if (!no_wait)
        no_wait = Py_BuildValue("(O)", Py_False);
    return session_type && no_wait ? PyModule_AddType(module, session_type) : -1;
}
