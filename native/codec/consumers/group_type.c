/* The type GroupState: the state of a consumer group.  What Python asks of it is in group_values.c. */
#include <Python.h>

#include <structmember.h>

#include "group_object.h"
#include "layout.h"
#include "typed_tuple.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- applying ---- */

/* Applies a parsed operation; returns what it did, an AppliedOperation, or None if the caller does not want it.
 *
 * The garbage collector must be off: an object that is created here could start it, and so a finalizer that applies another
 * operation in the middle of this one. */
static PyObject *applied(struct group_object *self, const struct operation *operation, int is_wanted)
{
    struct outcome outcome = {.types = &self->types};

    if (!is_wanted) {
        self->is_broken = group_apply(&self->state, operation, &outcome) != 0;
        return self->is_broken ? NULL : Py_NewRef(Py_None);
    }
    outcome.assigned = PyList_New(0);
    outcome.started = PyList_New(0);
    outcome.refused = PyList_New(0);
    if (outcome.assigned && outcome.started && outcome.refused)
        self->is_broken = group_apply(&self->state, operation, &outcome) != 0;
    if (PyErr_Occurred()) {
        Py_XDECREF(outcome.assigned);
        Py_XDECREF(outcome.started);
        Py_XDECREF(outcome.refused);
        return NULL;
    }
    const char *checkpoint = (const char *)operation->checkpoint;
    PyObject *effect[] = {PyBool_FromLong(outcome.counted), outcome.assigned, outcome.started, outcome.refused};
    PyObject *values[] = {
        PyLong_FromUnsignedLong(operation->seat), PyLong_FromUnsignedLong(operation->generation),
        PyLong_FromUnsignedLong(self->state.epoch), PyLong_FromUnsignedLong(operation->flags),
        typed_tuple(self->types.outcome, effect, 4),
        checkpoint ? PyBytes_FromStringAndSize(checkpoint, (const char *)operation->end - checkpoint) : Py_NewRef(Py_None)};
    return typed_tuple(self->types.applied, values, 6);
}

static PyObject *apply(PyObject *object, PyObject *record)
{
    struct operation operation;
    Py_buffer buffer;
    PyObject *answer = Py_None;

    if (!group_usable(object) || PyObject_GetBuffer(record, &buffer, PyBUF_SIMPLE) != 0)
        return NULL;
    int collects = PyGC_Disable();
    if (group_parse(buffer.buf, (size_t)buffer.len, ((struct group_object *)object)->seed, &operation))
        answer = applied((struct group_object *)object, &operation, 1);
    else
        Py_INCREF(answer);
    if (collects)
        PyGC_Enable();
    PyBuffer_Release(&buffer);
    return answer;
}

#define LENGTH_BYTES 4
#define MARK 2

/* Whose operations the caller wants to know of: those of a member, and those of none if `anonymous`. */
struct wanted {
    unsigned int seat, generation;
    int anonymous;
};

/* Applies records from *index on, up to a mark or a checkpoint, or to a record that is no operation; adds the index and effect of
 * each wanted one, and of the last, to the list.  Returns True if the record at *index is no operation, and NULL with an error. */
static PyObject *apply_records(struct group_object *self, const Py_buffer *data, const Py_buffer *offsets, Py_ssize_t *index,
                               const struct wanted *wanted, PyObject *list)
{
    const uint32_t *places = offsets->buf;
    Py_ssize_t count = offsets->len / (Py_ssize_t)sizeof *places - 1;

    for (int is_mark = 0; *index >= 0 && *index < count && !is_mark; ++*index) {
        struct operation operation;
        uint32_t start = places[*index] + LENGTH_BYTES, end = places[*index + 1];
        if (start > end || end > data->len || !group_parse((const uint8_t *)data->buf + start, end - start, self->seed, &operation))
            Py_RETURN_TRUE;
        is_mark = operation.checkpoint || operation.flags & MARK;
        int is_wanted = (operation.seat == wanted->seat && operation.generation == wanted->generation) ||
                        (wanted->anonymous && operation.seat == NO_SEAT) || is_mark;
        PyObject *one = applied(self, &operation, is_wanted);
        PyObject *pair = one && is_wanted ? Py_BuildValue("(nO)", *index, one) : NULL;
        int result = !one || (is_wanted && !pair) ? -1 : pair ? PyList_Append(list, pair) : 0;
        Py_XDECREF(pair);
        Py_XDECREF(one);
        if (result != 0)
            return NULL;
    }
    Py_RETURN_FALSE;
}

