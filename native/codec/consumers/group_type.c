/* The type GroupState: the state of a consumer group, and its attributes. */
#include <Python.h>

#include <structmember.h>

#include "group_apply.h"
#include "layout.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct group_object {
    PyObject_HEAD
    uint32_t seed;
    int is_broken; /* an operation was applied in part: memory ran out */
    struct group_state state;
};

static struct group_state *usable(PyObject *object)
{
    struct group_object *self = (struct group_object *)object;
    if (self->is_broken) {
        PyErr_NoMemory();
        return NULL;
    }
    return &self->state;
}

/* ---- applying ---- */

/* Applies a parsed operation; returns what it did, or None if nobody asks for it. */
static PyObject *applied(struct group_object *self, const struct operation *operation, int is_wanted)
{
    struct outcome outcome = {0};
    PyObject *answer = NULL;

    if (is_wanted) {
        outcome.assigned = PyList_New(0);
        outcome.started = PyList_New(0);
        outcome.refused = PyList_New(0);
    }
    if (!is_wanted || (outcome.assigned && outcome.started && outcome.refused))
        self->is_broken = group_apply(&self->state, operation, &outcome) != 0;
    if (!is_wanted && !self->is_broken)
        answer = Py_NewRef(Py_None);
    else if (!PyErr_Occurred()) {
        const char *checkpoint = (const char *)operation->checkpoint;
        Py_ssize_t bytes = checkpoint ? (const char *)operation->end - checkpoint : 0;
        answer = Py_BuildValue("(HIIBOOOOy#)", operation->seat, operation->generation, self->state.epoch, operation->flags,
                               outcome.counted ? Py_True : Py_False, outcome.assigned, outcome.started, outcome.refused,
                               checkpoint, bytes);
    }
    Py_XDECREF(outcome.assigned);
    Py_XDECREF(outcome.started);
    Py_XDECREF(outcome.refused);
    return answer;
}

static PyObject *apply(PyObject *object, PyObject *record)
{
    struct operation operation;
    Py_buffer buffer;
    PyObject *answer = Py_None;

    if (!usable(object) || PyObject_GetBuffer(record, &buffer, PyBUF_SIMPLE) != 0)
        return NULL;
    if (group_parse(buffer.buf, (size_t)buffer.len, ((struct group_object *)object)->seed, &operation))
        answer = applied((struct group_object *)object, &operation, 1);
    else
        Py_INCREF(answer);
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

    if (!usable(object) || !PyArg_ParseTuple(args, "y*y*nIIp:apply_many", &data, &offsets, &index, &wanted.seat,
                                             &wanted.generation, &wanted.anonymous))
        return NULL;
    PyObject *list = PyList_New(0);
    PyObject *is_other = list ? apply_records((struct group_object *)object, &data, &offsets, &index, &wanted, list) : NULL;
    if (is_other)
        answer = Py_BuildValue("(nOO)", index, list, is_other);
    Py_XDECREF(is_other);
    Py_XDECREF(list);
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
    struct group_state *state = usable(object);
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

/* ---- what Python asks ---- */

static PyObject *floor_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    size_t slot = 0;
    int64_t sequence;
    uint32_t index;

    (void)unused;
    if (!state)
        return NULL;
    uint64_t lowest = state->next;
    while (id_table_next(&state->by_sequence, &slot, &sequence, &index))
        if ((uint64_t)sequence < lowest)
            lowest = (uint64_t)sequence;
    return PyLong_FromUnsignedLongLong(lowest);
}

static PyObject *available_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    if (!state)
        return NULL;
    uint64_t count = group_available(state), limit = state->settings[IN_HAND_MAX];
    uint64_t left = !limit ? count : limit > state->in_hand ? limit - state->in_hand : 0;
    return PyLong_FromUnsignedLongLong(count < left ? count : left);
}

static PyObject *next_due(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    if (!state)
        return NULL;
    while (state->timed.count && !item_is_timed(state, &state->timed.pairs[0]))
        heap_pop(&state->timed);
    if (!state->timed.count)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(state->timed.pairs[0].key);
}

static PyObject *clock_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    if (!state)
        return NULL;
    if (!state->has_clock)
        Py_RETURN_NONE;
    return Py_BuildValue("(y#L)", (const char *)state->boot, (Py_ssize_t)sizeof state->boot, (long long)state->offset_ns);
}

