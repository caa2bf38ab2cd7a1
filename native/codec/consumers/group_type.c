/* The type GroupState: the state of a consumer group, its attributes, and its checkpoints. */
#include <Python.h>

#include <structmember.h>

#include "big_endian.h"
#include "group_apply.h"
#include "layout.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PAUSED 1
#define DELETED_FLAG 2
#define TOOK_NEW 4

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

static PyObject *apply(PyObject *object, PyObject *record)
{
    struct group_object *self = (struct group_object *)object;
    struct operation operation;
    struct outcome outcome = {0};
    Py_buffer buffer;
    PyObject *answer = NULL;

    if (!usable(object) || PyObject_GetBuffer(record, &buffer, PyBUF_SIMPLE) != 0)
        return NULL;
    if (!group_parse(buffer.buf, (size_t)buffer.len, self->seed, &operation)) {
        PyBuffer_Release(&buffer);
        Py_RETURN_NONE;
    }
    outcome.assigned = PyList_New(0);
    outcome.started = PyList_New(0);
    outcome.refused = PyList_New(0);
    if (outcome.assigned && outcome.started && outcome.refused) {
        self->is_broken = group_apply(&self->state, &operation, &outcome) != 0;
        if (!self->is_broken) {
            const char *checkpoint = (const char *)operation.checkpoint;
            Py_ssize_t bytes = checkpoint ? (const char *)operation.end - checkpoint : 0;
            answer = Py_BuildValue("(HIIBOOOOy#)", operation.seat, operation.generation, operation.number, operation.flags,
                                   outcome.counted ? Py_True : Py_False, outcome.assigned, outcome.started, outcome.refused,
                                   checkpoint, bytes);
        }
    }
    Py_XDECREF(outcome.assigned);
    Py_XDECREF(outcome.started);
    Py_XDECREF(outcome.refused);
    PyBuffer_Release(&buffer);
    return answer;
}

/* ---- checkpoints ---- */

