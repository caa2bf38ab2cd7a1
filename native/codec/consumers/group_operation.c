/* Applying an operation to the state of a group: the rules of binlog/consumers/state/group_state.py, by number. */
#include <Python.h>

#include "big_endian.h"
#include "group_apply.h"
#include "layout.h"
#include "typed_tuple.h"

#include <stdlib.h>
#include <string.h>

#define START_FIRST 1
#define WINDOW_MESSAGES_MAX 0xFFFF

static const char WORKER_DIED[] = "worker died", LEASE_ENDED[] = "lease ended";

/* Rule 1. */
static int counts(const struct group_state *state, const struct operation *operation)
{
    if (state->is_deleted || operation->epoch != state->epoch)
        return 0;
    if (!state->is_created)
        return group_has_kind(operation->first, operation->end, SETTINGS);
    int joins = group_has_kind(operation->first, operation->end, JOIN);
    if (operation->seat == NO_SEAT)
        return !operation->want && !joins;
    const struct seat *seat = &state->seats[operation->seat];
    if (joins)
        return !seat->is_alive && operation->generation == seat->last_generation + 1;
    return seat->is_alive && seat->generation == operation->generation;
}

static int is_last(const struct group_state *state, const struct item *item)
{
    return state->settings[DELIVERIES_MAX] && item->delivery - item->uncounted >= state->settings[DELIVERIES_MAX];
}

/* Rule 2. */
static void make_due(struct group_state *state)
{
    while (state->timed.count && state->timed.pairs[0].key <= state->clock_ns) {
        struct heap_pair pair = heap_pop(&state->timed);
        if (item_is_timed(state, &pair)) {
            uint32_t index = item_find(state, pair.sequence);
            int has_ended = state->items[index].state == ITEM_STARTED && is_last(state, &state->items[index]);
            item_detach(state, index);
            if (has_ended)
                item_let_die(state, index, LEASE_ENDED, sizeof LEASE_ENDED - 1);
            else
                item_make_ready(state, index);
        }
    }
}

static void apply_settings(struct group_state *state, const struct section *section)
{
    uint64_t start = 0;
    int has_start = 0;

    for (uint16_t number = 0; number < section->count; number++)
        if (get_u16(section->at + number * GROUP_SETTING_BYTES) == SETTING_START) {
            has_start = 1;
            start = get_u64(section->at + number * GROUP_SETTING_BYTES + GROUP_SETTING_VALUE);
        }
    if (state->is_created && has_start)
        return; /* of two processes that create the group, one does */
    for (uint16_t number = 0; number < section->count; number++) {
        uint16_t setting = get_u16(section->at + number * GROUP_SETTING_BYTES);
        uint64_t value = get_u64(section->at + number * GROUP_SETTING_BYTES + GROUP_SETTING_VALUE);
        int is_fixed = setting == RULES || setting == ORDER; /* the order is in the queues by key */
        int is_unknown = (setting == ORDER && value > ORDER_RELAXED) || (setting == ON_EXPIRY && value > 1);
        if (setting >= RULES && setting < SETTING_COUNT && !(state->is_created && is_fixed) && !is_unknown)
            state->settings[setting] = value;
    }
    if (!state->is_created) {
        state->is_created = 1;
        state->next = state->known_end = start;
    }
}

