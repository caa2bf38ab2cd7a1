/* Writer.append in the common case, without Python: what a Writer inherits from.
 *
 * Whatever is not the common case goes to Python, with nothing done: `_append_slowly` of the writer.  What an append
 * that was begun came to, where it is not simply done, is for `_finish_quick` of the session.
 *
 * Invariants
 * - The interpreter's lock is held all the time, but for the one call that commits.  So nothing changes between a look
 *   at a session and what is done by it, and no signal handler runs in here but in what is called of Python.
 * - Who commits holds the session's mutex and has set `busy`, and gives both back whatever Python raises meanwhile.  A
 *   Ref is made after that: making it may collect garbage, and so run anything.
 * - What the call works on is referred to for as long as it takes, whatever becomes of the session or the writer.
 */
#include "quick_append.h"

#include "pairs.h"
#include "quick_session.h"

struct writer {
    PyObject_HEAD
    PyObject *ref_type; /* a subclass of tuple */
    PyObject *mode_type;
    PyObject *session; /* NULL where there is none */
    Py_ssize_t bytes_max;
    int mode;
};

/* A Ref of what Python gave: number and offset.  Takes it. */
static PyObject *ref_of(const struct writer *self, PyObject *place)
{
    PyObject *number, *offset, *ref = NULL;
    if (place && PyArg_ParseTuple(place, "OO", &number, &offset))
        ref = pair(self->ref_type, Py_NewRef(number), Py_NewRef(offset));
    Py_XDECREF(place);
    return ref;
}

/* Commits through a session that was entered, and leaves it: where the record lies; or -1, and then `*place` is what
 * Python says of it: a place, None for nothing done, or NULL for an error. */
static int64_t commit(struct session *session, PyObject *record, Py_ssize_t size, int mode, uint32_t *number,
                      PyObject **place)
{
    struct binlog_file *file = session->file;
    struct binlog_append *own = session->own;
    struct binlog_segment *segment = session->segment;
    PyObject *file_kept = Py_NewRef(session->file_kept), *segment_kept = Py_XNewRef(session->segment_kept);
    const uint8_t *data = (const uint8_t *)PyBytes_AsString(record);
    int64_t offset;

    Py_BEGIN_ALLOW_THREADS
    offset = binlog_append_record(file, segment, own, data, (size_t)size, mode);
    Py_END_ALLOW_THREADS
    *number = own->number;
    if (offset < 0) {
        *place = PyObject_CallMethod((PyObject *)session, "_finish_quick", "O", record);
        if (!*place && own->ticket >= 0)
            binlog_abandon(segment, own); /* an exception came before Python could: an entry awaited fills the ring */
    }
    session_leave(session);
    Py_DECREF(file_kept);
    Py_XDECREF(segment_kept);
    return offset;
}

/* A Ref; or NULL with an error, or without one where nothing was done. */
static PyObject *append_quickly(const struct writer *self, struct session *session, PyObject *record, Py_ssize_t size,
                                int mode)
{
    PyObject *place = NULL;
    uint32_t number;
    int entered = session_enter(session);

    if (entered <= 0)
        return NULL;
    int64_t offset = commit(session, record, size, mode, &number, &place);
    if (offset >= 0 && offset + size + 4 < session->limit)
        return pair(self->ref_type, PyLong_FromUnsignedLong(number), PyLong_FromLongLong(offset));
    if (offset >= 0)
        place = Py_BuildValue("(kL)", (unsigned long)number, (long long)offset);
    if (place == Py_None) {
        Py_DECREF(place);
        return NULL;
    }
    if (place) {
        PyObject *before = place;
        place = PyObject_CallMethod((PyObject *)session, "_within_limits", "On", before, size + 4);
        Py_DECREF(before);
    }
    return ref_of(self, place);
}

static PyObject *append_slowly(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *values = PyTuple_New(count), *named = NULL, *answer = NULL;
    PyObject *slowly = values ? PyObject_GetAttrString(self, "_append_slowly") : NULL;
    Py_ssize_t named_count = names ? PyTuple_Size(names) : 0;

    for (Py_ssize_t i = 0; slowly && i < count; i++)
        PyTuple_SetItem(values, i, Py_NewRef(args[i]));
    if (slowly && named_count > 0 && (named = PyDict_New()) != NULL) {
        for (Py_ssize_t i = 0; named && i < named_count; i++)
            if (PyDict_SetItem(named, PyTuple_GetItem(names, i), args[count + i]) != 0)
                Py_CLEAR(named);
    }
    if (slowly && (named || named_count == 0))
        answer = PyObject_Call(slowly, values, named);
    Py_XDECREF(slowly);
    Py_XDECREF(named);
    Py_XDECREF(values);
    return answer;
}

/* An enum binlog_mode; 0 where Python is to look at the arguments. */
static int mode_of(const struct writer *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 1 || !PyBytes_CheckExact(args[0]))
        return 0;
    if (!names || PyTuple_Size(names) == 0)
        return self->mode;
    if (PyTuple_Size(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "mode") != 0)
        return 0;
    if (args[1] == Py_None)
        return self->mode;
    return (PyObject *)Py_TYPE(args[1]) == self->mode_type ? (int)PyLong_AsLong(args[1]) : 0;
}

