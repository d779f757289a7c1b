/* Async: the completion queue's thread runs every step of its calls and never waits; the timer thread posts
 * what is due back into the queue. */
#include "server/models.h"

#include "server/server.h"

static void due(struct gp_timer *timer)
{
    struct gp_call *call = (struct gp_call *)(void *)((char *)timer - offsetof(struct gp_call, timer));
    gp_call_post(call->core, gp_call_tag(call, GP_EVENT_WOKEN));
}

static int start(struct gp_server *server)
{
    return gp_timers_start(&server->timers, &server->stacks, due);
}

static int wake_at(struct gp_call *call, uint64_t at_ns)
{
    return gp_timers_add(&call->queue->server->timers, &call->timer, at_ns);
}

static bool forget(struct gp_call *call)
{
    return gp_timers_remove(&call->queue->server->timers, &call->timer);
}

const struct gp_model gp_model_async = {
    .name = "async",
    .start = start,
    .run = gp_call_enter,
    .begin = gp_call_begin,
    .deliver = gp_queue_step,
    .wake_at = wake_at,
    .forget = forget,
};
