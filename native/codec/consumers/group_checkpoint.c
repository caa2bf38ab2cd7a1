/* Checkpoints: the state of a group as bytes, equal for equal states; see CHECKPOINT_STATE in layout.h. */
#include <Python.h>

#include "big_endian.h"
#include "group_apply.h"
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#define PAUSED 1
#define DELETED_FLAG 2
#define TOOK_NEW 4

static int compare_indexes(const void *one, const void *other)
{
    const uint64_t *a = one, *b = other;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

/* Pairs of sequence and index of all items, by sequence; NULL if memory ran out. */
uint64_t (*group_sorted_items(const struct group_state *state))[2]
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

PyObject *group_pack(const struct group_state *state)
{
    size_t bytes = CHECKPOINT_STATE_BYTES + (SETTING_COUNT - RULES) * GROUP_SETTING_BYTES;
    uint16_t seats = 0, generations = 0;

    uint64_t(*pairs)[2] = group_sorted_items(state);
    if (!pairs)
        return PyErr_NoMemory();
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

int group_load(struct group_state *state, const uint8_t *data, size_t bytes)
{
    struct source whole = {data, data + bytes}, *source = &whole;
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
