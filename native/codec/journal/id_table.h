/* A hash table with open addressing, from 64-bit ids to 32-bit values. */
#ifndef BINLOG_ID_TABLE_H
#define BINLOG_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define ID_TABLE_NONE UINT32_MAX /* not a value */

struct id_entry {
    int64_t id;
    uint32_t value;
};

/* used: slots that have or had an id.  live: slots with a value. */
struct id_table {
    struct id_entry *entries;
    size_t slots, used, live;
};

/* An empty table is all zeros. */
void id_table_free(struct id_table *table);

/* Return the value of an id, or ID_TABLE_NONE. */
uint32_t id_table_get(const struct id_table *table, int64_t id);

/* Iterate over ids with a value, with *slot as the cursor; 0 at the end. */
int id_table_next(const struct id_table *table, size_t *slot, int64_t *id, uint32_t *value);

/* Set the value of an id, or remove it with ID_TABLE_NONE; -1 if out of memory. */
int id_table_set(struct id_table *table, int64_t id, uint32_t value);

/* Set a value, and return the previous one in *before. */
int id_table_swap(struct id_table *table, int64_t id, uint32_t value, uint32_t *before);

#endif
