/* A first-in first-out list of calls that wait for something. A call may end while it stands in one; its
 * entry then is stale, which is told by the ticket, and passed over or swept out. */
#ifndef GP_WIRE_QUEUE_H
#define GP_WIRE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct gp_queue_entry {
    uint32_t call, ticket;
};

struct gp_queue {
    struct gp_queue_entry *entries; /* a ring; NULL until something waits */
    uint32_t capacity;              /* a power of two */
    uint32_t first, count;
};

typedef bool gp_queue_test(const void *owner, struct gp_queue_entry entry);

void gp_queue_fini(struct gp_queue *queue);

/* Before it grows, those that `is_live` denies are swept out. -1 when out of memory. */
int gp_queue_push(struct gp_queue *queue, struct gp_queue_entry entry, gp_queue_test *is_live,
                  const void *owner);

/* The next live one; false when there is none. */
bool gp_queue_pop(struct gp_queue *queue, struct gp_queue_entry *entry, gp_queue_test *is_live,
                  const void *owner);

#endif
