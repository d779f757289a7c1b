/* One thread that says when a time has come; it only tells, the work is done elsewhere. */
#ifndef GP_SERVER_TIMERS_H
#define GP_SERVER_TIMERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/timer_heap.h"

struct gp_stacks;

struct gp_timers {
    pthread_mutex_t lock;
    pthread_cond_t earlier; /* a timer was added that is due before all others */
    struct gp_timer_heap heap;
    void (*due)(struct gp_timer *timer); /* on the timer thread, which holds no lock */
};

int gp_timers_start(struct gp_timers *timers, struct gp_stacks *stacks,
                    void (*due)(struct gp_timer *));                                 /* 0, errno */
int gp_timers_add(struct gp_timers *timers, struct gp_timer *timer, uint64_t at_ns); /* -1: out of memory */
bool gp_timers_remove(struct gp_timers *timers,
                      struct gp_timer *timer); /* false: due() was or will be called */

#endif
