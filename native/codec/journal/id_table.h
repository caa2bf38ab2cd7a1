/* From ids, which are any numbers of 64 bits, to small numbers: a table with open addressing. */
#ifndef BINLOG_ID_TABLE_H
#define BINLOG_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define ID_TABLE_NONE UINT32_MAX /* no value is that */

struct id_entry {
    int64_t id;
    uint32_t value;
};

/* used: places that an id has or had; live: of these those with a value. */
struct id_table {
    struct id_entry *entries;
    size_t places, used, live;
};

/* An empty table needs no more than zeros. */
void id_table_free(struct id_table *table);

/* The value of an id, or ID_TABLE_NONE. */
uint32_t id_table_get(const struct id_table *table, int64_t id);

/* The next id with a value, from *place on; 0 if there is none any more. */
int id_table_next(const struct id_table *table, size_t *place, int64_t *id, uint32_t *value);

/* Give an id a value; ID_TABLE_NONE takes it away.  -1 where there is no memory. */
int id_table_set(struct id_table *table, int64_t id, uint32_t value);

/* The same; *before: what it had. */
int id_table_swap(struct id_table *table, int64_t id, uint32_t value, uint32_t *before);

#endif
