/* dispatch_queue: two rings under one lock, which tells what it cost. */
#include "load/dispatch_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "load/thread.h"

static int init_ring(struct gp_offer_ring *ring, uint32_t capacity)
{
    *ring = (struct gp_offer_ring){.capacity = capacity};
    ring->offers = calloc(capacity > 0 ? capacity : 1, sizeof *ring->offers);
    return ring->offers ? 0 : -1;
}

int gp_dispatch_queue_init(struct gp_dispatch_queue *queue, uint32_t writers, uint32_t buffer)
{
    *queue = (struct gp_dispatch_queue){0};
    if (init_ring(&queue->waiting, writers) < 0 || init_ring(&queue->buffered, buffer) < 0 ||
        gp_thread_cond_init(&queue->offered) < 0) {
        free(queue->waiting.offers);
        free(queue->buffered.offers);
        *queue = (struct gp_dispatch_queue){0};
        return -1;
    }
    pthread_mutex_init(&queue->lock, NULL);
    return 0;
}

void gp_dispatch_queue_fini(struct gp_dispatch_queue *queue)
{
    if (!queue->waiting.offers)
        return;
    free(queue->waiting.offers);
    free(queue->buffered.offers);
    pthread_cond_destroy(&queue->offered);
    pthread_mutex_destroy(&queue->lock);
    *queue = (struct gp_dispatch_queue){0};
}

static void push(struct gp_offer_ring *ring, const struct gp_offer *offer)
{
    uint32_t at = ring->first + ring->count++;

    assert(ring->count <= ring->capacity);
    ring->offers[at < ring->capacity ? at : at - ring->capacity] = *offer;
}

static struct gp_offer pop(struct gp_offer_ring *ring)
{
    struct gp_offer offer = ring->offers[ring->first];

    ring->first = ring->first + 1 == ring->capacity ? 0 : ring->first + 1;
    ring->count--;
    return offer;
}

/* The clock is only looked at when the lock is not free. */
static void enter(struct gp_dispatch_queue *queue)
{
    uint64_t began_ns;

    if (pthread_mutex_trylock(&queue->lock) != 0) {
        began_ns = gp_clock_now_ns();
        pthread_mutex_lock(&queue->lock);
        queue->contended++;
        queue->contended_ns += gp_clock_now_ns() - began_ns;
    }
    queue->locked++;
}

static void leave(struct gp_dispatch_queue *queue)
{
    pthread_mutex_unlock(&queue->lock);
}

bool gp_dispatch_queue_offer(struct gp_dispatch_queue *queue, const struct gp_offer *offer)
{
    bool room, wake;

    enter(queue);
    room = queue->buffered.count < queue->buffered.capacity;
    push(room ? &queue->buffered : &queue->waiting, offer);
    wake = queue->sleepers > 0;
    leave(queue);
    if (wake) /* with the lock off: it would wake only to wait for it */
        pthread_cond_signal(&queue->offered);
    return room;
}

static uint32_t count(const struct gp_dispatch_queue *queue)
{
    return queue->buffered.count + queue->waiting.count;
}

static void wait_for_offer(struct gp_dispatch_queue *queue, uint64_t until_ns)
{
    struct timespec until = gp_clock_timespec(until_ns);

    queue->sleepers++;
    while (count(queue) == 0 && pthread_cond_timedwait(&queue->offered, &queue->lock, &until) == 0)
        ;
    queue->sleepers--;
}

bool gp_dispatch_queue_take(struct gp_dispatch_queue *queue, uint64_t until_ns, struct gp_offer *taken,
                            struct gp_offer *freed)
{
    bool any;

    *freed = (struct gp_offer){0};
    enter(queue);
    if (count(queue) == 0 && until_ns > 0)
        wait_for_offer(queue, until_ns);
    any = count(queue) > 0;
    if (queue->buffered.count > 0) {
        *taken = pop(&queue->buffered);
        if (queue->waiting.count > 0) {
            *freed = pop(&queue->waiting);
            push(&queue->buffered, freed);
        }
    } else if (any) {
        *taken = *freed = pop(&queue->waiting);
    }
    leave(queue);
    return any;
}

bool gp_dispatch_queue_expire(struct gp_dispatch_queue *queue, uint64_t before_ns, struct gp_offer *expired)
{
    bool any;

    enter(queue);
    any = queue->waiting.count > 0 && queue->waiting.offers[queue->waiting.first].offered_ns <= before_ns;
    if (any)
        *expired = pop(&queue->waiting);
    leave(queue);
    return any;
}

bool gp_dispatch_queue_unbuffer(struct gp_dispatch_queue *queue, struct gp_offer *left)
{
    bool any;

    enter(queue);
    any = queue->buffered.count > 0;
    if (any)
        *left = pop(&queue->buffered);
    leave(queue);
    return any;
}

uint64_t gp_dispatch_queue_oldest_ns(struct gp_dispatch_queue *queue)
{
    uint64_t oldest_ns;

    enter(queue);
    oldest_ns =
        queue->waiting.count > 0 ? queue->waiting.offers[queue->waiting.first].offered_ns : UINT64_MAX;
    leave(queue);
    return oldest_ns;
}
