/* See id_table.h. */
#include "id_table.h"

#include <stdlib.h>
#include <string.h>

/* Values are kept one larger, so that a new table is zeros. */
#define NEVER 0         /* of a place that no id had: a search ends there */
#define GONE UINT32_MAX /* of one whose id has no value any more */

#define TOGETHER 2 /* bits: so many ids in a row lie in a row, for mostly they come so */

static size_t first_place(const struct id_table *table, int64_t id)
{
    uint64_t mixed = (uint64_t)id >> TOGETHER; /* the finish of SplitMix64, so that others spread */
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    mixed ^= mixed >> 31;
    return (size_t)(mixed << TOGETHER | ((uint64_t)id & ((1 << TOGETHER) - 1))) & (table->places - 1);
}

/* Where the id is, or would be put. */
static struct id_entry *find(const struct id_table *table, int64_t id)
{
    size_t place = first_place(table, id);
    while (table->entries[place].value != NEVER && table->entries[place].id != id)
        place = (place + 1) & (table->places - 1);
    return &table->entries[place];
}

static int grow(struct id_table *table)
{
    struct id_table larger = {NULL, 64, 0, 0};

    while (larger.places < 3 * table->live)
        larger.places *= 2;
    larger.entries = calloc(larger.places, sizeof *larger.entries);
    if (!larger.entries)
        return -1;
    for (size_t place = 0; place < table->places; place++)
        if (table->entries[place].value != NEVER && table->entries[place].value != GONE)
            *find(&larger, table->entries[place].id) = table->entries[place];
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
    if (!table->places)
        return ID_TABLE_NONE;
    uint32_t value = find(table, id)->value;
    return value == NEVER || value == GONE ? ID_TABLE_NONE : value - 1;
}

int id_table_next(const struct id_table *table, size_t *place, int64_t *id, uint32_t *value)
{
    while (*place < table->places) {
        const struct id_entry *entry = &table->entries[(*place)++];
        *id = entry->id;
        *value = entry->value - 1;
        if (entry->value != NEVER && entry->value != GONE)
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
    /* Two thirds of the places at most: a search that finds nothing ends soon. */
    if (3 * (table->used + 1) > 2 * table->places && grow(table) != 0)
        return -1;
    struct id_entry *entry = find(table, id);
    *before = entry->value == NEVER || entry->value == GONE ? ID_TABLE_NONE : entry->value - 1;
    table->used += entry->value == NEVER;
    table->live += (value != ID_TABLE_NONE) - (*before != ID_TABLE_NONE);
    *entry = (struct id_entry){id, value == ID_TABLE_NONE ? GONE : value + 1};
    return 0;
}
