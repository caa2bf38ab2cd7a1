/* The outstanding items of a group, and the queues that follow from them: by seat, by key, ready, timed and dying. */
#include "group_state.h"

#include <stdlib.h>
#include <string.h>

#define ITEM(index) (&state->items[index])

void group_state_init(struct group_state *state)
{
    memset(state, 0, sizeof *state);
    state->free_item = state->free_key = NO_ITEM;
    state->settings[RULES] = 1;
    state->settings[DELIVERIES_MAX] = 10;
    state->settings[FIRST_NS] = UINT64_C(1000000000);
    state->settings[MOST_NS] = UINT64_C(3600000000000);
    state->settings[OUTSTANDING_MAX] = 65536;
    state->settings[FACTOR_PERCENT] = 200;
    state->settings[JITTER_PERCENT] = 10;
    for (int number = 0; number < SEATS_MAX; number++)
        state->seats[number].first = NO_ITEM;
}

void group_state_free(struct group_state *state)
{
    for (uint32_t index = 0; index < state->item_end; index++)
        free(state->items[index].reason);
    for (int number = 0; number < SEATS_MAX; number++)
        free(state->seats[number].hint);
    free(state->items);
    free(state->keys);
    free(state->facts);
    id_table_free(&state->by_sequence);
    id_table_free(&state->by_key);
    heap_free(&state->ready);
    heap_free(&state->suspects);
    heap_free(&state->timed);
    heap_free(&state->dying);
    memset(state, 0, sizeof *state);
}

static void push(struct group_state *state, struct heap *heap, uint64_t key, uint64_t sequence)
{
    if (heap_push(heap, key, sequence) != 0)
        state->has_failed = 1;
}

uint32_t item_find(const struct group_state *state, uint64_t sequence)
{
    return id_table_get(&state->by_sequence, (int64_t)sequence); /* ID_TABLE_NONE is NO_ITEM */
}

/* Room for one more in an array whose free places are linked; 0 if memory ran out. */
static int grow(void **array, uint32_t *capacity, size_t size)
{
    uint32_t larger = *capacity ? 2 * *capacity : 64;
    void *moved = realloc(*array, larger * size);
    if (!moved)
        return 0;
    *array = moved;
    *capacity = larger;
    return 1;
}

uint32_t item_new(struct group_state *state, uint64_t sequence, uint64_t key_hash, uint64_t expiry_ns)
{
    uint32_t index = state->free_item;

    if (index != NO_ITEM)
        state->free_item = ITEM(index)->key_after;
    else if (state->item_end < state->item_capacity || grow((void **)&state->items, &state->item_capacity, sizeof *state->items))
        index = state->item_end++;
    if (index == NO_ITEM || id_table_set(&state->by_sequence, (int64_t)sequence, index) != 0) {
        state->has_failed = 1;
        return NO_ITEM;
    }
    *ITEM(index) = (struct item){
        .sequence = sequence, .key_hash = key_hash, .expiry_ns = expiry_ns, .seat = NO_SEAT,
        .key_before = NO_ITEM, .key_after = NO_ITEM, .seat_before = NO_ITEM, .seat_after = NO_ITEM,
    };
    state->item_count++;
    return index;
}

/* ---- by seat ---- */

void item_give_to(struct group_state *state, uint32_t index, uint16_t number)
{
    struct item *item = ITEM(index);
    struct seat *seat = &state->seats[number];

    item->seat = number;
    item->seat_before = NO_ITEM;
    item->seat_after = seat->first;
    if (seat->first != NO_ITEM)
        ITEM(seat->first)->seat_before = index;
    seat->first = index;
    seat->held++;
    seat->suspects += item->is_suspect;
    state->in_hand++;
    state->letters_in_hand += item->letter != 0;
}

static void leave_seat(struct group_state *state, struct item *item)
{
    struct seat *seat = &state->seats[item->seat];

    if (item->seat_before != NO_ITEM)
        ITEM(item->seat_before)->seat_after = item->seat_after;
    else
        seat->first = item->seat_after;
    if (item->seat_after != NO_ITEM)
        ITEM(item->seat_after)->seat_before = item->seat_before;
    item->seat_before = item->seat_after = NO_ITEM;
    seat->held--;
    seat->suspects -= item->is_suspect;
    state->in_hand--;
    state->letters_in_hand -= item->letter != 0;
    item->seat = NO_SEAT;
}

/* ---- ready, suspects and scheduled ---- */

static void enqueue(struct group_state *state, struct item *item)
{
    int is_suspect = item->is_suspect;

    if (item->queued)
        return;
    item->queued = is_suspect ? AMONG_SUSPECTS : AMONG_READY;
    *(is_suspect ? &state->suspect_count : &state->ready_count) += 1;
    push(state, is_suspect ? &state->suspects : &state->ready, item->sequence, item->sequence);
}

