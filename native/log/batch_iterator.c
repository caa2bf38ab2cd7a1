/* The type BatchIterator: a loop that returns the records of a batch one by one.
 *
 * An Entry and its Ref are three objects, and a call from Python takes longer than making them in C.  So this is an extension
 * type and not cffi's: a Reader inherits from it, and Python is called only for the next batch.
 *
 * Invariants
 * - `used` moves before an entry is made, so that a garbage collection meanwhile, which may run a finalizer that reads, does
 *   not return the record twice.  It moves back if memory ran out, so no record is lost.
 * - Signal handlers run only in `_refill`: a record leaves the iterator whole or not at all.
 * - Making a tuple may collect garbage, and so run any code, also this iterator's own methods: nothing borrowed from the loaded
 *   batch is used after that.
 * - Offsets are checked before use, although they come from a scan of ours.
 * - An entry is returned a second time, with other values, only if no other object has it.  Two are kept, because a loop's
 *   variable has the last one while the next is made.  Reusing entries saves a third of the time of iterating. */
#include <Python.h>

#include "layout.h"
#include "typed_tuple.h"

#include <stdint.h>
#include <string.h>

struct iterator {
    PyObject_HEAD
    PyObject *ref_type; /* subclasses of tuple; NULL if each record is returned as bytes */
    PyObject *entry_type;
    int made;
    PyObject *number; /* of the loaded batch; NULL if none is loaded */
    PyObject *data;
    Py_buffer places;
    uint64_t offset;
    long long sequence; /* of the first record, -1 if it is not known */
    Py_ssize_t used;
    Py_ssize_t count;
    PyObject *given[2]; /* the last entries returned, or NULL */
    int newer;          /* the index of the last one */
};

/* A kept entry keeps its record in memory, so an entry with a large record is not kept. */
#define KEPT_BYTES_MAX 4096

static void unload(struct iterator *self)
{
    PyObject *number = self->number, *data = self->data;
    Py_buffer places = self->places;

    /* Empty first, because releasing an object may run any code. */
    self->number = self->data = NULL;
    memset(&self->places, 0, sizeof(self->places));
    self->used = self->count = 0;
    PyBuffer_Release(&places);
    Py_XDECREF(number);
    Py_XDECREF(data);
}

static int is_tuple(PyObject *type)
{
    return PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type);
}

static int iterator_init(PyObject *object, PyObject *args, PyObject *named)
{
    static char *names[] = {"ref_type", "entry_type", NULL};
    struct iterator *self = (struct iterator *)object;
    PyObject *ref = NULL, *entry = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, named, "|O!O!:BatchIterator", names, &PyType_Type, &ref, &PyType_Type,
                                     &entry))
        return -1;
    if (!ref != !entry || (ref && !is_tuple(ref)) || (entry && !is_tuple(entry))) {
        PyErr_SetString(PyExc_TypeError, "ref_type and entry_type are subclasses of tuple");
        return -1;
    }
    if (self->made) {
        PyErr_SetString(PyExc_RuntimeError, "a BatchIterator is initialized once");
        return -1;
    }
    self->ref_type = Py_XNewRef(ref);
    self->entry_type = Py_XNewRef(entry);
    self->made = 1;
    return 0;
}

static PyObject *iterator_load(PyObject *object, PyObject *args)
{
    struct iterator *self = (struct iterator *)object, before;
    PyObject *number, *data, *sequence;
    Py_buffer places;
    long long offset, first;

    if (!PyArg_ParseTuple(args, "OLSy*O:_load", &number, &offset, &data, &places, &sequence))
        return NULL;
    first = sequence == Py_None ? -1 : PyLong_AsLongLong(sequence);
    if ((offset < 0 || places.len < (Py_ssize_t)sizeof(uint32_t)) && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "an offset is not negative, and the places are at least one");
    if (PyErr_Occurred()) {
        PyBuffer_Release(&places);
        return NULL;
    }
    before = *self;
    self->used = 0;
    self->number = Py_NewRef(number);
    self->data = Py_NewRef(data);
    self->places = places;
    self->offset = (uint64_t)offset;
    self->sequence = first;
    self->count = places.len / (Py_ssize_t)sizeof(uint32_t) - 1;
    unload(&before);
    Py_RETURN_NONE;
}

/* Calls `read` and loads its result, in one step, for a reader that was just woken (wait_and_read.c). */
static PyObject *iterator_load_from(PyObject *object, PyObject *args)
{
    PyObject *read, *number, *sequence, *found, *loaded, *done;

    if (!PyArg_ParseTuple(args, "OOO:_load_from", &read, &number, &sequence))
        return NULL;
    found = PyObject_CallNoArgs(read);
    if (!found || !PyTuple_Check(found) || PyTuple_Size(found) < 3)
        return found;
    loaded = PyTuple_Pack(5, number, PyTuple_GetItem(found, 0), PyTuple_GetItem(found, 1), PyTuple_GetItem(found, 2),
                          sequence);
    Py_DECREF(found);
    done = loaded ? iterator_load(object, loaded) : NULL;
    Py_XDECREF(loaded);
    Py_XDECREF(done);
    return done ? Py_NewRef(Py_True) : NULL;
}

static PyObject *iterator_unload(PyObject *object, PyObject *unused)
{
    (void)unused;
    unload((struct iterator *)object);
    Py_RETURN_NONE;
}

static uint32_t record_offset(const struct iterator *self, Py_ssize_t index)
{
    uint32_t place;
    memcpy(&place, (const uint8_t *)self->places.buf + index * (Py_ssize_t)sizeof(place), sizeof(place));
    return place;
}

