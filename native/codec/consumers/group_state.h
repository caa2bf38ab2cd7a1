/* The state of a consumer group: see binlog/consumers/state/group_state.py, which has the rules that the functions here name. */
#ifndef BINLOG_GROUP_STATE_H
#define BINLOG_GROUP_STATE_H

#include "heap.h"
#include "id_table.h"

#include <stddef.h>
#include <stdint.h>

#define NO_SEAT 0xFFFF
#define SEATS_MAX 256
#define NO_ITEM UINT32_MAX
#define COUNTERS 8
#define ITEMS_MAX (1 << 20) /* of a group: a checkpoint of as many is a record that readers accept */

enum section_kind {
    SETTINGS = 1, CLOCK, JOIN, LEAVE, DEATH, DONE, START, BACK, RETRY, REJECT, EXTEND, WINDOW, GONE, PAUSE, RESUME, RESET,
    CHECKPOINT, DELETED, AGAIN
};
enum setting {
    SETTING_START = 1, RULES, DELIVERIES_MAX, FIRST_NS, MOST_NS, ORDER, ON_EXPIRY, OUTSTANDING_MAX, IN_HAND_MAX,
    FACTOR_PERCENT, JITTER_PERCENT, HOLDS_NS, HOLDS_BYTES, /* for Python alone */
    SETTING_COUNT
};
enum order { ORDER_NONE, ORDER_STRICT, ORDER_RELAXED };
enum counter { COUNT_DONE, COUNT_STARTED, COUNT_FAILED, COUNT_DIED, COUNT_EXPIRED, COUNT_DEAD, COUNT_GONE, COUNT_VOID };
enum item_state { ITEM_READY, ITEM_DELAYED, ITEM_BLOCKED, ITEM_HELD, ITEM_STARTED };
enum queued { NOT_QUEUED, AMONG_READY, AMONG_SUSPECTS, AMONG_SCHEDULED };

/* An outstanding item.  Links are indexes of items, NO_ITEM for none. */
struct item {
    uint64_t sequence, key_hash, expiry_ns, due_ns, letter;
    uint32_t delivery, uncounted, deaths;
    uint32_t key_before, key_after, seat_before, seat_after;
    uint16_t seat, reason_bytes;
    uint8_t state, is_suspect, queued, has_key;
    char *reason;
};

/* The items with one key, in order. */
struct key_queue {
    uint32_t first, last;
};

struct seat {
    uint32_t generation, last_generation, first, held, suspects;
    uint64_t lease_ns;
    uint16_t hint_bytes;
    uint8_t is_alive;
    char *hint;
};

struct facts {
    uint64_t key_hash, due_ns, expiry_ns;
};

struct group_state {
    uint64_t settings[SETTING_COUNT];
    uint64_t clock_ns, next, known_end, letters, counters[COUNTERS];
    uint32_t epoch;
    uint8_t boot[16], has_clock, has_witness, is_paused, is_deleted, is_created, took_new, has_failed;
    int64_t offset_ns;
    uint32_t end_number, last_crc;
    uint64_t end_offset;
    uint64_t membership;
    struct seat seats[SEATS_MAX];
    uint32_t living, in_hand, letters_in_hand;
    /* Items are in an array, with a list of free places; `by_sequence` finds them. */
    struct item *items;
    uint32_t item_count, item_capacity, item_end, free_item;
    struct id_table by_sequence;
    struct key_queue *keys;
    uint32_t key_count, key_capacity, free_key;
    struct id_table by_key;
    struct heap ready, suspects, timed, dying; /* with entries of the past, which are skipped */
    uint32_t ready_count, suspect_count;
    uint32_t scheduled_count; /* items that wait for their due time and were never delivered */
    struct facts *facts; /* of the last messages before `known_end`: a ring */
    size_t facts_first, facts_count, facts_capacity;
};

/* An item that an operation got. */
struct assigned {
    uint64_t sequence, letter;
    uint32_t delivery;
    int is_started;
};

void group_state_init(struct group_state *state);
void group_state_free(struct group_state *state);

/* group_items.c: the items, and the queues that follow from them.  `has_failed` is set if memory ran out. */
uint32_t item_find(const struct group_state *state, uint64_t sequence);
uint32_t item_new(struct group_state *state, uint64_t sequence, uint64_t key_hash, uint64_t expiry_ns);
void item_remove(struct group_state *state, uint32_t index);
void item_detach(struct group_state *state, uint32_t index);
void item_give_to(struct group_state *state, uint32_t index, uint16_t seat);
void item_make_ready(struct group_state *state, uint32_t index);
void item_return(struct group_state *state, uint32_t index, uint64_t due_ns);
void item_let_die(struct group_state *state, uint32_t index, const char *reason, size_t reason_bytes);
void item_set_deadline(struct group_state *state, uint32_t index, uint64_t deadline_ns);
void item_set_reason(struct group_state *state, uint32_t index, const char *reason, size_t reason_bytes);
int item_queue_by_key(struct group_state *state, uint32_t index);
void item_place(struct group_state *state, uint32_t index);
int item_is_timed(const struct group_state *state, const struct heap_pair *pair);
uint32_t item_take_ready(struct group_state *state, int suspects);
uint32_t item_next_dying(struct group_state *state);

/* group_assign.c */
uint64_t group_available(struct group_state *state);
size_t group_assign(struct group_state *state, uint16_t seat, uint16_t want, int starts_first, struct assigned *assigned);
uint32_t group_start(struct group_state *state, uint64_t sequence, uint16_t seat);

/* group_facts.c */
void facts_push(struct group_state *state, struct facts facts);
struct facts facts_pop(struct group_state *state);

#endif
