/* The type FastPath: appends one record without Python in the common case, and knows which thread of a writer is in a call.
 *
 * `append` does everything or nothing, or returns an append that it began and that Python finishes.  Python makes every other
 * call of the writer in a `with` statement of the same object.
 *
 * Invariants
 * - The interpreter's lock is held throughout, except during the commit.  So nothing changes between a check of this object and
 *   the action that relies on it, and a signal handler runs only within a call of Python code.
 * - `owner` is set exactly while the mutex is held for a call.  Both change in one call of C, with no signal handler between: an
 *   exception of a handler never leaves `owner` set without its call.
 * - References keep the objects of a call alive for as long as it takes, even if this object is changed meanwhile.
 * - The mutex is Python's own RLock, called through its methods, because a library may have replaced it, as gevent does.
 */
#include <Python.h>

#include <structmember.h>

#include "guard.h"
#include "binlog.h"
#include "typed_tuple.h"

#include <stddef.h>

static PyObject *no_wait;     /* the arguments of an acquire() that does not wait */
PyObject *state_error;

struct fast_path {
    PyObject_HEAD
    PyObject *ref_type; /* a subclass of tuple */
    PyObject *modes[BINLOG_MODE_LAST + 1]; /* Python's, in the order of enum binlog_mode */
    PyObject *acquire; /* methods of the mutex */
    PyObject *release;
    PyObject *begun;          /* Python's Append, which keeps `file` and `request` alive */
    struct binlog_file *file; /* NULL if Python must append */
    struct binlog_append *request;
    PyObject *area_kept;
    struct binlog_area *area;
    Py_ssize_t bytes_max;
    unsigned long owner; /* the thread that is in a call, 0 for none */
    /* Counters, which change with the interpreter's lock. */
    uint64_t records[BINLOG_MODE_LAST + 1], bytes[BINLOG_MODE_LAST + 1]; /* appended, by mode */
    uint64_t waits, wait_ns, wait_ns_max; /* for another thread of the writer */
    uint64_t busy, unknown; /* appends that ended with such an error */
    uint32_t generation;
    int mode;
    char has_background; /* a thread handles records that no caller waits for */
};

static void leave(struct fast_path *self)
{
    self->owner = 0;
    PyObject *done = PyObject_CallNoArgs(self->release);
    if (!done)
        PyErr_WriteUnraisable(self->release);
    Py_XDECREF(done);
}

static void set_file(struct fast_path *self, unsigned long long file, unsigned long long request, PyObject *begun)
{
    PyObject *before = self->begun;
    self->file = (struct binlog_file *)(uintptr_t)file;
    self->request = (struct binlog_append *)(uintptr_t)request;
    self->begun = Py_XNewRef(begun);
    Py_XDECREF(before);
}

static void set_area(struct fast_path *self, unsigned long long area, PyObject *kept)
{
    PyObject *before = self->area_kept;
    self->area = (struct binlog_area *)(uintptr_t)area;
    self->area_kept = Py_XNewRef(kept);
    Py_XDECREF(before);
}

static void count_append(struct fast_path *self, int mode, uint64_t records, uint64_t bytes)
{
    self->records[mode] += records;
    self->bytes[mode] += bytes;
}

/* Appends while this thread is in a call; returns a Ref, the append that was begun, or False with nothing done. */
static PyObject *commit(struct fast_path *self, const uint8_t *data, size_t size, int mode)
{
    int counted = mode;
    if (mode != BINLOG_SYNC)
        mode = BINLOG_FLUSH; /* the group commit knows these two */
    struct binlog_file *file = self->file;
    struct binlog_append *request = self->request;
    struct binlog_area *area = self->area;
    PyObject *begun = Py_NewRef(self->begun), *area_kept = Py_XNewRef(self->area_kept);

    Py_BEGIN_ALLOW_THREADS
    binlog_append_record(file, area, request, data, size, mode);
    Py_END_ALLOW_THREADS
    int done = request->answer == 0, untouched = request->answer == BINLOG_NEEDS_SLOW_PATH && request->ticket < 0;
    uint32_t number = request->number;
    uint64_t offset = request->offset;
    if (!done && !untouched && self->begun == begun) /* the next append needs another request */
        set_file(self, 0, 0, NULL);
    if (done)
        count_append(self, counted, 1, size);
    leave(self);
    /* Releasing objects may run any code, and so may creating one, which may collect garbage. */
    Py_XDECREF(area_kept);
    if (!done && !untouched)
        return begun;
    Py_DECREF(begun);
    return done ? pair_tuple(self->ref_type, PyLong_FromUnsignedLong(number), PyLong_FromUnsignedLongLong(offset))
                : Py_NewRef(Py_False);
}

