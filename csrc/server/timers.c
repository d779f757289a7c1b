/* The timer thread. */
#include "server/timers.h"

#include "base/clock.h"
#include "server/stacks.h"

#define BATCH 64 /* told at once, so that the lock is not held while telling */

static void wait_for_first(struct gp_timers *timers)
{
    struct gp_timer *first = gp_timer_heap_first(&timers->heap);
    if (!first) {
        pthread_cond_wait(&timers->earlier, &timers->lock);
        return;
    }
    struct timespec at = gp_clock_timespec(first->at_ns);
    pthread_cond_timedwait(&timers->earlier, &timers->lock, &at);
}

static void run(void *argument)
{
    struct gp_timers *timers = argument;
    pthread_mutex_lock(&timers->lock);
    for (;;) {
        struct gp_timer *due[BATCH], *first;
        size_t count = 0;
        uint64_t now_ns = gp_clock_now_ns();
        while (count < BATCH && (first = gp_timer_heap_first(&timers->heap)) && first->at_ns <= now_ns) {
            gp_timer_heap_remove(&timers->heap, first);
            due[count++] = first;
        }
        if (count == 0) {
            wait_for_first(timers);
            continue;
        }
        pthread_mutex_unlock(&timers->lock);
        for (size_t i = 0; i < count; i++)
            timers->due(due[i]);
        pthread_mutex_lock(&timers->lock);
    }
}

int gp_timers_start(struct gp_timers *timers, struct gp_stacks *stacks, void (*due)(struct gp_timer *))
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&timers->earlier, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&timers->lock, NULL);
    gp_timer_heap_init(&timers->heap);
    timers->due = due;
    return gp_stacks_thread(stacks, run, timers);
}

int gp_timers_add(struct gp_timers *timers, struct gp_timer *timer, uint64_t at_ns)
{
    pthread_mutex_lock(&timers->lock);
    int failed = gp_timer_heap_add(&timers->heap, timer, at_ns);
    bool first = !failed && gp_timer_heap_first(&timers->heap) == timer;
    pthread_mutex_unlock(&timers->lock);
    if (first)
        pthread_cond_signal(&timers->earlier);
    return failed;
}

bool gp_timers_remove(struct gp_timers *timers, struct gp_timer *timer)
{
    pthread_mutex_lock(&timers->lock);
    bool removed = gp_timer_heap_remove(&timers->heap, timer);
    pthread_mutex_unlock(&timers->lock);
    return removed;
}