static PyObject *make_record(struct iterator *self, uint64_t *start)
{
    uint64_t end = record_offset(self, self->used + 1);

    *start = record_offset(self, self->used);
    if (*start + RECORD_BYTES > end || end > (uint64_t)PyBytes_Size(self->data)) {
        PyErr_SetString(PyExc_ValueError, "the places are outside of the data");
        return NULL;
    }
    return PyBytes_FromStringAndSize(PyBytes_AsString(self->data) + *start + RECORD_BYTES,
                                     (Py_ssize_t)(end - *start - RECORD_BYTES));
}

/* Puts the new values into the older entry.  Returns NULL, and changes nothing, if another object has the entry or its ref, or
 * if it is of another file. */
static PyObject *reuse_entry(struct iterator *self, PyObject *offset, PyObject *record)
{
    PyObject *entry = self->given[self->newer], *ref;

    if (!entry || !tuple_is_unshared(entry))
        return NULL;
    ref = PyTuple_GetItem(entry, 0);
    if (!tuple_is_unshared(ref) || PyTuple_GetItem(ref, 0) != self->number)
        return NULL;
    PyTuple_SetItem(ref, 1, offset);
    PyTuple_SetItem(entry, 1, record);
    return Py_NewRef(entry);
}

/* Takes the reference to `record`. */
static PyObject *make_entry(struct iterator *self, uint64_t offset, PyObject *record)
{
    int small = PyBytes_Size(record) <= KEPT_BYTES_MAX;
    PyObject *place = PyLong_FromUnsignedLongLong(offset), *before, *made;

    self->newer = !self->newer;
    if (place && small && (made = reuse_entry(self, place, record)) != NULL)
        return made;
    made = pair_tuple(self->entry_type, pair_tuple(self->ref_type, Py_NewRef(self->number), place), record);
    before = self->given[self->newer];
    self->given[self->newer] = small && made && tuple_is_unshared(made) ? Py_NewRef(made) : NULL;
    Py_XDECREF(before);
    return made;
}

static PyObject *next_entry(struct iterator *self)
{
    uint64_t start;
    const Py_ssize_t after = self->used + 1;
    PyObject *made = make_record(self, &start);

    if (!made)
        return NULL;
    self->used = after;
    if (self->ref_type)
        made = make_entry(self, self->offset + start, made);
    if (!made && self->used == after)
        self->used--;
    return made;
}

static PyObject *iterator_next(PyObject *object)
{
    struct iterator *self = (struct iterator *)object;

    while (self->used >= self->count) {
        PyObject *answer = PyObject_CallMethod(object, "_refill", NULL);
        int more = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        if (more <= 0)
            return NULL; /* without an error: no record follows yet */
    }
    return next_entry(self);
}

static PyObject *iterator_refill(PyObject *object, PyObject *unused)
{
    (void)object;
    (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *iterator_left(PyObject *object, void *unused)
{
    struct iterator *self = (struct iterator *)object;
    (void)unused;
    return PyLong_FromSsize_t(self->count - self->used);
}

static PyObject *iterator_next_place(PyObject *object, void *unused)
{
    struct iterator *self = (struct iterator *)object;
    (void)unused;
    if (!self->number)
        Py_RETURN_NONE;
    unsigned long long offset = self->offset + record_offset(self, self->used);
    if (self->sequence < 0)
        return Py_BuildValue("(OKO)", self->number, offset, Py_None);
    return Py_BuildValue("(OKL)", self->number, offset, self->sequence + self->used);
}

static int iterator_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct iterator *self = (struct iterator *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->ref_type);
    Py_VISIT(self->entry_type);
    Py_VISIT(self->number);
    Py_VISIT(self->data);
    Py_VISIT(self->given[0]);
    Py_VISIT(self->given[1]);
    return 0;
}

static int iterator_clear(PyObject *object)
{
    struct iterator *self = (struct iterator *)object;
    unload(self);
    Py_CLEAR(self->given[0]);
    Py_CLEAR(self->given[1]);
    Py_CLEAR(self->ref_type);
    Py_CLEAR(self->entry_type);
    return 0;
}

static void iterator_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    iterator_clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef iterator_methods[] = {
    {"_load", iterator_load, METH_VARARGS,
     "Load records, discarding those left: number, offset, data, places, sequence, as in a Batch."},
    {"_load_from", iterator_load_from, METH_VARARGS,
     "Call `read`.  If it returns records (offset, data, places), load them with a number and a sequence, and return True; "
     "return anything else as it is."},
    {"_refill", iterator_refill, METH_NOARGS, "Load more records; return whether there were any.  The base type has none."},
    {"_unload", iterator_unload, METH_NOARGS, "Discard the loaded records."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef iterator_properties[] = {
    {"_left", iterator_left, NULL, "How many loaded records are not returned yet.", NULL},
    {"_next", iterator_next_place, NULL,
     "The number, offset and sequence of the record after the last one returned, or None if none is loaded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot iterator_slots[] = {
    {Py_tp_doc, "Iterates over loaded records, each as bytes or as an entry, and then over those that `_refill` loads."},
    {Py_tp_init, iterator_init},
    {Py_tp_dealloc, iterator_dealloc},
    {Py_tp_traverse, iterator_traverse},
    {Py_tp_clear, iterator_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, iterator_next},
    {Py_tp_methods, iterator_methods},
    {Py_tp_getset, iterator_properties},
    {0, NULL},
};

PyType_Spec batch_iterator_spec = {
    .name = "binlog._calls.BatchIterator",
    .basicsize = sizeof(struct iterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = iterator_slots,
};