static void dequeue(struct group_state *state, struct item *item)
{
    state->ready_count -= item->queued == AMONG_READY;
    state->suspect_count -= item->queued == AMONG_SUSPECTS;
    state->scheduled_count -= item->queued == AMONG_SCHEDULED;
    item->queued = NOT_QUEUED;
}

uint32_t item_take_ready(struct group_state *state, int suspects)
{
    struct heap *heap = suspects ? &state->suspects : &state->ready;

    while (heap->count) {
        uint32_t index = item_find(state, heap_pop(heap).sequence);
        if (index != NO_ITEM && ITEM(index)->queued == (suspects ? AMONG_SUSPECTS : AMONG_READY)) {
            dequeue(state, ITEM(index));
            return index;
        }
    }
    return NO_ITEM;
}

void item_detach(struct group_state *state, uint32_t index)
{
    dequeue(state, ITEM(index));
    if (ITEM(index)->seat != NO_SEAT)
        leave_seat(state, ITEM(index));
}

/* ---- by key ---- */

static uint32_t queue_of(struct group_state *state, uint64_t key_hash)
{
    uint32_t number = id_table_get(&state->by_key, (int64_t)key_hash);

    if (number != ID_TABLE_NONE)
        return number;
    number = state->free_key;
    if (number != NO_ITEM)
        state->free_key = state->keys[number].first;
    else if (state->key_count < state->key_capacity || grow((void **)&state->keys, &state->key_capacity, sizeof *state->keys))
        number = state->key_count++;
    if (number == NO_ITEM || id_table_set(&state->by_key, (int64_t)key_hash, number) != 0) {
        state->has_failed = 1;
        return NO_ITEM;
    }
    state->keys[number] = (struct key_queue){NO_ITEM, NO_ITEM};
    return number;
}

static void unlink_key(struct group_state *state, struct key_queue *queue, struct item *item)
{
    if (item->key_before != NO_ITEM)
        ITEM(item->key_before)->key_after = item->key_after;
    else
        queue->first = item->key_after;
    if (item->key_after != NO_ITEM)
        ITEM(item->key_after)->key_before = item->key_before;
    else
        queue->last = item->key_before;
    item->key_before = item->key_after = NO_ITEM;
    item->has_key = 0;
}

static void unblock(struct group_state *state, uint32_t index)
{
    if (ITEM(index)->state == ITEM_BLOCKED) {
        ITEM(index)->state = ITEM_READY;
        enqueue(state, ITEM(index));
    }
}

static void block(struct group_state *state, struct item *item)
{
    if (item->state == ITEM_READY && !item->letter) {
        item->state = ITEM_BLOCKED;
        dequeue(state, item);
    }
}

static int is_at_work(const struct item *item)
{
    return item->seat != NO_SEAT && !item->letter;
}

/* Rule 8.  The order is by sequence, but the item that a member has is the first one. */
int item_queue_by_key(struct group_state *state, uint32_t index)
{
    struct item *item = ITEM(index);

    if (!item->key_hash || state->settings[ORDER] == ORDER_NONE)
        return 1;
    uint32_t number = queue_of(state, item->key_hash);
    if (number == NO_ITEM)
        return 1; /* `has_failed` */
    struct key_queue *queue = &state->keys[number];
    if (item->has_key)
        unlink_key(state, queue, item);
    uint32_t before = queue->last;
    while (before != NO_ITEM && ITEM(before)->sequence > item->sequence && !(before == queue->first && is_at_work(ITEM(before))))
        before = ITEM(before)->key_before;
    item->key_before = before;
    item->key_after = before == NO_ITEM ? queue->first : ITEM(before)->key_after;
    if (before == NO_ITEM)
        queue->first = index;
    else
        ITEM(before)->key_after = index;
    if (item->key_after == NO_ITEM)
        queue->last = index;
    else
        ITEM(item->key_after)->key_before = index;
    item->has_key = 1;
    uint32_t second = ITEM(queue->first)->key_after;
    if (second != NO_ITEM)
        block(state, ITEM(second));
    if (queue->first != index)
        unblock(state, queue->first);
    return queue->first == index;
}

static void leave_key(struct group_state *state, struct item *item)
{
    if (!item->has_key)
        return;
    uint32_t number = id_table_get(&state->by_key, (int64_t)item->key_hash);
    struct key_queue *queue = &state->keys[number];
    unlink_key(state, queue, item);
    if (queue->first != NO_ITEM) {
        unblock(state, queue->first);
        return;
    }
    if (id_table_set(&state->by_key, (int64_t)item->key_hash, ID_TABLE_NONE) != 0)
        state->has_failed = 1;
    queue->first = state->free_key;
    state->free_key = number;
}

/* ---- changes of state ---- */