static PyObject *apply_many(PyObject *object, PyObject *args)
{
    Py_buffer data, offsets;
    Py_ssize_t index;
    struct wanted wanted;
    PyObject *answer = NULL;

    if (!group_usable(object) || !PyArg_ParseTuple(args, "y*y*nIIp:apply_many", &data, &offsets, &index, &wanted.seat,
                                             &wanted.generation, &wanted.anonymous))
        return NULL;
    int collects = PyGC_Disable();
    PyObject *list = PyList_New(0);
    PyObject *is_other = list ? apply_records((struct group_object *)object, &data, &offsets, &index, &wanted, list) : NULL;
    if (is_other)
        answer = Py_BuildValue("(nOO)", index, list, is_other);
    Py_XDECREF(is_other);
    Py_XDECREF(list);
    if (collects)
        PyGC_Enable();
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    return answer;
}

/* The index of the first record from one on that is a checkpoint, or -1. */
static PyObject *next_checkpoint(PyObject *object, PyObject *args)
{
    Py_buffer data, offsets;
    Py_ssize_t index, found = -1;

    (void)object;
    if (!PyArg_ParseTuple(args, "y*y*n:next_checkpoint", &data, &offsets, &index))
        return NULL;
    const uint32_t *places = offsets.buf;
    Py_ssize_t count = offsets.len / (Py_ssize_t)sizeof *places - 1;
    for (; index >= 0 && index < count && found < 0; index++) {
        uint32_t kind = places[index] + LENGTH_BYTES + GROUP_OPERATION_BYTES;
        if (kind < places[index + 1] && places[index + 1] <= data.len && ((const uint8_t *)data.buf)[kind] == CHECKPOINT)
            found = index;
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    return PyLong_FromSsize_t(found);
}

static PyObject *pack_step(PyObject *object, PyObject *args)
{
    struct step step;
    unsigned long long time_ns, done, start;
    unsigned int generation, number, epoch, delivery;
    unsigned short seat, want;

    if (!PyArg_ParseTuple(args, "HIIKIHKIK:pack_step", &seat, &generation, &number, &time_ns, &epoch, &want, &done, &delivery, &start))
        return NULL;
    step = (struct step){seat, want, generation, number, epoch, delivery, time_ns, done, start};
    return group_pack_step(((struct group_object *)object)->seed, &step);
}

/* ---- checkpoints ---- */

static PyObject *pack(PyObject *object, PyObject *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    return state ? group_pack(state) : NULL;
}

static PyObject *load_checkpoint(PyObject *object, PyObject *data)
{
    struct group_object *self = (struct group_object *)object;
    struct group_state loaded;
    Py_buffer buffer;

    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) != 0)
        return NULL;
    group_state_init(&loaded);
    int is_valid = group_load(&loaded, buffer.buf, (size_t)buffer.len), has_failed = loaded.has_failed;
    PyBuffer_Release(&buffer);
    if (!is_valid) {
        group_state_free(&loaded);
        if (has_failed)
            return PyErr_NoMemory();
        PyErr_SetString(PyExc_ValueError, "the bytes are no checkpoint of a group");
        return NULL;
    }
    group_state_free(&self->state);
    self->state = loaded;
    self->is_broken = 0;
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static void release_types(struct effect_types *types)
{
    Py_CLEAR(types->applied);
    Py_CLEAR(types->outcome);
    Py_CLEAR(types->assigned);
    Py_CLEAR(types->delivery);
}

static int group_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct group_object *self = (struct group_object *)object;
    (void)named;
    struct effect_types types;
    if (!PyArg_ParseTuple(args, "IO!O!O!O!:GroupState", &self->seed, &PyType_Type, &types.applied, &PyType_Type, &types.outcome,
                          &PyType_Type, &types.assigned, &PyType_Type, &types.delivery))
        return -1;
    PyObject *all[] = {types.applied, types.outcome, types.assigned, types.delivery};
    for (int at = 0; at < 4; at++)
        if (!PyType_IsSubtype((PyTypeObject *)all[at], &PyTuple_Type)) {
            PyErr_SetString(PyExc_TypeError, "the types of effects are kinds of tuples");
            return -1;
        }
    for (int at = 0; at < 4; at++)
        Py_INCREF(all[at]);
    release_types(&self->types);
    self->types = types;
    group_state_free(&self->state);
    group_state_init(&self->state);
    return 0;
}