static PyObject *writer_append(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct writer *self = (struct writer *)object;
    struct session *session = (struct session *)self->session;
    int mode = mode_of(self, args, count, names);
    Py_ssize_t size = mode ? PyBytes_Size(args[0]) : 0;

    if (!mode || !session || size > self->bytes_max || session->generation != binlog_fork_generation() ||
        (mode != BINLOG_SYNC && !session->background))
        return append_slowly(object, args, count, names);
    if (mode == BINLOG_STAGE && session->segment &&
        binlog_stage_record(session->segment, (const uint8_t *)PyBytes_AsString(args[0]), (size_t)size) == 0)
        Py_RETURN_NONE;
    Py_INCREF((PyObject *)session);
    PyObject *ref = append_quickly(self, session, args[0], size, mode == BINLOG_SYNC ? BINLOG_SYNC : BINLOG_FLUSH);
    Py_DECREF((PyObject *)session);
    if (!ref)
        return PyErr_Occurred() ? NULL : append_slowly(object, args, count, names);
    if (mode != BINLOG_STAGE)
        return ref;
    Py_DECREF(ref);
    Py_RETURN_NONE;
}

static int writer_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct writer *self = (struct writer *)object;
    PyObject *ref_type, *mode;
    Py_ssize_t bytes_max;

    if (named && PyDict_Size(named) > 0) {
        PyErr_SetString(PyExc_TypeError, "a QuickWriter takes no named arguments");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O!O!n:QuickWriter", &PyType_Type, &ref_type, &PyLong_Type, &mode, &bytes_max))
        return -1;
    long value = PyLong_AsLong(mode);
    if (!PyType_IsSubtype((PyTypeObject *)ref_type, &PyTuple_Type) || value < BINLOG_SYNC || value > BINLOG_STAGE) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a ref is a kind of tuple, and a mode is one of three");
        return -1;
    }
    if (self->ref_type) {
        PyErr_SetString(PyExc_RuntimeError, "a QuickWriter is made once");
        return -1;
    }
    self->ref_type = Py_NewRef(ref_type);
    self->mode_type = Py_NewRef((PyObject *)Py_TYPE(mode));
    self->mode = (int)value;
    self->bytes_max = bytes_max;
    return 0;
}

static PyObject *writer_session(PyObject *object, void *unused)
{
    struct writer *self = (struct writer *)object;
    (void)unused;
    return Py_NewRef(self->session ? self->session : Py_None);
}

static int writer_set_session(PyObject *object, PyObject *value, void *unused)
{
    struct writer *self = (struct writer *)object;
    PyObject *before = self->session;
    (void)unused;
    if (value == Py_None)
        value = NULL;
    else if (!value || !session_made(value) || !self->ref_type) {
        PyErr_SetString(PyExc_TypeError, "a session is a QuickSession or None, and its writer was made");
        return -1;
    }
    self->session = Py_XNewRef(value);
    Py_XDECREF(before);
    return 0;
}

static int writer_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct writer *self = (struct writer *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->ref_type);
    Py_VISIT(self->mode_type);
    Py_VISIT(self->session);
    return 0;
}

static int writer_clear(PyObject *object)
{
    struct writer *self = (struct writer *)object;
    Py_CLEAR(self->session);
    Py_CLEAR(self->mode_type);
    Py_CLEAR(self->ref_type);
    return 0;
}

static void writer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    writer_clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef writer_methods[] = {
    {"append", (PyCFunction)(void (*)(void))writer_append, METH_FASTCALL | METH_KEYWORDS,
     "append($self, /, record, *, mode=None)\n--\n\n"
     "Append one record and return where it lies; None in Mode.STAGE, where it has no place yet.\n\n"
     "record: 0..record_bytes_max bytes, stored exactly as given.\n"
     "Durable on return in Mode.SYNC; see docs/durability.md for the others.\n"
     "Blocks: for the group in progress, then for one sync.  Ctrl-C meanwhile ends the call; the record may appear.\n"
     "Raises: FullError, ClosedError, BusyError, PoisonedError, CorruptError, AccessError, UnknownOutcomeError."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef writer_properties[] = {
    {"_session", writer_session, writer_set_session, "The session through which records go, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "Appends one record as quickly as can be, and has `_append_slowly` do what is not the common case.\n\n"
                "Made of the type of refs, the usual mode, and the size of the largest record appended here."},
    {Py_tp_init, writer_init},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_methods, writer_methods},
    {Py_tp_getset, writer_properties},
    {0, NULL},
};

static PyType_Spec writer_spec = {
    .name = "binlog._calls.QuickWriter",
    .basicsize = sizeof(struct writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = writer_slots,
};

int binlog_add_quick_types(PyObject *module)
{
    PyObject *writer = PyType_FromModuleAndSpec(module, &writer_spec, NULL);
    int added = writer ? PyModule_AddType(module, (PyTypeObject *)writer) : -1;
    Py_XDECREF(writer);
    return added == 0 ? session_add_type(module) : added;
}
