/* Where writers and streams meet: a queue of messages that are offered, in their order, until a stream takes
 * one or its time is over. Unbuffered, a writer waits until its own message is taken; with a buffer, until
 * there is room in it. Any thread may call anything. */
#ifndef GP_LOAD_DISPATCH_QUEUE_H
#define GP_LOAD_DISPATCH_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct gp_offer {
    uint64_t sequence;
    uint64_t due_ns;     /* when its writer was to say it */
    uint64_t offered_ns; /* when it came into the queue, in rising order */
    uint32_t writer;
};

struct gp_offer_ring {
    struct gp_offer *offers;
    uint32_t first, count, capacity;
};

struct gp_dispatch_queue {
    pthread_mutex_t lock; /* over all below */
    pthread_cond_t offered;
    struct gp_offer_ring waiting;             /* their writers wait */
    struct gp_offer_ring buffered;            /* their writers were let go */
    uint32_t sleepers;                        /* in take */
    uint64_t locked, contended, contended_ns; /* times the lock was taken, was not free, and what that cost */
};

int gp_dispatch_queue_init(struct gp_dispatch_queue *queue, uint32_t writers,
                           uint32_t buffer); /* -1: errno */
void gp_dispatch_queue_fini(struct gp_dispatch_queue *queue);

/* At most one offer of each writer at a time. True: it went into the buffer, and its writer may go on. */
bool gp_dispatch_queue_offer(struct gp_dispatch_queue *queue, const struct gp_offer *offer);

/* The oldest, waiting for one until `until_ns`; false: none came. `freed`: the offer whose writer may go on
 * now, which is the one taken or, where there is a buffer, the next that got into it; its sequence is 0 for
 * none. */
bool gp_dispatch_queue_take(struct gp_dispatch_queue *queue, uint64_t until_ns, struct gp_offer *taken,
                            struct gp_offer *freed);

/* The oldest whose writer waits, when it was offered at `before_ns` or earlier: it is out of the queue. */
bool gp_dispatch_queue_expire(struct gp_dispatch_queue *queue, uint64_t before_ns, struct gp_offer *expired);

/* The oldest that is in the buffer. */
bool gp_dispatch_queue_unbuffer(struct gp_dispatch_queue *queue, struct gp_offer *left);

uint64_t gp_dispatch_queue_oldest_ns(struct gp_dispatch_queue *queue); /* UINT64_MAX: no writer waits */

#endif