/* Rule 10. */
static void apply_window(struct group_state *state, const uint8_t *at)
{
    uint64_t first = get_u64(at + GROUP_WINDOW_FIRST);
    uint32_t count = get_u32(at + GROUP_WINDOW_MESSAGE_COUNT), entries = get_u32(at + GROUP_WINDOW_ENTRY_COUNT);
    const uint8_t *messages = at + GROUP_WINDOW_BYTES;

    if (state->known_end < first || count > WINDOW_MESSAGES_MAX || state->known_end - first >= count || first > UINT64_MAX - count)
        return;
    uint64_t skipped = state->known_end - first;
    if (entries)
        for (uint64_t index = skipped; index < count; index++) {
            const uint8_t *message = messages + index * GROUP_MESSAGE_BYTES;
            struct facts facts = {
                get_u64(message + GROUP_MESSAGE_KEY_HASH), get_u64(message + GROUP_MESSAGE_DUE_NS),
                get_u64(message + GROUP_MESSAGE_EXPIRY_NS)};
            if (facts.due_ns > state->clock_ns) {
                uint32_t item = item_new(state, first + index, facts.key_hash, facts.expiry_ns);
                if (item == NO_ITEM)
                    return;
                state->items[item].state = ITEM_DELAYED;
                state->items[item].due_ns = facts.due_ns;
                item_place(state, item);
            } else
                facts.due_ns = 0;
            facts_push(state, facts);
        }
    else if (state->facts_count)
        for (uint64_t index = skipped; index < count; index++)
            facts_push(state, (struct facts){0});
    state->known_end = first + count;
    state->has_witness = 1;
    state->end_number = get_u32(at + GROUP_WINDOW_END_NUMBER);
    state->end_offset = get_u64(at + GROUP_WINDOW_END_OFFSET);
    state->last_crc = get_u32(at + GROUP_WINDOW_LAST_CRC);
}

/* Rule 11. */
static void apply_gone(struct group_state *state, uint64_t first, uint64_t end)
{
    for (uint32_t index = 0; index < state->item_end; index++) {
        uint64_t sequence = state->items[index].sequence;
        if (sequence >= first && sequence < end && item_find(state, sequence) == index) {
            item_remove(state, index);
            state->counters[COUNT_GONE]++;
        }
    }
    if (first <= state->next && state->next < end) {
        state->counters[COUNT_GONE] += end - state->next;
        while (state->facts_count && state->known_end - state->facts_count < end)
            facts_pop(state);
        state->next = end;
        if (state->known_end < end)
            state->known_end = end;
    }
}