/* Group time minus the time since the boot with this id; None if the clock was not set in it. */
static PyObject *clock_offset(PyObject *object, PyObject *boot)
{
    struct group_state *state = usable(object);
    if (!state)
        return NULL;
    if (!state->has_clock || !PyBytes_Check(boot) || PyBytes_Size(boot) != (Py_ssize_t)sizeof state->boot ||
        memcmp(PyBytes_AsString(boot), state->boot, sizeof state->boot) != 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(state->offset_ns);
}

/* How often an item was delivered and not given back, if the member at a seat started it in this delivery; otherwise 0. */
static PyObject *started_by(PyObject *object, PyObject *args)
{
    struct group_state *state = usable(object);
    unsigned long long sequence;
    unsigned int seat, delivery;

    if (!state || !PyArg_ParseTuple(args, "IKI:started_by", &seat, &sequence, &delivery))
        return NULL;
    uint32_t index = item_find(state, sequence);
    const struct item *item = &state->items[index];
    int is_so = index != NO_ITEM && item->state == ITEM_STARTED && item->seat == seat && item->delivery == delivery;
    return PyLong_FromUnsignedLong(is_so ? item->delivery - item->uncounted : 0);
}

static PyObject *item_values(const struct item *item)
{
    /* First this: an allocation of a tuple may collect garbage, and so run code that changes the items. */
    PyObject *reason = PyUnicode_DecodeUTF8(item->reason ? item->reason : "", (Py_ssize_t)item->reason_bytes, "strict");
    if (!reason)
        return NULL;
    return Py_BuildValue("(KBKKKHIIIOKN)", (unsigned long long)item->sequence, item->state, (unsigned long long)item->key_hash,
                         (unsigned long long)item->expiry_ns, (unsigned long long)item->due_ns, item->seat, item->delivery,
                         item->uncounted, item->deaths, item->is_suspect ? Py_True : Py_False, (unsigned long long)item->letter,
                         reason);
}

static PyObject *item_of(PyObject *object, PyObject *sequence)
{
    struct group_state *state = usable(object);
    unsigned long long number = PyLong_AsUnsignedLongLong(sequence);
    if (!state || PyErr_Occurred())
        return NULL;
    uint32_t index = item_find(state, number);
    if (index == NO_ITEM)
        Py_RETURN_NONE;
    return item_values(&state->items[index]);
}

static PyObject *items_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    uint64_t(*pairs)[2] = state ? group_sorted_items(state) : NULL;
    if (!pairs)
        return state ? PyErr_NoMemory() : NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t number = 0; list && number < state->item_count; number++) {
        PyObject *values = item_values(&state->items[pairs[number][1]]);
        if (!values || PyList_Append(list, values) != 0)
            Py_CLEAR(list);
        Py_XDECREF(values);
    }
    free(pairs);
    return list;
}

static PyObject *held_by(const struct group_state *state, const struct seat *seat)
{
    PyObject *list = PyList_New(0);
    for (uint32_t index = seat->is_alive ? seat->first : NO_ITEM; list && index != NO_ITEM; index = state->items[index].seat_after) {
        PyObject *sequence = PyLong_FromUnsignedLongLong(state->items[index].sequence);
        if (!sequence || PyList_Append(list, sequence) != 0)
            Py_CLEAR(list);
        Py_XDECREF(sequence);
    }
    if (list && PyList_Sort(list) != 0)
        Py_CLEAR(list);
    return list;
}

static PyObject *members_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    PyObject *list = state ? PyList_New(0) : NULL;

    (void)unused;
    for (int number = 0; list && number < SEATS_MAX; number++) {
        const struct seat *seat = &state->seats[number];
        if (!seat->is_alive)
            continue;
        PyObject *hint = PyUnicode_DecodeUTF8(seat->hint ? seat->hint : "", (Py_ssize_t)seat->hint_bytes, "strict");
        PyObject *held = hint ? held_by(state, seat) : NULL;
        PyObject *values = held ? Py_BuildValue("(iIKNN)", number, seat->generation, (unsigned long long)seat->lease_ns, hint, held)
                                : NULL;
        if (!held)
            Py_XDECREF(hint);
        if (!values || PyList_Append(list, values) != 0)
            Py_CLEAR(list);
        Py_XDECREF(values);
    }
    return list;
}