static void group_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    group_state_free(&((struct group_object *)object)->state);
    release_types(&((struct group_object *)object)->types);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef group_methods[] = {
    {"apply", apply, METH_O, "apply(record): None if it is no operation of the group; otherwise what it did."},
    {"apply_many", apply_many, METH_VARARGS,
     "apply_many(data, offsets, index, seat, generation, anonymous): the next index; a list of the index and the effect of each "
     "operation of the member, of none if anonymous, and of a mark or checkpoint, after which it stops; and whether the record at "
     "the next index is no operation."},
    {"next_checkpoint", next_checkpoint, METH_VARARGS, "next_checkpoint(data, offsets, index): the index of one, or -1."},
    {"pack_step", pack_step, METH_VARARGS,
     "pack_step(seat, generation, number, time_ns, epoch, want, done, delivery, start): the record of an operation that\n"
     "acknowledges a delivery, starts an item, and asks for `want`."},
    {"pack", pack, METH_NOARGS, "The state as bytes, equal for equal states."},
    {"load", load_checkpoint, METH_O, "Take the state that `pack` made bytes of.  Raises: ValueError."},
    {"clock_values", group_clock_of, METH_NOARGS, "The boot's id and the offset of group time, or None."},
    {"clock_offset_ns", group_clock_offset, METH_O, "Group time minus the time since the boot with this id, or None."},
    {"started_by", group_started_by, METH_VARARGS, "started_by(seat, sequence, delivery): how often the item was delivered and not given back; 0 if the member at the seat did "
     "not start it in this delivery."},
    {"item_values", group_item_of, METH_O, "The fields of an outstanding item, or None."},
    {"all_item_values", group_items_of, METH_NOARGS, "The fields of all outstanding items, by sequence."},
    {"member_values", group_members_of, METH_NOARGS, "Of each member: seat, generation, lease, hint, sequences of its items."},
    {"last_generation", group_last_generation, METH_O, "The last generation of a seat, 0 for none."},
    {"counter_values", group_counters_of, METH_NOARGS, "What happened so far."},
    {"setting_values", group_settings_of, METH_NOARGS, "The settings, from `rules` on."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef group_values[] = {
    {"floor", group_floor_of, NULL, "The smallest sequence that is not done.", NULL},
    {"available", group_available_of, NULL, "How many items members may get now.", NULL},
    {"next_due_ns", group_next_due, NULL, "The group time at which the next item becomes ready, or None.", NULL},
    {"witness", group_witness_of, NULL, "The end of the last window and the CRC of its last message, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define STATE_MEMBER(name, field, kind) {name, kind, offsetof(struct group_object, state.field), READONLY, NULL}

static PyMemberDef group_members[] = {
    STATE_MEMBER("epoch", epoch, T_UINT),
    STATE_MEMBER("clock_ns", clock_ns, T_ULONGLONG),
    STATE_MEMBER("next", next, T_ULONGLONG),
    STATE_MEMBER("known_end", known_end, T_ULONGLONG),
    STATE_MEMBER("letters", letters, T_ULONGLONG),
    STATE_MEMBER("membership", membership, T_ULONGLONG),
    STATE_MEMBER("in_hand", in_hand, T_UINT),
    STATE_MEMBER("member_count", living, T_UINT),
    STATE_MEMBER("outstanding_count", item_count, T_UINT),
    STATE_MEMBER("scheduled_count", scheduled_count, T_UINT),
    STATE_MEMBER("is_paused", is_paused, T_BOOL),
    STATE_MEMBER("is_deleted", is_deleted, T_BOOL),
    STATE_MEMBER("is_created", is_created, T_BOOL),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_doc, "GroupState(seed, applied, outcome, assigned, delivery): the state of a consumer group.\n"
                "seed: of the CRCs of its operations.  The others: the types of what an operation did."},
    {Py_tp_init, group_init},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_methods, group_methods},
    {Py_tp_members, group_members},
    {Py_tp_getset, group_values},
    {0, NULL},
};

PyType_Spec group_state_spec = {
    .name = "binlog._codec.GroupState",
    .basicsize = sizeof(struct group_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = group_slots,
};