void item_remove(struct group_state *state, uint32_t index)
{
    item_detach(state, index);
    leave_key(state, ITEM(index));
    if (id_table_set(&state->by_sequence, (int64_t)ITEM(index)->sequence, ID_TABLE_NONE) != 0)
        state->has_failed = 1;
    free(ITEM(index)->reason);
    ITEM(index)->reason = NULL;
    ITEM(index)->key_after = state->free_item;
    state->free_item = index;
    state->item_count--;
}

static void be_dying(struct group_state *state, struct item *item)
{
    push(state, &state->dying, item->letter, item->sequence);
}

void item_make_ready(struct group_state *state, uint32_t index)
{
    ITEM(index)->due_ns = 0;
    ITEM(index)->state = ITEM_READY;
    int is_first = item_queue_by_key(state, index);
    if (ITEM(index)->letter)
        be_dying(state, ITEM(index));
    else if (is_first)
        enqueue(state, ITEM(index));
    else
        ITEM(index)->state = ITEM_BLOCKED;
}

/* Entries of the past are removed if they are many. */
static void push_timed(struct group_state *state, uint64_t due_ns, uint64_t sequence)
{
    struct heap *timed = &state->timed;

    if (timed->count > 2 * (size_t)state->item_count + 1024) {
        size_t count = timed->count;
        struct heap kept = {0};
        for (size_t at = 0; at < count && !state->has_failed; at++)
            if (item_is_timed(state, &timed->pairs[at]))
                push(state, &kept, timed->pairs[at].key, timed->pairs[at].sequence);
        heap_free(timed);
        *timed = kept;
    }
    push(state, timed, due_ns, sequence);
}

void item_set_deadline(struct group_state *state, uint32_t index, uint64_t deadline_ns)
{
    ITEM(index)->due_ns = deadline_ns;
    push_timed(state, deadline_ns, ITEM(index)->sequence);
}

int item_is_timed(const struct group_state *state, const struct heap_pair *pair)
{
    uint32_t index = item_find(state, pair->sequence);

    return index != NO_ITEM && ITEM(index)->due_ns == pair->key &&
           (ITEM(index)->state == ITEM_DELAYED || ITEM(index)->state == ITEM_STARTED);
}

void item_return(struct group_state *state, uint32_t index, uint64_t due_ns)
{
    item_detach(state, index);
    if (due_ns <= state->clock_ns) {
        item_make_ready(state, index);
        return;
    }
    ITEM(index)->state = ITEM_DELAYED;
    item_set_deadline(state, index, due_ns);
    if (state->settings[ORDER] == ORDER_RELAXED)
        leave_key(state, ITEM(index));
    else
        item_queue_by_key(state, index);
}

void item_set_reason(struct group_state *state, uint32_t index, const char *reason, size_t reason_bytes)
{
    char *copy = reason_bytes ? malloc(reason_bytes) : NULL;

    free(ITEM(index)->reason);
    if (copy)
        memcpy(copy, reason, reason_bytes);
    else if (reason_bytes)
        state->has_failed = 1;
    ITEM(index)->reason = copy;
    ITEM(index)->reason_bytes = copy ? (uint16_t)reason_bytes : 0;
}

void item_let_die(struct group_state *state, uint32_t index, const char *reason, size_t reason_bytes)
{
    item_detach(state, index);
    ITEM(index)->letter = ++state->letters;
    ITEM(index)->state = ITEM_READY;
    ITEM(index)->due_ns = 0;
    item_set_reason(state, index, reason, reason_bytes);
    be_dying(state, ITEM(index));
    item_queue_by_key(state, index);
}

/* Put an item whose fields are set into the queues. */
void item_place(struct group_state *state, uint32_t index)
{
    struct item *item = ITEM(index);

    if (item->state == ITEM_DELAYED) {
        push_timed(state, item->due_ns, item->sequence);
        if (!item->delivery) {
            item->queued = AMONG_SCHEDULED;
            state->scheduled_count++;
        }
        if (state->settings[ORDER] == ORDER_STRICT)
            item_queue_by_key(state, index);
    } else if (item->letter && item->state == ITEM_READY) {
        be_dying(state, item);
        item_queue_by_key(state, index);
    } else if (item->state == ITEM_READY)
        item_make_ready(state, index);
    else
        item_queue_by_key(state, index);
}

/* The next dying item, or NO_ITEM; it stays in the queue. */
uint32_t item_next_dying(struct group_state *state)
{
    struct heap *dying = &state->dying;

    while (dying->count) {
        uint32_t index = item_find(state, dying->pairs[0].sequence);
        if (index != NO_ITEM && ITEM(index)->letter == dying->pairs[0].key && ITEM(index)->seat == NO_SEAT)
            return state->letters_in_hand ? NO_ITEM : index;
        heap_pop(dying);
    }
    return NO_ITEM;
}
