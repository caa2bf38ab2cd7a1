/* What Python asks of the state of a consumer group. */
#include "group_object.h"

#include <stdlib.h>
#include <string.h>

struct group_state *group_usable(PyObject *object)
{
    struct group_object *self = (struct group_object *)object;
    if (self->is_broken) {
        PyErr_NoMemory();
        return NULL;
    }
    return &self->state;
}

PyObject *group_floor_of(PyObject *object, void *unused)
{
    struct group_state *state = group_usable(object);
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

PyObject *group_available_of(PyObject *object, void *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    if (!state)
        return NULL;
    uint64_t count = group_available(state), limit = state->settings[IN_HAND_MAX];
    uint64_t left = !limit ? count : limit > state->in_hand ? limit - state->in_hand : 0;
    return PyLong_FromUnsignedLongLong(count < left ? count : left);
}

PyObject *group_next_due(PyObject *object, void *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    if (!state)
        return NULL;
    while (state->timed.count && !item_is_timed(state, &state->timed.pairs[0]))
        heap_pop(&state->timed);
    if (!state->timed.count)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(state->timed.pairs[0].key);
}

PyObject *group_clock_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    if (!state)
        return NULL;
    if (!state->has_clock)
        Py_RETURN_NONE;
    return Py_BuildValue("(y#L)", (const char *)state->boot, (Py_ssize_t)sizeof state->boot, (long long)state->offset_ns);
}

/* Group time minus the time since the boot with this id; None if the clock was not set in it. */
PyObject *group_clock_offset(PyObject *object, PyObject *boot)
{
    struct group_state *state = group_usable(object);
    if (!state)
        return NULL;
    if (!state->has_clock || !PyBytes_Check(boot) || PyBytes_Size(boot) != (Py_ssize_t)sizeof state->boot ||
        memcmp(PyBytes_AsString(boot), state->boot, sizeof state->boot) != 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(state->offset_ns);
}

/* How often an item was delivered and not given back, if the member at a seat started it in this delivery; otherwise 0. */
PyObject *group_started_by(PyObject *object, PyObject *args)
{
    struct group_state *state = group_usable(object);
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

PyObject *group_item_of(PyObject *object, PyObject *sequence)
{
    struct group_state *state = group_usable(object);
    unsigned long long number = PyLong_AsUnsignedLongLong(sequence);
    if (!state || PyErr_Occurred())
        return NULL;
    uint32_t index = item_find(state, number);
    if (index == NO_ITEM)
        Py_RETURN_NONE;
    return item_values(&state->items[index]);
}

PyObject *group_items_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = group_usable(object);
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

PyObject *group_members_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = group_usable(object);
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

PyObject *group_last_generation(PyObject *object, PyObject *seat)
{
    struct group_state *state = group_usable(object);
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

PyObject *group_counters_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    return state ? numbers(state->counters, 0, COUNTERS) : NULL;
}

PyObject *group_settings_of(PyObject *object, PyObject *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    return state ? numbers(state->settings, RULES, SETTING_COUNT) : NULL;
}

PyObject *group_witness_of(PyObject *object, void *unused)
{
    struct group_state *state = group_usable(object);
    (void)unused;
    if (!state)
        return NULL;
    if (!state->has_witness)
        Py_RETURN_NONE;
    return Py_BuildValue("((IK)I)", state->end_number, (unsigned long long)state->end_offset, state->last_crc);
}
