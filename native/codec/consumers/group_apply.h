/* Operations of a group, and their effect on its state; called with the interpreter's lock. */
#ifndef BINLOG_GROUP_APPLY_H
#define BINLOG_GROUP_APPLY_H

#include <Python.h>

#include "group_state.h"

/* A parsed operation.  first, end: of its sections.  checkpoint: its entry, which goes to the end, or NULL. */
struct operation {
    uint8_t flags;
    uint16_t seat, want;
    uint32_t generation, number, epoch;
    uint64_t time_ns;
    const uint8_t *first, *end, *checkpoint;
};

/* Python's types of an effect: AppliedOperation, Outcome, Assigned and Delivery. */
struct effect_types {
    PyObject *applied, *outcome, *assigned, *delivery;
};

/* What an operation did.  Lists: of Assigned, and twice of Delivery; NULL if no caller asks. */
struct outcome {
    const struct effect_types *types;
    int counted;
    PyObject *assigned, *started, *refused;
};

/* A section: `at` its first entry. */
struct section {
    int kind;
    uint16_t count;
    const uint8_t *at;
};

/* group_parse.c */

/* 1 if the record is an operation of the group whose seed this is, otherwise 0. */
int group_parse(const uint8_t *record, size_t bytes, uint32_t seed, struct operation *operation);

/* Takes the next section from *at; 1 if there is one, 0 at the end, -1 if the bytes are none. */
int group_next_section(const uint8_t **at, const uint8_t *end, struct section *section);

/* Whether one of the sections has this kind. */
int group_has_kind(const uint8_t *at, const uint8_t *end, int kind);

/* group_operation.c */

/* 0, or -1 with an exception set; then the state is not to be used any more. */
int group_apply(struct group_state *state, const struct operation *operation, struct outcome *outcome);

/* group_pack.c */

/* An operation that acknowledges a delivery, starts another item, and asks for `want`. */
struct step {
    uint16_t seat, want;
    uint32_t generation, number, epoch, delivery;
    uint64_t time_ns, done, start;
};

/* The record of an operation, or NULL with an exception set. */
PyObject *group_pack_step(uint32_t seed, const struct step *step);

/* group_checkpoint.c */

/* Pairs of sequence and index of all items, by sequence, to be freed; NULL if memory ran out. */
uint64_t (*group_sorted_items(const struct group_state *state))[2];

/* The packed state, or NULL with an exception set. */
PyObject *group_pack(const struct group_state *state);

/* Loads a packed state into an empty one; 1, or 0 if the bytes are none or memory ran out (`has_failed`). */
int group_load(struct group_state *state, const uint8_t *data, size_t bytes);

#endif