/* An enum binlog_mode; 0 if Python must check it. */
static int mode_of(const struct fast_path *self, PyObject *mode)
{
    if (mode == Py_None)
        return self->mode;
    for (int value = BINLOG_SYNC; value <= BINLOG_MODE_LAST; value++)
        if (mode == self->modes[value])
            return value;
    return 0;
}

/* Whether the fast path takes this time limit: an append with a limit may only stage, which waits for nothing. */
static int is_plain_timeout(PyObject *timeout)
{
    return PyFloat_CheckExact(timeout) && PyFloat_AsDouble(timeout) >= 0;
}

static PyObject *fast_append(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct fast_path *self = (struct fast_path *)object;
    int mode = count == 3 && PyBytes_CheckExact(args[0]) ? mode_of(self, args[1]) : 0;
    char *data;
    Py_ssize_t size;

    if (!mode || PyBytes_AsStringAndSize(args[0], &data, &size) != 0 || size > self->bytes_max ||
        (mode != BINLOG_SYNC && !self->has_background))
        Py_RETURN_FALSE;
    int limited = args[2] != Py_None;
    if (mode == BINLOG_STAGE && self->area && (!limited || is_plain_timeout(args[2])) &&
        binlog_stage_record(self->area, (uint8_t *)data, (size_t)size) == 0) {
        count_append(self, mode, 1, (size_t)size);
        Py_RETURN_NONE;
    }
    if (limited || self->generation != binlog_fork_generation())
        Py_RETURN_FALSE;
    if (self->owner || !self->file || binlog_is_holding())
        Py_RETURN_FALSE;
    PyObject *got = PyObject_Call(self->acquire, no_wait, NULL);
    int entered = got ? PyObject_IsTrue(got) : -1;
    Py_XDECREF(got);
    if (entered < 0)
        return NULL;
    if (entered == 0)
        Py_RETURN_FALSE;
    self->owner = PyThread_get_thread_ident();
    Py_INCREF(object);
    PyObject *answer = commit(self, (uint8_t *)data, (size_t)size, mode);
    Py_DECREF(object);
    return answer;
}

static PyObject *refuse(const struct fast_path *self)
{
    PyErr_SetString(state_error, self->owner ? "the writer was entered again from within one of its own calls"
                                             : "this thread is within a call of another writer");
    return NULL;
}

static PyObject *fast_enter(PyObject *object, PyObject *unused)
{
    struct fast_path *self = (struct fast_path *)object;

    (void)unused;
    if (binlog_is_holding()) /* it could wait for its own lock forever */
        return refuse(self);
    PyObject *got = PyObject_CallNoArgs(self->acquire);
    if (!got)
        return NULL;
    Py_DECREF(got);
    if (self->owner) { /* an RLock admits this thread again: a signal handler or __del__ in the middle of a call */
        got = PyObject_CallNoArgs(self->release);
        Py_XDECREF(got);
        return got ? refuse(self) : NULL;
    }
    self->owner = PyThread_get_thread_ident();
    Py_RETURN_NONE;
}

static PyObject *fast_exit(PyObject *object, PyObject *args)
{
    (void)args;
    leave((struct fast_path *)object);
    Py_RETURN_NONE;
}