static int compare_indexes(const void *one, const void *other)
{
    const uint64_t *a = one, *b = other;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

/* Pairs of sequence and index of all items, by sequence; NULL if memory ran out. */
static uint64_t (*sorted_items(const struct group_state *state))[2]
{
    uint64_t(*pairs)[2] = calloc((size_t)state->item_count + 1, sizeof *pairs);
    size_t slot = 0, count = 0;
    int64_t sequence;
    uint32_t index;

    if (!pairs)
        return NULL;
    while (id_table_next(&state->by_sequence, &slot, &sequence, &index)) {
        pairs[count][0] = (uint64_t)sequence;
        pairs[count++][1] = index;
    }
    qsort(pairs, count, sizeof *pairs, compare_indexes);
    return pairs;
}

static uint8_t *pack_head(const struct group_state *state, uint8_t *at, uint16_t seats, uint16_t generations)
{
    static const int counter_places[COUNTERS] = {
        CHECKPOINT_STATE_DONE, CHECKPOINT_STATE_STARTED, CHECKPOINT_STATE_FAILED, CHECKPOINT_STATE_DIED,
        CHECKPOINT_STATE_EXPIRED, CHECKPOINT_STATE_DEAD, CHECKPOINT_STATE_GONE, CHECKPOINT_STATE_VOID};

    memset(at, 0, CHECKPOINT_STATE_BYTES);
    put_u32(at + CHECKPOINT_STATE_EPOCH, state->epoch);
    put_u64(at + CHECKPOINT_STATE_CLOCK_NS, state->clock_ns);
    if (state->has_clock) {
        at[CHECKPOINT_STATE_HAS_CLOCK] = 1;
        memcpy(at + CHECKPOINT_STATE_BOOT, state->boot, sizeof state->boot);
        put_u64(at + CHECKPOINT_STATE_OFFSET_NS, (uint64_t)state->offset_ns);
    }
    put_u64(at + CHECKPOINT_STATE_NEXT, state->next);
    put_u64(at + CHECKPOINT_STATE_KNOWN_END, state->known_end);
    if (state->has_witness) {
        at[CHECKPOINT_STATE_HAS_WITNESS] = 1;
        put_u32(at + CHECKPOINT_STATE_END_NUMBER, state->end_number);
        put_u64(at + CHECKPOINT_STATE_END_OFFSET, state->end_offset);
        put_u32(at + CHECKPOINT_STATE_LAST_CRC, state->last_crc);
    }
    at[CHECKPOINT_STATE_FLAGS] = (uint8_t)((state->is_paused ? PAUSED : 0) | (state->is_deleted ? DELETED_FLAG : 0) |
                                           (state->took_new ? TOOK_NEW : 0));
    put_u64(at + CHECKPOINT_STATE_LETTERS, state->letters);
    for (int counter = 0; counter < COUNTERS; counter++)
        put_u64(at + counter_places[counter], state->counters[counter]);
    put_u16(at + CHECKPOINT_STATE_SETTING_COUNT, SETTING_COUNT - RULES);
    put_u16(at + CHECKPOINT_STATE_SEAT_COUNT, seats);
    put_u16(at + CHECKPOINT_STATE_GENERATION_COUNT, generations);
    put_u32(at + CHECKPOINT_STATE_ITEM_COUNT, state->item_count);
    put_u32(at + CHECKPOINT_STATE_FACT_COUNT, (uint32_t)state->facts_count);
    return at + CHECKPOINT_STATE_BYTES;
}

static uint8_t *pack_item(const struct item *item, uint8_t *at)
{
    put_u64(at + CHECKPOINT_ITEM_SEQUENCE, item->sequence);
    at[CHECKPOINT_ITEM_STATE] = item->state;
    at[CHECKPOINT_ITEM_IS_SUSPECT] = item->is_suspect;
    put_u16(at + CHECKPOINT_ITEM_SEAT, item->seat);
    put_u32(at + CHECKPOINT_ITEM_DELIVERY, item->delivery);
    put_u32(at + CHECKPOINT_ITEM_UNCOUNTED, item->uncounted);
    put_u32(at + CHECKPOINT_ITEM_DEATHS, item->deaths);
    put_u64(at + CHECKPOINT_ITEM_LETTER, item->letter);
    put_u64(at + CHECKPOINT_ITEM_KEY_HASH, item->key_hash);
    put_u64(at + CHECKPOINT_ITEM_EXPIRY_NS, item->expiry_ns);
    put_u64(at + CHECKPOINT_ITEM_DUE_NS, item->due_ns);
    put_u16(at + CHECKPOINT_ITEM_REASON_BYTES, item->reason_bytes);
    if (item->reason_bytes)
        memcpy(at + CHECKPOINT_ITEM_BYTES, item->reason, item->reason_bytes);
    return at + CHECKPOINT_ITEM_BYTES + item->reason_bytes;
}

static PyObject *pack(PyObject *object, PyObject *unused)
{
    struct group_state *state = usable(object);
    size_t bytes = CHECKPOINT_STATE_BYTES + (SETTING_COUNT - RULES) * GROUP_SETTING_BYTES;
    uint16_t seats = 0, generations = 0;

    (void)unused;
    uint64_t(*pairs)[2] = state ? sorted_items(state) : NULL;
    if (!pairs)
        return state ? PyErr_NoMemory() : NULL;
    for (int number = 0; number < SEATS_MAX; number++) {
        const struct seat *seat = &state->seats[number];
        seats += seat->is_alive;
        generations += seat->last_generation != 0;
        bytes += (seat->is_alive ? CHECKPOINT_MEMBER_BYTES + (size_t)seat->hint_bytes : 0) +
                 (seat->last_generation ? GROUP_SEAT_BYTES : 0);
    }
    for (uint32_t number = 0; number < state->item_count; number++)
        bytes += CHECKPOINT_ITEM_BYTES + (size_t)state->items[pairs[number][1]].reason_bytes;
    bytes += state->facts_count * GROUP_MESSAGE_BYTES;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    uint8_t *at = packed ? (uint8_t *)PyBytes_AsString(packed) : NULL;
    if (!at) {
        free(pairs);
        return NULL;
    }
    at = pack_head(state, at, seats, generations);
    for (int setting = RULES; setting < SETTING_COUNT; setting++, at += GROUP_SETTING_BYTES) {
        put_u16(at, (uint16_t)setting);
        put_u64(at + GROUP_SETTING_VALUE, state->settings[setting]);
    }
    for (int number = 0; number < SEATS_MAX; number++) {
        const struct seat *seat = &state->seats[number];
        if (!seat->is_alive)
            continue;
        put_u16(at + CHECKPOINT_MEMBER_SEAT, (uint16_t)number);
        put_u32(at + CHECKPOINT_MEMBER_GENERATION, seat->generation);
        put_u64(at + CHECKPOINT_MEMBER_LEASE_NS, seat->lease_ns);
        put_u16(at + CHECKPOINT_MEMBER_HINT_BYTES, seat->hint_bytes);
        if (seat->hint_bytes)
            memcpy(at + CHECKPOINT_MEMBER_BYTES, seat->hint, seat->hint_bytes);
        at += CHECKPOINT_MEMBER_BYTES + seat->hint_bytes;
    }
    for (int number = 0; number < SEATS_MAX; number++)
        if (state->seats[number].last_generation) {
            put_u16(at + GROUP_SEAT_SEAT, (uint16_t)number);
            put_u32(at + GROUP_SEAT_GENERATION, state->seats[number].last_generation);
            at += GROUP_SEAT_BYTES;
        }
    for (uint32_t number = 0; number < state->item_count; number++)
        at = pack_item(&state->items[pairs[number][1]], at);
    for (size_t number = 0; number < state->facts_count; number++, at += GROUP_MESSAGE_BYTES) {
        const struct facts *facts = &state->facts[(state->facts_first + number) % state->facts_capacity];
        put_u64(at + GROUP_MESSAGE_KEY_HASH, facts->key_hash);
        put_u64(at + GROUP_MESSAGE_DUE_NS, facts->due_ns);
        put_u64(at + GROUP_MESSAGE_EXPIRY_NS, facts->expiry_ns);
    }
    free(pairs);
    return packed;
}

/* The bytes of a checkpoint that are left. */
struct source {
    const uint8_t *at, *end;
};

static const uint8_t *take(struct source *source, size_t bytes)
{
    const uint8_t *at = source->at;
    if ((size_t)(source->end - at) < bytes)
        return NULL;
    source->at += bytes;
    return at;
}

static int load_head(struct group_state *state, const uint8_t *at)
{
    static const int counter_places[COUNTERS] = {
        CHECKPOINT_STATE_DONE, CHECKPOINT_STATE_STARTED, CHECKPOINT_STATE_FAILED, CHECKPOINT_STATE_DIED,
        CHECKPOINT_STATE_EXPIRED, CHECKPOINT_STATE_DEAD, CHECKPOINT_STATE_GONE, CHECKPOINT_STATE_VOID};

    state->is_created = 1;
    state->epoch = get_u32(at + CHECKPOINT_STATE_EPOCH);
    state->clock_ns = get_u64(at + CHECKPOINT_STATE_CLOCK_NS);
    state->has_clock = at[CHECKPOINT_STATE_HAS_CLOCK] != 0;
    memcpy(state->boot, at + CHECKPOINT_STATE_BOOT, sizeof state->boot);
    state->offset_ns = (int64_t)get_u64(at + CHECKPOINT_STATE_OFFSET_NS);
    state->next = get_u64(at + CHECKPOINT_STATE_NEXT);
    state->known_end = get_u64(at + CHECKPOINT_STATE_KNOWN_END);
    state->has_witness = at[CHECKPOINT_STATE_HAS_WITNESS] != 0;
    state->end_number = get_u32(at + CHECKPOINT_STATE_END_NUMBER);
    state->end_offset = get_u64(at + CHECKPOINT_STATE_END_OFFSET);
    state->last_crc = get_u32(at + CHECKPOINT_STATE_LAST_CRC);
    state->is_paused = (at[CHECKPOINT_STATE_FLAGS] & PAUSED) != 0;
    state->is_deleted = (at[CHECKPOINT_STATE_FLAGS] & DELETED_FLAG) != 0;
    state->took_new = (at[CHECKPOINT_STATE_FLAGS] & TOOK_NEW) != 0;
    state->letters = get_u64(at + CHECKPOINT_STATE_LETTERS);
    for (int counter = 0; counter < COUNTERS; counter++)
        state->counters[counter] = get_u64(at + counter_places[counter]);
    return state->next <= state->known_end;
}

static int load_seats(struct group_state *state, struct source *source, uint16_t seats, uint16_t generations)
{
    const uint8_t *at, *hint;

    while (seats--) {
        if (!(at = take(source, CHECKPOINT_MEMBER_BYTES)) || get_u16(at) >= SEATS_MAX || state->seats[get_u16(at)].is_alive)
            return 0;
        struct seat *seat = &state->seats[get_u16(at)];
        uint16_t bytes = get_u16(at + CHECKPOINT_MEMBER_HINT_BYTES);
        if (!(hint = take(source, bytes)))
            return 0;
        seat->is_alive = 1;
        state->living++;
        seat->generation = get_u32(at + CHECKPOINT_MEMBER_GENERATION);
        seat->lease_ns = get_u64(at + CHECKPOINT_MEMBER_LEASE_NS);
        if (bytes && !(seat->hint = malloc(bytes)))
            return 0;
        if (bytes)
            memcpy(seat->hint, hint, bytes);
        seat->hint_bytes = bytes;
    }
    while (generations--) {
        if (!(at = take(source, GROUP_SEAT_BYTES)) || get_u16(at) >= SEATS_MAX)
            return 0;
        state->seats[get_u16(at)].last_generation = get_u32(at + GROUP_SEAT_GENERATION);
    }
    return 1;
}

/* Items that members work on are the first ones with their keys, so they are placed first. */
static int load_items(struct group_state *state, struct source *source, uint32_t count)
{
    const uint8_t *at, *reason;

    for (uint32_t number = 0; number < count; number++) {
        if (!(at = take(source, CHECKPOINT_ITEM_BYTES)))
            return 0;
        uint64_t sequence = get_u64(at + CHECKPOINT_ITEM_SEQUENCE);
        uint16_t seat = get_u16(at + CHECKPOINT_ITEM_SEAT), bytes = get_u16(at + CHECKPOINT_ITEM_REASON_BYTES);
        uint8_t kind = at[CHECKPOINT_ITEM_STATE];
        int is_in_hand = kind == ITEM_HELD || kind == ITEM_STARTED;
        if (!(reason = take(source, bytes)) || kind > ITEM_STARTED || item_find(state, sequence) != NO_ITEM ||
            is_in_hand != (seat != NO_SEAT) || (is_in_hand && (seat >= SEATS_MAX || !state->seats[seat].is_alive)))
            return 0;
        uint32_t index =
            item_new(state, sequence, get_u64(at + CHECKPOINT_ITEM_KEY_HASH), get_u64(at + CHECKPOINT_ITEM_EXPIRY_NS));
        if (index == NO_ITEM)
            return 0;
        struct item *item = &state->items[index];
        item->state = kind;
        item->is_suspect = at[CHECKPOINT_ITEM_IS_SUSPECT] != 0;
        item->delivery = get_u32(at + CHECKPOINT_ITEM_DELIVERY);
        item->uncounted = get_u32(at + CHECKPOINT_ITEM_UNCOUNTED);
        item->deaths = get_u32(at + CHECKPOINT_ITEM_DEATHS);
        item->letter = get_u64(at + CHECKPOINT_ITEM_LETTER);
        item->due_ns = get_u64(at + CHECKPOINT_ITEM_DUE_NS);
        item_set_reason(state, index, (const char *)reason, bytes);
        if (is_in_hand) {
            item_give_to(state, index, seat);
            if (item->due_ns)
                item_set_deadline(state, index, item->due_ns);
        }
    }
    /* In a new array the items are in the order of the checkpoint, which is that of their sequence numbers. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t index = 0; index < count; index++) {
            const struct item *item = &state->items[index];
            int is_at_work = item->seat != NO_SEAT && !item->letter;
            if (is_at_work == (pass == 0))
                item_place(state, index);
        }
    return !state->has_failed;
}

static int load(struct group_state *state, struct source *source)
{
    const uint8_t *head = take(source, CHECKPOINT_STATE_BYTES), *at;

    if (!head || !load_head(state, head))
        return 0;
    for (uint16_t left = get_u16(head + CHECKPOINT_STATE_SETTING_COUNT); left; left--) {
        if (!(at = take(source, GROUP_SETTING_BYTES)))
            return 0;
        uint16_t setting = get_u16(at);
        if (setting >= RULES && setting < SETTING_COUNT)
            state->settings[setting] = get_u64(at + GROUP_SETTING_VALUE);
    }
    if (!load_seats(state, source, get_u16(head + CHECKPOINT_STATE_SEAT_COUNT),
                    get_u16(head + CHECKPOINT_STATE_GENERATION_COUNT)) ||
        !load_items(state, source, get_u32(head + CHECKPOINT_STATE_ITEM_COUNT)))
        return 0;
    for (uint32_t left = get_u32(head + CHECKPOINT_STATE_FACT_COUNT); left && !state->has_failed; left--) {
        if (!(at = take(source, GROUP_MESSAGE_BYTES)))
            return 0;
        facts_push(state, (struct facts){get_u64(at), get_u64(at + GROUP_MESSAGE_DUE_NS), get_u64(at + GROUP_MESSAGE_EXPIRY_NS)});
    }
    return source->at == source->end && !state->has_failed;
}

static PyObject *load_checkpoint(PyObject *object, PyObject *data)
{
    struct group_object *self = (struct group_object *)object;
    struct group_state loaded;
    Py_buffer buffer;

    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) != 0)
        return NULL;
    struct source source = {buffer.buf, (const uint8_t *)buffer.buf + buffer.len};
    group_state_init(&loaded);
    int is_valid = load(&loaded, &source), has_failed = loaded.has_failed;
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
    return state ? PyLong_FromUnsignedLongLong(group_available(state)) : NULL;
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
    uint64_t(*pairs)[2] = state ? sorted_items(state) : NULL;
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
    {"pack", pack, METH_NOARGS, "The state as bytes."},
    {"load", load_checkpoint, METH_O, "Take the state that `pack` made bytes of.  Raises: ValueError."},
    {"floor", floor_of, METH_NOARGS, "The smallest sequence that is not done."},
    {"available", available_of, METH_NOARGS, "How many items a member may get now, except for limits."},
    {"next_due_ns", next_due, METH_NOARGS, "The group time at which the next item becomes ready, or None."},
    {"clock", clock_of, METH_NOARGS, "The boot's id and the offset of group time, or None."},
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
    STATE_MEMBER(in_hand, T_UINT),     STATE_MEMBER(item_count, T_UINT),    STATE_MEMBER(is_paused, T_BOOL),
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
