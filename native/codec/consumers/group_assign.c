/* Assignment: which items a member gets that asks for some (rules 7, 9, 10 and 12). */
#include "group_state.h"

#include <stdlib.h>
#include <string.h>

static const char EXPIRED[] = "expired";

/* ---- facts about messages that were not assigned yet: a ring ---- */

void facts_push(struct group_state *state, struct facts facts)
{
    if (state->facts_count == state->facts_capacity) {
        size_t capacity = state->facts_capacity ? 2 * state->facts_capacity : 64;
        struct facts *larger = malloc(capacity * sizeof *larger);
        if (!larger) {
            state->has_failed = 1;
            return;
        }
        for (size_t at = 0; at < state->facts_count; at++)
            larger[at] = state->facts[(state->facts_first + at) % state->facts_capacity];
        free(state->facts);
        state->facts = larger;
        state->facts_first = 0;
        state->facts_capacity = capacity;
    }
    state->facts[(state->facts_first + state->facts_count++) % state->facts_capacity] = facts;
}

struct facts facts_pop(struct group_state *state)
{
    struct facts first = state->facts[state->facts_first];
    state->facts_first = (state->facts_first + 1) % state->facts_capacity;
    state->facts_count--;
    return first;
}

/* ---- */

/* Rule 9. */
static int may_take_new(const struct group_state *state)
{
    return state->item_count - state->scheduled_count < state->settings[OUTSTANDING_MAX] && state->item_count < ITEMS_MAX;
}

uint64_t group_available(struct group_state *state)
{
    uint64_t waiting = (uint64_t)state->ready_count + state->suspect_count + (item_next_dying(state) != NO_ITEM);
    return waiting + (may_take_new(state) ? state->known_end - state->next : 0);
}

/* Rule 10.  Whether the item has expired; then it is dying, or gone. */
static int expire(struct group_state *state, uint32_t index)
{
    struct item *item = &state->items[index];

    if (!item->expiry_ns || item->expiry_ns > state->clock_ns)
        return 0;
    state->counters[COUNT_EXPIRED]++;
    if (state->settings[ON_EXPIRY] == 1)
        item_remove(state, index);
    else
        item_let_die(state, index, EXPIRED, sizeof EXPIRED - 1);
    return 1;
}

static uint32_t pick_ready(struct group_state *state)
{
    for (;;) {
        uint32_t index = state->ready_count ? item_take_ready(state, 0) : NO_ITEM;
        if (index == NO_ITEM || !expire(state, index))
            return index;
    }
}

static uint32_t pick_new(struct group_state *state)
{
    while (state->next < state->known_end && may_take_new(state) && !state->has_failed) {
        uint64_t sequence = state->next++;
        struct facts facts = {0};
        if (sequence >= state->known_end - state->facts_count)
            facts = facts_pop(state);
        if (facts.due_ns) /* it became an item when its window came */
            continue;
        uint32_t index = item_new(state, sequence, facts.key_hash, facts.expiry_ns);
        if (index == NO_ITEM)
            break;
        if (!item_queue_by_key(state, index))
            state->items[index].state = ITEM_BLOCKED;
        else if (!expire(state, index))
            return index;
    }
    return NO_ITEM;
}

static uint32_t pick(struct group_state *state, int is_alone)
{
    uint32_t index = item_next_dying(state);

    if (index != NO_ITEM) {
        heap_pop(&state->dying);
        return index;
    }
    if (state->suspect_count)
        return is_alone ? item_take_ready(state, 1) : NO_ITEM;
    state->took_new = !state->took_new;
    index = state->took_new ? pick_new(state) : pick_ready(state);
    if (index == NO_ITEM)
        index = state->took_new ? pick_ready(state) : pick_new(state);
    return index;
}

/* Rule 4.  Return the delivery, 0 if the member does not have the item or has started it. */
uint32_t group_start(struct group_state *state, uint64_t sequence, uint16_t seat)
{
    uint32_t index = item_find(state, sequence);
    struct item *item = &state->items[index];

    if (index == NO_ITEM || item->seat != seat || item->state != ITEM_HELD || item->letter)
        return 0;
    item->state = ITEM_STARTED;
    item->delivery += item->delivery < UINT32_MAX;
    state->counters[COUNT_STARTED]++;
    uint64_t lease_ns = state->seats[seat].lease_ns;
    if (lease_ns)
        item_set_deadline(state, index, state->clock_ns > UINT64_MAX - lease_ns ? UINT64_MAX : state->clock_ns + lease_ns);
    return state->items[index].delivery;
}

/* Rule 7.  `assigned` has room for `want` items; returns how many there are. */
size_t group_assign(struct group_state *state, uint16_t number, uint16_t want, int starts_first, struct assigned *assigned)
{
    struct seat *seat = &state->seats[number];
    size_t got = 0;

    if (!seat->is_alive || state->is_paused)
        return 0;
    uint64_t available = group_available(state);
    uint64_t share = available / state->living + (available % state->living != 0);
    uint64_t count = want < share ? want : share ? share : 1;
    if (count > want)
        count = want;
    if (state->settings[IN_HAND_MAX]) {
        uint64_t left = state->settings[IN_HAND_MAX] > state->in_hand ? state->settings[IN_HAND_MAX] - state->in_hand : 0;
        count = count < left ? count : left;
    }
    while (got < count && !seat->suspects && !state->has_failed) {
        uint32_t index = pick(state, seat->held == 0);
        if (index == NO_ITEM)
            break;
        item_give_to(state, index, number);
        struct item *item = &state->items[index];
        item->state = ITEM_HELD;
        struct assigned one = {item->sequence, item->letter, item->delivery, got == 0 && starts_first && !item->letter};
        if (one.is_started)
            one.delivery = group_start(state, one.sequence, number);
        assigned[got++] = one;
    }
    return got;
}
