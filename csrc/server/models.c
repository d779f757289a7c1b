/* How calls get threads.
 *
 * Async: the completion queue's thread runs every step of its calls and never waits; the timer thread posts
 * what is due back into the queue.
 *
 * ThreadPerCall: an accepted call gets a thread, which runs the same steps and sleeps between them; the
 * queue's thread only puts what has happened into the call's inbox. The thread lives as long as the handler.
 * What comes after (the answer is out, the call is closed) the queue's thread sees to, which is also the only
 * one that retires a call. */
#include "server/models.h"

#include <errno.h>

#include "base/clock.h"
#include "server/server.h"

/* --- Async --- */

static void step(struct gp_call *call, enum gp_event event)
{
    gp_call_step(call, event);
    if (gp_call_over(call))
        gp_queue_retire(call->queue, call);
}

static void async_due(struct gp_timer *timer)
{
    struct gp_call *call = (struct gp_call *)(void *)((char *)timer - offsetof(struct gp_call, timer));
    gp_call_post(call->core, gp_call_tag(call, GP_EVENT_WOKEN));
}

static int async_start(struct gp_server *server)
{
    return gp_timers_start(&server->timers, &server->stacks, async_due);
}

static int async_wake_at(struct gp_call *call, uint64_t at_ns)
{
    return gp_timers_add(&call->queue->server->timers, &call->timer, at_ns);
}

static bool async_forget(struct gp_call *call)
{
    return gp_timers_remove(&call->queue->server->timers, &call->timer);
}

/* --- ThreadPerCall --- */

/* The events that have happened, at least one; the inbox is locked. GP_EVENT_WOKEN comes from the clock too.
 */
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

static void *attend(void *argument)
{
    struct gp_call *call = argument;
    struct gp_stacks *stacks = &call->queue->server->stacks;
    struct gp_inbox *inbox = &call->inbox;
    struct gp_stack stack;
    gp_stacks_enter(stacks, &stack);
    gp_call_begin(call);
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
    gp_stacks_leave(stacks, &stack);
    return NULL;
}

static int thread_start(struct gp_server *server)
{
    pthread_attr_init(&server->call_thread);
    pthread_attr_setdetachstate(&server->call_thread, PTHREAD_CREATE_DETACHED);
    size_t bytes = server->options->stack_bytes;
#ifdef __SANITIZE_ADDRESS__
    bytes += 1u << 20; /* instrumented frames are many times as large */
#endif
    return pthread_attr_setstacksize(&server->call_thread, bytes);
}

static void thread_run(struct gp_call *call)
{
    pthread_t thread;
    call->inbox.attended = true;
    if (pthread_create(&thread, &call->queue->server->call_thread, attend, call) == 0)
        return;
    call->inbox.attended = false;
    gp_count(&call->queue->tally.rejected, 1);
    gp_call_refuse(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no thread for this call: the system has no more");
}

static void thread_deliver(struct gp_call *call, enum gp_event event)
{
    pthread_mutex_lock(&call->inbox.lock);
    bool attended = call->inbox.attended;
    if (attended) {
        atomic_fetch_or(&call->inbox.events, 1u << event);
        pthread_cond_signal(&call->inbox.changed);
    }
    pthread_mutex_unlock(&call->inbox.lock);
    if (!attended)
        step(call, event);
}

static int thread_wake_at(struct gp_call *call, uint64_t at_ns)
{
    call->inbox.wake_at_ns = at_ns; /* only its own thread looks at it */
    return 0;
}

static bool thread_forget(struct gp_call *call)
{
    bool asleep = call->inbox.wake_at_ns != 0;
    call->inbox.wake_at_ns = 0;
    return asleep;
}

const struct gp_model *gp_model(enum gp_model_kind kind)
{
    static const struct gp_model models[] = {
        [GP_MODEL_ASYNC] = {.name = "async",
                            .start = async_start,
                            .run = gp_call_begin,
                            .deliver = step,
                            .wake_at = async_wake_at,
                            .forget = async_forget},
        [GP_MODEL_THREAD] = {.name = "thread",
                             .owns_threads = true,
                             .start = thread_start,
                             .run = thread_run,
                             .deliver = thread_deliver,
                             .wake_at = thread_wake_at,
                             .forget = thread_forget},
    };
    return &models[kind];
}
