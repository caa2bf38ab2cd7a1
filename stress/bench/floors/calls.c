/* The system calls of appends that are not synced. */
#include "append.h"

#include <stdlib.h>

int64_t floor_calls(const struct floor_work *work)
{
    struct floor_log log;
    int64_t count = 0;
    char *record = calloc(1, (size_t)work->bytes);

    if (floor_log_open(&log, work->path) != 0)
        return floor_failed();
    do {
        if (floor_append(&log, record, work->bytes) != 0)
            return floor_failed();
        count++;
    } while (!floor_stopped(work));
    floor_log_close(&log);
    free(record);
    return count;
}
