/* The heap of heap.h. */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

static int before(const struct heap_pair *one, const struct heap_pair *other)
{
    return one->key < other->key || (one->key == other->key && one->sequence < other->sequence);
}

void heap_free(struct heap *heap)
{
    free(heap->pairs);
    memset(heap, 0, sizeof *heap);
}

int heap_push(struct heap *heap, uint64_t key, uint64_t sequence)
{
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity ? 2 * heap->capacity : 64;
        struct heap_pair *larger = realloc(heap->pairs, capacity * sizeof *larger);
        if (!larger)
            return -1;
        heap->pairs = larger;
        heap->capacity = capacity;
    }
    struct heap_pair pair = {key, sequence};
    size_t at = heap->count++;
    while (at > 0 && before(&pair, &heap->pairs[(at - 1) / 2])) {
        heap->pairs[at] = heap->pairs[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->pairs[at] = pair;
    return 0;
}

struct heap_pair heap_pop(struct heap *heap)
{
    struct heap_pair first = heap->pairs[0], last = heap->pairs[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && before(&heap->pairs[child + 1], &heap->pairs[child]))
            child++;
        if (!before(&heap->pairs[child], &last))
            break;
        heap->pairs[at] = heap->pairs[child];
        at = child;
    }
    heap->pairs[at] = last;
    return first;
}