static int by_sequence(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* Rule 13.  Items that stay are removed and come back as new places in the queues. */
static void reset(struct group_state *state, uint64_t to, int keeps)
{
    struct kept {
        uint64_t sequence; /* first, for by_sequence */
        struct item item;
    } *kept = calloc((size_t)state->item_count + 1, sizeof *kept);
    size_t count = 0;

    if (!kept) {
        state->has_failed = 1;
        return;
    }
    state->epoch++;
    for (uint32_t index = 0; index < state->item_end; index++) {
        struct item *item = &state->items[index];
        if (item_find(state, item->sequence) != index)
            continue;
        if (keeps && item->sequence < to) {
            kept[count++] = (struct kept){item->sequence, *item};
            item->reason = NULL; /* it moves */
        }
        item_remove(state, index);
    }
    state->facts_count = 0;
    state->next = state->known_end = to;
    state->has_witness = 0;
    qsort(kept, count, sizeof *kept, by_sequence);
    for (size_t at = 0; at < count; at++) {
        struct item *from = &kept[at].item;
        uint32_t index = item_new(state, from->sequence, from->key_hash, from->expiry_ns);
        if (index == NO_ITEM) {
            free(from->reason);
            continue;
        }
        struct item *item = &state->items[index];
        item->letter = from->letter;
        item->delivery = from->delivery;
        item->uncounted = from->uncounted + (from->state == ITEM_STARTED); /* the member has not failed */
        item->deaths = from->deaths;
        item->is_suspect = from->is_suspect;
        item->reason = from->reason;
        item->reason_bytes = from->reason_bytes;
        item->state = ITEM_READY;
        item_place(state, index);
    }
    free(kept);
}

/* Rule 3.  The item whose last delivery this is, or NO_ITEM. */
static uint32_t last_delivery(const struct group_state *state, uint64_t sequence, uint32_t delivery)
{
    uint32_t index = item_find(state, sequence);

    if (index == NO_ITEM || state->items[index].delivery != delivery)
        return NO_ITEM;
    return delivery || state->items[index].letter ? index : NO_ITEM;
}

/* Rule 6. */
static void return_of_dead(struct group_state *state, uint32_t index)
{
    struct item *item = &state->items[index];
    uint64_t wait_ns = 0;

    item_detach(state, index);
    item->deaths += item->deaths < UINT32_MAX;
    item->is_suspect = 1;
    if (is_last(state, item)) {
        item_let_die(state, index, WORKER_DIED, sizeof WORKER_DIED - 1);
        return;
    }
    if (item->deaths > 1) {
        uint32_t doublings = item->deaths - 2 < 62 ? item->deaths - 2 : 62;
        uint64_t first = state->settings[FIRST_NS], most = state->settings[MOST_NS];
        wait_ns = first > most >> doublings ? most : first << doublings;
        if (wait_ns > most)
            wait_ns = most;
    }
    item_return(state, index, state->clock_ns > UINT64_MAX - wait_ns ? UINT64_MAX : state->clock_ns + wait_ns);
}

static void remove_seat(struct group_state *state, uint16_t number, int died)
{
    struct seat *seat = &state->seats[number];
    uint64_t *sequences = calloc((size_t)seat->held + 1, sizeof *sequences);
    size_t count = 0;

    if (!sequences) {
        state->has_failed = 1;
        return;
    }
    for (uint32_t index = seat->first; index != NO_ITEM; index = state->items[index].seat_after)
        sequences[count++] = state->items[index].sequence;
    qsort(sequences, count, sizeof *sequences, by_sequence);
    seat->is_alive = 0;
    state->living--;
    state->membership++;
    state->counters[COUNT_DIED] += (uint64_t)died;
    for (size_t at = 0; at < count; at++) {
        uint32_t index = item_find(state, sequences[at]);
        if (state->items[index].state != ITEM_STARTED)
            item_return(state, index, 0);
        else if (died)
            return_of_dead(state, index);
        else {
            state->items[index].uncounted++;
            item_return(state, index, 0);
        }
    }
    free(sequences);
}

static void join(struct group_state *state, const struct operation *operation, const uint8_t *at)
{
    struct seat *seat = &state->seats[operation->seat];
    uint16_t hint_bytes = get_u16(at + GROUP_JOIN_HINT_BYTES);
    char *hint = hint_bytes ? malloc(hint_bytes) : NULL;

    if (hint_bytes && !hint)
        state->has_failed = 1;
    if (hint)
        memcpy(hint, at + GROUP_JOIN_BYTES, hint_bytes);
    free(seat->hint);
    state->living += !seat->is_alive;
    seat->is_alive = 1;
    seat->generation = seat->last_generation = operation->generation;
    seat->lease_ns = get_u64(at + GROUP_JOIN_LEASE_NS);
    seat->hint = hint;
    seat->hint_bytes = hint ? hint_bytes : 0;
    state->membership++;
}

/* Whether the member has the item, in this delivery. */
static int give_back(struct group_state *state, uint64_t sequence, uint32_t delivery, uint16_t seat)
{
    uint32_t index = item_find(state, sequence);

    if (index == NO_ITEM || seat == NO_SEAT || state->items[index].seat != seat || state->items[index].delivery != delivery)
        return 0;
    state->items[index].uncounted += state->items[index].state == ITEM_STARTED;
    item_return(state, index, 0);
    return 1;
}

/* Rule 14. */
static void deliver_again(struct group_state *state, uint64_t sequence, uint32_t delivery, uint64_t key_hash)
{
    uint32_t index = item_find(state, sequence);

    if (index != NO_ITEM) {
        if (state->items[index].state == ITEM_DELAYED) {
            item_detach(state, index);
            item_make_ready(state, index);
        }
        return;
    }
    if (!delivery || sequence >= state->next || (index = item_new(state, sequence, key_hash, 0)) == NO_ITEM)
        return;
    /* More than all starts: another operator may have sent the message back, and it was delivered meanwhile. */
    uint64_t least = state->counters[COUNT_STARTED] < UINT32_MAX ? state->counters[COUNT_STARTED] + 1 : UINT32_MAX;
    state->items[index].delivery = state->items[index].uncounted = delivery > least ? delivery : (uint32_t)least;
    item_make_ready(state, index);
}

/* Appends to a list, or does nothing if the list is NULL; takes over the reference.  Returns -1 with an exception set. */
static int append_to(PyObject *list, PyObject *value)
{
    int result = value && list ? PyList_Append(list, value) : value ? 0 : -1;
    Py_XDECREF(value);
    return result;
}

static int append_delivery(const struct outcome *outcome, PyObject *list, uint64_t sequence, uint32_t delivery)
{
    if (!list)
        return 0;
    return append_to(list, pair_tuple(outcome->types->delivery, PyLong_FromUnsignedLongLong(sequence), PyLong_FromUnsignedLong(delivery)));
}

static int append_assigned(const struct outcome *outcome, const struct assigned *one)
{
    PyObject *values[] = {PyLong_FromUnsignedLongLong(one->sequence), PyLong_FromUnsignedLong(one->delivery),
                          PyBool_FromLong(one->is_started), PyLong_FromUnsignedLongLong(one->letter)};
    return append_to(outcome->assigned, typed_tuple(outcome->types->assigned, values, 4));
}

/* Returns -1 with an exception set if a list cannot grow. */
static int apply_deliveries(struct group_state *state, const struct section *section, uint16_t seat, const struct outcome *outcome)
{
    const uint8_t *at = section->at;

    for (uint16_t number = 0; number < section->count; number++) {
        uint64_t sequence = get_u64(at);
        uint32_t delivery = get_u32(at + GROUP_DELIVERY_DELIVERY), index = last_delivery(state, sequence, delivery);
        struct item *item = &state->items[index];
        int is_refused = index == NO_ITEM;
        if (section->kind == DONE) {
            is_refused = is_refused || (item->letter && (seat == NO_SEAT || item->seat != seat));
            if (!is_refused) {
                state->counters[item->letter ? COUNT_DEAD : COUNT_DONE]++;
                item_remove(state, index);
            }
            at += GROUP_DELIVERY_BYTES;
        } else if (section->kind == EXTEND) {
            uint64_t deadline_ns = get_u64(at + GROUP_EXTENSION_DEADLINE_NS);
            is_refused = is_refused || item->state != ITEM_STARTED;
            if (!is_refused && deadline_ns > state->clock_ns)
                item_set_deadline(state, index, deadline_ns);
            else if (!is_refused)
                item_return(state, index, 0);
            at += GROUP_EXTENSION_BYTES;
        } else {
            const char *reason = (const char *)at + GROUP_FAILURE_BYTES;
            size_t reason_bytes = get_u16(at + GROUP_FAILURE_REASON_BYTES);
            is_refused = is_refused || item->letter;
            if (!is_refused) {
                uint64_t due_ns = get_u64(at + GROUP_FAILURE_DUE_NS);
                state->counters[COUNT_FAILED]++;
                item_detach(state, index);
                item->is_suspect = 0; /* its member is alive */
                if (section->kind == REJECT || is_last(state, item))
                    item_let_die(state, index, reason, reason_bytes);
                else
                    item_return(state, index, due_ns);
            }
            at += GROUP_FAILURE_BYTES + reason_bytes;
        }
        if (is_refused && append_delivery(outcome, outcome->refused, sequence, delivery) != 0)
            return -1;
    }
    return 0;
}

static int apply_section(struct group_state *state, const struct operation *operation, const struct section *section,
                         struct outcome *outcome)
{
    const uint8_t *at = section->at;

    switch (section->kind) {
    case DONE: case RETRY: case REJECT: case EXTEND:
        return apply_deliveries(state, section, operation->seat, outcome);
    case START:
        for (uint16_t number = 0; number < section->count; number++, at += GROUP_SEQUENCE_BYTES) {
            uint32_t delivery = operation->seat == NO_SEAT ? 0 : group_start(state, get_u64(at), operation->seat);
            if (delivery && append_delivery(outcome, outcome->started, get_u64(at), delivery) != 0)
                return -1;
        }
        break;
    case BACK:
        for (uint16_t number = 0; number < section->count; number++, at += GROUP_DELIVERY_BYTES) {
            uint32_t delivery = get_u32(at + GROUP_DELIVERY_DELIVERY);
            if (!give_back(state, get_u64(at), delivery, operation->seat) &&
                append_delivery(outcome, outcome->refused, get_u64(at), delivery) != 0)
                return -1;
        }
        break;
    case WINDOW:
        apply_window(state, at);
        break;
    case JOIN:
        join(state, operation, at);
        break;
    case LEAVE:
        if (operation->seat != NO_SEAT && state->seats[operation->seat].is_alive)
            remove_seat(state, operation->seat, 0);
        break;
    case DEATH:
        for (uint16_t number = 0; number < section->count; number++, at += GROUP_SEAT_BYTES) {
            uint16_t seat = get_u16(at);
            if (seat < SEATS_MAX && state->seats[seat].is_alive && state->seats[seat].generation == get_u32(at + GROUP_SEAT_GENERATION))
                remove_seat(state, seat, 1);
        }
        break;
    case AGAIN:
        for (uint16_t number = 0; number < section->count; number++, at += GROUP_AGAIN_BYTES)
            deliver_again(state, get_u64(at), get_u32(at + GROUP_AGAIN_DELIVERY), get_u64(at + GROUP_AGAIN_KEY_HASH));
        break;
    case GONE:
        for (uint16_t number = 0; number < section->count; number++, at += GROUP_RANGE_BYTES)
            apply_gone(state, get_u64(at), get_u64(at + GROUP_RANGE_END));
        break;
    case PAUSE: case RESUME:
        state->is_paused = section->kind == PAUSE;
        break;
    case SETTINGS:
        apply_settings(state, section);
        break;
    case CLOCK:
        if (!state->has_clock || memcmp(state->boot, at, sizeof state->boot) != 0) {
            state->has_clock = 1;
            memcpy(state->boot, at, sizeof state->boot);
            state->offset_ns = (int64_t)get_u64(at + GROUP_CLOCK_OFFSET_NS);
        }
        break;
    case RESET:
        reset(state, get_u64(at), at[GROUP_RESET_KEEPS] != 0);
        break;
    case DELETED:
        state->is_deleted = 1;
        break;
    }
    return 0;
}

int group_apply(struct group_state *state, const struct operation *operation, struct outcome *outcome)
{
    const uint8_t *at = operation->first;
    struct section section;

    outcome->counted = counts(state, operation);
    if (!outcome->counted) {
        state->counters[COUNT_VOID]++;
        return 0;
    }
    if (state->clock_ns < operation->time_ns)
        state->clock_ns = operation->time_ns;
    make_due(state);
    while (group_next_section(&at, operation->end, &section) > 0)
        if (apply_section(state, operation, &section, outcome) != 0)
            return -1;
    if (operation->want && operation->seat != NO_SEAT) {
        struct assigned *assigned = malloc(operation->want * sizeof *assigned);
        size_t count = 0;
        if (assigned)
            count = group_assign(state, operation->seat, operation->want, operation->flags & START_FIRST, assigned);
        else
            state->has_failed = 1;
        int result = 0;
        for (size_t number = 0; number < count && outcome->assigned && result == 0; number++)
            result = append_assigned(outcome, &assigned[number]);
        free(assigned);
        if (result != 0)
            return -1;
    }
    if (state->has_failed) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}