static PyObject *last_generation(PyObject *object, PyObject *seat)
{
    struct group_state *state = usable(object);
    unsigned long number = PyLong_AsUnsignedLong(seat);
    if (!state || PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLong(number < SEATS_MAX ? state->seats[number].last_generation : 0);
}

static PyObject *numbers(const uint64_t *values, int first, int end)
{
    PyObject *tuple = PyTuple_New(end - first);
    for (int at = first; tuple && at < end; at++) {
        PyObject *value = PyLong_FromUnsignedLongLong(values[at]);
        if (!value || PyTuple_SetItem(tuple, at - first, value) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *counters_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    return state ? numbers(state->counters, 0, COUNTERS) : NULL;
}

static PyObject *settings_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    return state ? numbers(state->settings, RULES, SETTING_COUNT) : NULL;
}

static PyObject *witness_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    (void)unused;
    if (!state)
        return NULL;
    if (!state->has_witness)
        Py_RETURN_NONE;
    return Py_BuildValue("((IK)I)", state->end_number, (unsigned long long)state->end_offset, state->last_crc);
}

/* ---- the type ---- */

static int group_init(PyObject *object, PyObject *args, PyObject *named)
{
    struct group_object *self = (struct group_object *)object;
    (void)named;
    if (!PyArg_ParseTuple(args, "I:GroupState", &self->seed))
        return -1;
    group_state_free(&self->state);
    group_state_init(&self->state);
    return 0;
}

static void group_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    group_state_free(&((struct group_object *)object)->state);
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
     "pack_step(seat, generation, number, time_ns, epoch, want, done, delivery, start): the record of an operation."},
    {"pack", pack, METH_NOARGS, "The state as bytes."},
    {"load", load_checkpoint, METH_O, "Take the state that `pack` made bytes of.  Raises: ValueError."},
    {"floor", floor_of, METH_NOARGS, "The smallest sequence that is not done."},
    {"available", available_of, METH_NOARGS, "How many items members may get now."},
    {"next_due_ns", next_due, METH_NOARGS, "The group time at which the next item becomes ready, or None."},
    {"clock", clock_of, METH_NOARGS, "The boot's id and the offset of group time, or None."},
    {"clock_offset", clock_offset, METH_O, "Group time minus the time since the boot with this id, or None."},
    {"started_by", started_by, METH_VARARGS, "started_by(seat, sequence, delivery): the count of deliveries, or 0."},
    {"item", item_of, METH_O, "The fields of an outstanding item, or None."},
    {"items", items_of, METH_NOARGS, "The fields of all outstanding items, by sequence."},
    {"members", members_of, METH_NOARGS, "Of each member: seat, generation, lease, hint, sequences of its items."},
    {"last_generation", last_generation, METH_O, "The last generation of a seat, 0 for none."},
    {"counters", counters_of, METH_NOARGS, "What happened so far."},
    {"settings", settings_of, METH_NOARGS, "The settings, from `rules` on."},
    {"witness", witness_of, METH_NOARGS, "The end of the last window and the CRC of its last message, or None."},
    {NULL, NULL, 0, NULL},
};

#define STATE_MEMBER(name, kind) {#name, kind, offsetof(struct group_object, state.name), READONLY, NULL}

static PyMemberDef group_members[] = {
    STATE_MEMBER(epoch, T_UINT),       STATE_MEMBER(clock_ns, T_ULONGLONG), STATE_MEMBER(next, T_ULONGLONG),
    STATE_MEMBER(known_end, T_ULONGLONG), STATE_MEMBER(letters, T_ULONGLONG), STATE_MEMBER(membership, T_ULONGLONG),
    STATE_MEMBER(in_hand, T_UINT),     STATE_MEMBER(living, T_UINT),     STATE_MEMBER(item_count, T_UINT),    STATE_MEMBER(is_paused, T_BOOL),
    STATE_MEMBER(is_deleted, T_BOOL),  STATE_MEMBER(is_created, T_BOOL),    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_doc, "GroupState(seed): the state of a consumer group.  seed: of the CRCs of its operations."},
    {Py_tp_init, group_init},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_methods, group_methods},
    {Py_tp_members, group_members},
    {0, NULL},
};

PyType_Spec group_state_spec = {
    .name = "binlog._codec.GroupState",
    .basicsize = sizeof(struct group_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = group_slots,
};
