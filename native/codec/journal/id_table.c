/* The hash table of id_table.h. */
#include "id_table.h"

#include <stdlib.h>
#include <string.h>

/* Values are stored plus one, so that a new table can be all zeros. */
#define NEVER 0            /* no id has used the slot: a search ends here */
#define REMOVED UINT32_MAX /* the id has no value any more */

#define ADJACENT_BITS 2 /* runs of 2**2 consecutive ids, which are common, are adjacent in the table */

static size_t first_place(const struct id_table *table, int64_t id)
{
    uint64_t mixed = (uint64_t)id >> ADJACENT_BITS; /* the finalizer of SplitMix64 spreads the runs */
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    mixed ^= mixed >> 31;
    return (size_t)(mixed << ADJACENT_BITS | ((uint64_t)id & ((1 << ADJACENT_BITS) - 1))) & (table->slots - 1);
}

/* Return the slot of an id, or the free slot for it. */
static struct id_entry *find(const struct id_table *table, int64_t id)
{
    size_t slot = first_place(table, id);
    while (table->entries[slot].value != NEVER && table->entries[slot].id != id)
        slot = (slot + 1) & (table->slots - 1);
    return &table->entries[slot];
}

static int grow(struct id_table *table)
{
    struct id_table larger = {NULL, 64, 0, 0};

    while (larger.slots < 3 * table->live)
        larger.slots *= 2;
    larger.entries = calloc(larger.slots, sizeof *larger.entries);
    if (!larger.entries)
        return -1;
    for (size_t slot = 0; slot < table->slots; slot++)
        if (table->entries[slot].value != NEVER && table->entries[slot].value != REMOVED)
            *find(&larger, table->entries[slot].id) = table->entries[slot];
    larger.used = larger.live = table->live;
    id_table_free(table);
    *table = larger;
    return 0;
}

void id_table_free(struct id_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof *table);
}

uint32_t id_table_get(const struct id_table *table, int64_t id)
{
    if (!table->slots)
        return ID_TABLE_NONE;
    uint32_t value = find(table, id)->value;
    return value == NEVER || value == REMOVED ? ID_TABLE_NONE : value - 1;
}

int id_table_next(const struct id_table *table, size_t *slot, int64_t *id, uint32_t *value)
{
    while (*slot < table->slots) {
        const struct id_entry *entry = &table->entries[(*slot)++];
        *id = entry->id;
        *value = entry->value - 1;
        if (entry->value != NEVER && entry->value != REMOVED)
            return 1;
    }
    return 0;
}

int id_table_set(struct id_table *table, int64_t id, uint32_t value)
{
    uint32_t before;
    return id_table_swap(table, id, value, &before);
}

int id_table_swap(struct id_table *table, int64_t id, uint32_t value, uint32_t *before)
{
    /* At most two thirds of the slots are used, so that unsuccessful searches stay short. */
    if (3 * (table->used + 1) > 2 * table->slots && grow(table) != 0)
        return -1;
    struct id_entry *entry = find(table, id);
    *before = entry->value == NEVER || entry->value == REMOVED ? ID_TABLE_NONE : entry->value - 1;
    table->used += entry->value == NEVER;
    table->live += (value != ID_TABLE_NONE) - (*before != ID_TABLE_NONE);
    *entry = (struct id_entry){id, value == ID_TABLE_NONE ? REMOVED : value + 1};
    return 0;
}