static PyObject *fast_arm(PyObject *object, PyObject *args)
{
    unsigned long long file, request;
    PyObject *begun;
    if (!PyArg_ParseTuple(args, "KKO:arm", &file, &request, &begun))
        return NULL;
    set_file((struct fast_path *)object, file, request, begun);
    Py_RETURN_NONE;
}

static PyObject *fast_disarm(PyObject *object, PyObject *unused)
{
    (void)unused;
    set_file((struct fast_path *)object, 0, 0, NULL);
    Py_RETURN_NONE;
}

static PyObject *fast_stage_in(PyObject *object, PyObject *args)
{
    unsigned long long area;
    PyObject *kept;
    if (!PyArg_ParseTuple(args, "KO:stage_in", &area, &kept))
        return NULL;
    set_area((struct fast_path *)object, area, kept);
    Py_RETURN_NONE;
}

static PyObject *fast_count_append(PyObject *object, PyObject *args)
{
    int mode;
    unsigned long long records, bytes;
    if (!PyArg_ParseTuple(args, "iKK:count_append", &mode, &records, &bytes))
        return NULL;
    if (mode >= BINLOG_SYNC && mode <= BINLOG_MODE_LAST)
        count_append((struct fast_path *)object, mode, records, bytes);
    Py_RETURN_NONE;
}

static PyObject *fast_appended(PyObject *object, PyObject *args)
{
    struct fast_path *self = (struct fast_path *)object;
    int mode;
    if (!PyArg_ParseTuple(args, "i:appended", &mode))
        return NULL;
    int is_mode = mode >= BINLOG_SYNC && mode <= BINLOG_MODE_LAST;
    return Py_BuildValue("KK", is_mode ? self->records[mode] : 0, is_mode ? self->bytes[mode] : 0);
}

static PyObject *fast_count_wait(PyObject *object, PyObject *args)
{
    struct fast_path *self = (struct fast_path *)object;
    unsigned long long wait_ns;
    if (!PyArg_ParseTuple(args, "K:count_wait", &wait_ns))
        return NULL;
    self->waits++;
    self->wait_ns += wait_ns;
    if (wait_ns > self->wait_ns_max)
        self->wait_ns_max = wait_ns;
    Py_RETURN_NONE;
}

static PyObject *fast_count_busy(PyObject *object, PyObject *unused)
{
    (void)unused;
    ((struct fast_path *)object)->busy++;
    Py_RETURN_NONE;
}

static PyObject *fast_count_unknown(PyObject *object, PyObject *unused)
{
    (void)unused;
    ((struct fast_path *)object)->unknown++;
    Py_RETURN_NONE;
}

static int fast_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct fast_path *self = (struct fast_path *)object;
    PyObject *mutex, *ref_type, *mode;

    (void)named;
    if (!PyArg_ParseTuple(args, "OO!O!n:FastPath", &mutex, &PyType_Type, &ref_type, &PyLong_Type, &mode, &self->bytes_max))
        return -1;
    long value = PyLong_AsLong(mode);
    if (self->ref_type || !PyType_IsSubtype((PyTypeObject *)ref_type, &PyTuple_Type) || value < BINLOG_SYNC ||
        value > BINLOG_MODE_LAST) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a FastPath is made once; a ref is a kind of tuple, and a mode is a Mode");
        return -1;
    }
    self->acquire = PyObject_GetAttrString(mutex, "acquire");
    self->release = PyObject_GetAttrString(mutex, "release");
    if (!self->acquire || !self->release)
        return -1;
    self->ref_type = Py_NewRef(ref_type);
    for (long number = BINLOG_SYNC; number <= BINLOG_MODE_LAST; number++)
        if (!(self->modes[number] = PyObject_CallFunction((PyObject *)Py_TYPE(mode), "l", number)))
            return -1;
    self->mode = (int)value;
    self->generation = binlog_fork_generation();
    return 0;
}

static int fast_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct fast_path *self = (struct fast_path *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->ref_type);
    Py_VISIT(self->acquire);
    Py_VISIT(self->release);
    Py_VISIT(self->begun);
    Py_VISIT(self->area_kept);
    return 0;
}

