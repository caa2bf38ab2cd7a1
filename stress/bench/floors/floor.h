/*
 * The common part of every floor: its arguments, and how it counts.
 *
 * A floor is the least that the work takes: system calls in a loop, without anything around them.  It works until it is
 * stopped, at least once, and returns the number of records that it wrote, or -errno.
 *
 * Python reads the part between the guards, which therefore has only plain declarations.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

struct floor_work {
    const char *path;     /* an existing file */
    int64_t region_bytes; /* of each process's part of it, if they do not append */
    int32_t index;        /* of the process */
    int32_t bytes;        /* of a record, with its length */
    int32_t idle_ms;      /* between two rings */
    const int32_t *stop;  /* not 0: end */
    uint64_t *waits;      /* ns of each record, or NULL */
    int64_t waits_count;  /* room in waits */
};

int64_t floor_prepared(const struct floor_work *work);
int64_t floor_growing(const struct floor_work *work);
int64_t floor_calls(const struct floor_work *work);
int64_t floor_blocks(const struct floor_work *work);
int64_t floor_blocks_synced(const struct floor_work *work);
int64_t floor_copies(const struct floor_work *work);
int64_t floor_mapped(const struct floor_work *work);
int64_t floor_read(const struct floor_work *work);
int64_t floor_ring(const struct floor_work *work);
int64_t floor_wait(const struct floor_work *work);
int64_t floor_append_ring(const struct floor_work *work);
int64_t floor_append_wait(const struct floor_work *work);

#endif
