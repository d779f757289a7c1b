/* A thread that stays with one call. */
#include "server/attend.h"

#include <errno.h>

#include "base/clock.h"
#include "server/queue.h"

/* The events that have happened, at least one; the inbox is locked. GP_EVENT_WOKEN
 * comes from the clock too. */
static unsigned wait_for_events(struct gp_inbox *inbox)
{
    for (;;) {
        unsigned events = atomic_exchange(&inbox->events, 0);
        if (events)
            return events;
        if (!inbox->wake_at_ns) {
            pthread_cond_wait(&inbox->changed, &inbox->lock);
            continue;
        }
        struct timespec at = gp_clock_timespec(inbox->wake_at_ns);
        if (pthread_cond_timedwait(&inbox->changed, &inbox->lock, &at) == ETIMEDOUT && !inbox->events) {
            inbox->wake_at_ns = 0;
            return 1u << GP_EVENT_WOKEN;
        }
    }
}

static void take_steps(struct gp_call *call, unsigned events)
{
    for (unsigned event = 0; event < GP_EVENT_COUNT; event++)
        if (events >> event & 1)
            gp_call_step(call, event);
}

void gp_attend(struct gp_call *call, void (*first)(struct gp_call *call))
{
    struct gp_inbox *inbox = &call->inbox;
    first(call);
    while (!call->done) {
        pthread_mutex_lock(&inbox->lock);
        unsigned events = wait_for_events(inbox);
        pthread_mutex_unlock(&inbox->lock);
        take_steps(call, events);
    }
    pthread_mutex_lock(&inbox->lock);
    take_steps(call, atomic_exchange(&inbox->events, 0));
    /* With nothing to come the queue's thread would not hear of this call again: send it there once more. */
    grpc_call *last = call->pending == 0 ? call->core : NULL;
    void *tag = gp_call_tag(call, GP_EVENT_HOME);
    call->pending += last != NULL;
    inbox->attended = false;
    pthread_mutex_unlock(&inbox->lock);
    if (last)
        gp_call_post(last, tag);
}

/* On the queue's thread. No other is with the call, but this very step may hand it to one, who may be done
 * with it by now: then there is an event to come. */
static void step_alone(struct gp_call *call, enum gp_event event)
{
    gp_call_step(call, event);
    pthread_mutex_lock(&call->inbox.lock);
    bool over = !call->inbox.attended && gp_call_over(call);
    pthread_mutex_unlock(&call->inbox.lock);
    if (over)
        gp_queue_retire(call);
}

void gp_attend_deliver(struct gp_call *call, enum gp_event event)
{
    pthread_mutex_lock(&call->inbox.lock);
    bool attended = call->inbox.attended;
    if (attended) {
        atomic_fetch_or(&call->inbox.events, 1u << event);
        pthread_cond_signal(&call->inbox.changed);
    }
    pthread_mutex_unlock(&call->inbox.lock);
    if (!attended)
        step_alone(call, event);
}

int gp_attend_wake_at(struct gp_call *call, uint64_t at_ns)
{
    call->inbox.wake_at_ns = at_ns; /* only its own thread looks at it */
    return 0;
}

bool gp_attend_forget(struct gp_call *call)
{
    bool asleep = call->inbox.wake_at_ns != 0;
    call->inbox.wake_at_ns = 0;
    return asleep;
}
