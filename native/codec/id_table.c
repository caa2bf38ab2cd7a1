/* See id_table.h. */
#include "id_table.h"

#include <stdlib.h>
#include <string.h>

#define NEVER (UINT32_MAX - 1) /* of a place that no id had: a search ends there */

static size_t first_place(const struct id_table *table, int64_t id)
{
    uint64_t mixed = (uint64_t)id; /* the finish of SplitMix64, so that ids in a row spread */
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return (size_t)(mixed ^ (mixed >> 31)) & (table->places - 1);
}

/* Where the id is, or would be put. */
static size_t find(const struct id_table *table, int64_t id)
{
    size_t place = first_place(table, id);
    while (table->values[place] != NEVER && table->ids[place] != id)
        place = (place + 1) & (table->places - 1);
    return place;
}

static int grow(struct id_table *table)
{
    struct id_table larger = {NULL, NULL, 64, 0, 0};

    while (larger.places < 4 * table->live)
        larger.places *= 2;
    larger.ids = malloc(larger.places * sizeof *larger.ids);
    larger.values = malloc(larger.places * sizeof *larger.values);
    if (!larger.ids || !larger.values) {
        id_table_free(&larger);
        return -1;
    }
    for (size_t place = 0; place < larger.places; place++)
        larger.values[place] = NEVER;
    for (size_t place = 0; place < table->places; place++)
        if (table->values[place] < NEVER)
            id_table_set(&larger, table->ids[place], table->values[place]);
    id_table_free(table);
    *table = larger;
    return 0;
}

void id_table_free(struct id_table *table)
{
    free(table->ids);
    free(table->values);
    memset(table, 0, sizeof *table);
}

uint32_t id_table_get(const struct id_table *table, int64_t id)
{
    if (!table->places)
        return ID_TABLE_NONE;
    uint32_t value = table->values[find(table, id)];
    return value == NEVER ? ID_TABLE_NONE : value;
}

int id_table_set(struct id_table *table, int64_t id, uint32_t value)
{
    /* Half of the places at most: a search that finds nothing ends soon. */
    if (2 * (table->used + 1) > table->places && grow(table) != 0)
        return -1;
    size_t place = find(table, id);
    uint32_t before = table->values[place];
    if (before == NEVER) {
        table->ids[place] = id;
        table->used++;
    }
    table->live += (value != ID_TABLE_NONE) - (before < NEVER);
    table->values[place] = value;
    return 0;
}
