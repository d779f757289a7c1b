/* Times in order: a binary heap of entries that live in their owners, so that taking one out early is cheap.
 * Its own live as long as their process: it has no end. Pure. */
#ifndef GP_BASE_TIMER_HEAP_H
#define GP_BASE_TIMER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_timer {
    uint64_t at_ns;
    size_t place; /* 1 at the top; 0 while in no heap, which is how it must begin */
};

struct gp_timer_heap {
    struct gp_timer **entries; /* entries[0] is the earliest */
    size_t count, capacity;
};

void gp_timer_heap_init(struct gp_timer_heap *heap);
int gp_timer_heap_add(struct gp_timer_heap *heap, struct gp_timer *timer,
                      uint64_t at_ns);                                         /* -1: out of memory */
bool gp_timer_heap_remove(struct gp_timer_heap *heap, struct gp_timer *timer); /* false: was not in it */
struct gp_timer *gp_timer_heap_first(const struct gp_timer_heap *heap);        /* NULL when empty */

#endif
