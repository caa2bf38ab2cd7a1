/* What every floor has in common: what it is told, and how it counts.
 *
 * A floor is the least that the work takes: system calls in a loop, without
 * anything around them.  It works until it is told to stop, at least once, and
 * returns how many records it wrote or -errno.
 *
 * Python reads the part between the guards, which holds plain declarations
 * only for this reason.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

struct floor_work {
    const char *path;     /* a file that is there */
    int64_t region_bytes; /* what each process has of it, where they do not append */
    int32_t index;        /* which process this is */
    int32_t bytes;        /* a record, with its length */
    int32_t idle_ms;      /* between two rings */
    const int32_t *stop;  /* not 0: end */
    uint64_t *waits;      /* ns that each record took, or NULL */
    int64_t waits_count;  /* how many fit */
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