static int fast_clear(PyObject *object)
{
    struct fast_path *self = (struct fast_path *)object;
    set_file(self, 0, 0, NULL);
    set_area(self, 0, NULL);
    Py_CLEAR(self->ref_type);
    for (int value = BINLOG_SYNC; value <= BINLOG_MODE_LAST; value++)
        Py_CLEAR(self->modes[value]);
    Py_CLEAR(self->acquire);
    Py_CLEAR(self->release);
    return 0;
}

static void fast_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    fast_clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef fast_methods[] = {
    {"append", (PyCFunction)(void (*)(void))fast_append, METH_FASTCALL,
     "append(record, mode, timeout): a Ref; None if the record is staged; False if Python must append it; or the Append that\n"
     "`arm` was given, which was begun and which Python must finish.  With a timeout, the call only stages."},
    {"arm", fast_arm, METH_VARARGS,
     "arm(file, request, append): append to this file; addresses of a binlog_file and a binlog_append, and their owner."},
    {"disarm", fast_disarm, METH_NOARGS, "Append to no file."},
    {"stage_in", fast_stage_in, METH_VARARGS,
     "stage_in(area, kept): stage in this area; its address, 0 for none, and its owner."},
    {"count_append", fast_count_append, METH_VARARGS, "count_append(mode, records, bytes): count an append that Python made."},
    {"appended", fast_appended, METH_VARARGS, "appended(mode): the records that were appended in a mode, and their bytes."},
    {"count_wait", fast_count_wait, METH_VARARGS, "count_wait(nanoseconds): count a wait for another thread of the writer."},
    {"count_busy", fast_count_busy, METH_NOARGS, "Count a BusyError."},
    {"count_unknown", fast_count_unknown, METH_NOARGS, "Count an UnknownOutcomeError."},
    {"__enter__", fast_enter, METH_NOARGS, "Enter a call, as the one thread of the writer.  Raises: StateError."},
    {"__exit__", fast_exit, METH_VARARGS, "End the call."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef fast_members[] = {
    {"owner", T_ULONG, offsetof(struct fast_path, owner), READONLY, "The thread that is in a call, 0 for none."},
    {"has_background", T_BOOL, offsetof(struct fast_path, has_background), 0,
     "Whether a thread handles records that no caller waits for."},
    {"waits", T_ULONGLONG, offsetof(struct fast_path, waits), READONLY, "For another thread of the writer."},
    {"wait_ns", T_ULONGLONG, offsetof(struct fast_path, wait_ns), READONLY, "Their time."},
    {"wait_ns_max", T_ULONGLONG, offsetof(struct fast_path, wait_ns_max), READONLY, "The longest of them."},
    {"busy", T_ULONGLONG, offsetof(struct fast_path, busy), READONLY, "Appends that ended with BusyError."},
    {"unknown", T_ULONGLONG, offsetof(struct fast_path, unknown), READONLY, "Appends that ended with UnknownOutcomeError."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot fast_slots[] = {
    {Py_tp_doc, "FastPath(mutex, ref_type, mode, bytes_max): appends to the file of `arm` and the area of `stage_in`."},
    {Py_tp_init, fast_init},
    {Py_tp_dealloc, fast_dealloc},
    {Py_tp_traverse, fast_traverse},
    {Py_tp_clear, fast_clear},
    {Py_tp_methods, fast_methods},
    {Py_tp_members, fast_members},
    {0, NULL},
};

PyType_Spec fast_path_spec = {
    .name = "binlog._calls.FastPath",
    .basicsize = sizeof(struct fast_path),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = fast_slots,
};

int fast_path_setup(void)
{
    if (state_error && no_wait) /* the module was loaded before, as by another interpreter */
        return 0;
    PyObject *errors = PyImport_ImportModule("binlog.errors");
    state_error = errors ? PyObject_GetAttrString(errors, "StateError") : NULL;
    Py_XDECREF(errors);
    no_wait = Py_BuildValue("(O)", Py_False);
    return state_error && no_wait ? 0 : -1;
}
