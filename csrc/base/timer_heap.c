/* Times in order: a binary heap. */
#include "base/timer_heap.h"

#include <stdlib.h>

#define MIN_CAPACITY 64

void gp_timer_heap_init(struct gp_timer_heap *heap)
{
    *heap = (struct gp_timer_heap){0};
}

static int resize(struct gp_timer_heap *heap, size_t capacity)
{
    struct gp_timer **entries = realloc(heap->entries, capacity * sizeof(*entries));
    if (!entries)
        return -1;
    heap->entries = entries;
    heap->capacity = capacity;
    return 0;
}

static void put(struct gp_timer_heap *heap, size_t index, struct gp_timer *timer)
{
    heap->entries[index] = timer;
    timer->place = index + 1;
}

static void rise(struct gp_timer_heap *heap, size_t index, struct gp_timer *timer)
{
    while (index > 0 && timer->at_ns < heap->entries[(index - 1) / 2]->at_ns) {
        put(heap, index, heap->entries[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(heap, index, timer);
}

static void sink(struct gp_timer_heap *heap, size_t index, struct gp_timer *timer)
{
    for (size_t child; (child = 2 * index + 1) < heap->count; index = child) {
        if (child + 1 < heap->count && heap->entries[child + 1]->at_ns < heap->entries[child]->at_ns)
            child++;
        if (timer->at_ns <= heap->entries[child]->at_ns)
            break;
        put(heap, index, heap->entries[child]);
    }
    put(heap, index, timer);
}

int gp_timer_heap_add(struct gp_timer_heap *heap, struct gp_timer *timer, uint64_t at_ns)
{
    if (heap->count == heap->capacity && resize(heap, heap->capacity ? heap->capacity * 2 : MIN_CAPACITY) < 0)
        return -1;
    timer->at_ns = at_ns;
    rise(heap, heap->count++, timer);
    return 0;
}

bool gp_timer_heap_remove(struct gp_timer_heap *heap, struct gp_timer *timer)
{
    if (timer->place == 0)
        return false;
    size_t index = timer->place - 1;
    struct gp_timer *last = heap->entries[--heap->count];
    timer->place = 0;
    if (last != timer) {
        sink(heap, index, last);
        rise(heap, last->place - 1, last);
    }
    /* Memory comes back: a measured process must look after a burst as it did before. */
    if (heap->capacity > MIN_CAPACITY && heap->count < heap->capacity / 4)
        resize(heap, heap->capacity / 2);
    return true;
}

struct gp_timer *gp_timer_heap_first(const struct gp_timer_heap *heap)
{
    return heap->count ? heap->entries[0] : NULL;
}
