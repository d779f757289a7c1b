/* One call: from being accepted to its handler, through the limits; the waiting there, and the calls that
 * never get to a handler. */
#include "server/call.h"

#include "server/limit.h"
#include "server/models.h"
#include "server/server.h"

static void refuse(struct gp_call *call, const struct gp_limit *limit)
{
    if (gp_limit_prunes(limit))
        gp_count(&call->queue->tally.pruned, 1);
    gp_call_reject(call, gp_limit_status(limit), limit->reason);
}

/* What a parked call gives when it is released: the one empty response, where the method has one, and OK. */
static void degrade(struct gp_call *call)
{
    gp_count(&call->queue->tally.degraded, 1);
    call->method->released(call);
}

void gp_call_enter(struct gp_call *call)
{
    struct gp_server *server = call->queue->server;
    switch (gp_limits_pass(&server->limits, call)) {
    case GP_PASSAGE_FREE:
        server->model->begin(call);
        break;
    case GP_PASSAGE_WAIT:
        gp_call_queue(call);
        call->pending++; /* GP_EVENT_WOKEN, which only this thread looks at */
        break;
    case GP_PASSAGE_REFUSE:
        refuse(call, &server->limits.each[call->passed]);
        break;
    case GP_PASSAGE_DEGRADE:
        degrade(call);
    }
}

void gp_call_queue(struct gp_call *call)
{
    call->phase = GP_PHASE_QUEUED;
    gp_count(&call->queue->server->counters.queued, 1);
}

void gp_call_unqueue(struct gp_call *call)
{
    call->phase = GP_PHASE_WORK;
    gp_count(&call->queue->server->counters.queued, -UINT64_C(1));
}

void gp_call_let_through(struct gp_call *call)
{
    gp_call_unqueue(call);
    call->passed++;
    gp_call_enter(call);
}

void gp_call_give_up(struct gp_call *call)
{
    if (call->phase == GP_PHASE_QUEUED) {
        if (gp_limits_withdraw(&call->queue->server->limits, call))
            call->pending--;
        else
            call->passed++; /* and gives it back; GP_EVENT_WOKEN will find that it is done */
        gp_call_unqueue(call);
    }
    gp_call_leave(call);
}

void gp_call_leave(struct gp_call *call)
{
    struct gp_server *server = call->queue->server;
    call->done = true;
    if (server->model->left)
        server->model->left(call);
    gp_limits_leave(&server->limits, call); /* last, for it lets the next one go the same way */
}

void gp_call_reject(struct gp_call *call, grpc_status_code status, const char *message)
{
    gp_count(&call->queue->tally.rejected, 1);
    gp_call_refuse(call, status, message);
}
