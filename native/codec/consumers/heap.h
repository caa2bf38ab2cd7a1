/* A binary heap of pairs of numbers, of which the smallest comes out first. */
#ifndef BINLOG_HEAP_H
#define BINLOG_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_pair {
    uint64_t key, sequence;
};

/* An empty heap is all zeros. */
struct heap {
    struct heap_pair *pairs;
    size_t count, capacity;
};

void heap_free(struct heap *heap);

/* -1 if out of memory. */
int heap_push(struct heap *heap, uint64_t key, uint64_t sequence);

/* The heap must not be empty. */
struct heap_pair heap_pop(struct heap *heap);

#endif
