/* From ids, which are any numbers of 64 bits, to small numbers: a table with open addressing. */
#ifndef BINLOG_ID_TABLE_H
#define BINLOG_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define ID_TABLE_NONE UINT32_MAX /* no value is that */

/* used: places that an id has or had; live: of these those with a value. */
struct id_table {
    int64_t *ids;
    uint32_t *values;
    size_t places, used, live;
};

/* An empty table needs no more than zeros. */
void id_table_free(struct id_table *table);

/* The value of an id, or ID_TABLE_NONE. */
uint32_t id_table_get(const struct id_table *table, int64_t id);

/* Give an id a value; ID_TABLE_NONE takes it away.  -1 where there is no memory. */
int id_table_set(struct id_table *table, int64_t id, uint32_t value);

#endif
