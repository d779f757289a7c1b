/* One call: what its handler does before it answers, in this order: allocate, burn CPU, wait, park,
 * call the next server. */
#include "server/call.h"

#include <stdlib.h>

#include "base/clock.h"
#include "server/forward.h"
#include "server/models.h"
#include "server/server.h"

#define PAGE_BYTES 4096

static bool allocate(struct gp_call *call, uint64_t bytes)
{
    volatile uint8_t *place = call->ballast = malloc(bytes);
    if (!place)
        return false;
    for (uint64_t i = 0; i < bytes; i += PAGE_BYTES)
        place[i] = 1;
    return true;
}

/* A cancellation that has not come out of the queue yet, for it may be this very thread that empties the
 * queue. C core writes the word when it learns of the end, on whichever thread that is. */
static void look_for_cancel(struct gp_call *call)
{
    if (call->cancelled || !__atomic_load_n(&call->close_cancelled, __ATOMIC_ACQUIRE))
        return;
    gp_call_note_cancel(call);
    call->cancelled = true;
}

static bool past_deadline(const struct gp_call *call)
{
    return call->deadline_ns != UINT64_MAX && gp_clock_now_ns() >= call->deadline_ns;
}

/* Use CPU, by the thread's own clock: on crowded cores the work must not shrink. */
static void burn(struct gp_call *call, uint64_t busy_ns)
{
    uint64_t until_ns = gp_clock_thread_cpu_ns() + busy_ns;
    while (gp_clock_thread_cpu_ns() < until_ns) {
        look_for_cancel(call);
        if (call->behaviour.observe_cancel && (call->cancelled || past_deadline(call)))
            return;
    }
}

static bool forwards(const struct gp_call *call)
{
    return call->queue->server->forward.channel != NULL;
}

static void proceed(struct gp_call *call)
{
    if (forwards(call))
        gp_forward_call(call);
    else
        call->method->begin(call);
}

static void answer(struct gp_call *call)
{
    bool held = call->phase == GP_PHASE_HOLD;
    call->phase = GP_PHASE_ANSWER;
    if (call->cancelled)
        gp_call_end(call);
    else if (call->behaviour.status)
        gp_call_finish(call, call->behaviour.status, "as grpcperf-status asked");
    else if (held && !forwards(call))
        call->method->released(call);
    else
        proceed(call);
}

static void hold(struct gp_call *call)
{
    call->phase = GP_PHASE_HOLD;
    call->pending++;
    if (!gp_queue_park(call->queue, call)) { /* all were released while it was on its way here */
        call->pending--;
        answer(call);
        return;
    }
    if (call->method->received)
        gp_call_receive(call);
}

static void after_delay(struct gp_call *call)
{
    if (call->behaviour.hold && !(call->cancelled && call->behaviour.observe_cancel))
        hold(call);
    else
        answer(call);
}

static void behave(struct gp_call *call)
{
    const struct gp_behaviour *behaviour = &call->behaviour;
    if (behaviour->alloc_bytes && !allocate(call, behaviour->alloc_bytes)) {
        gp_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for grpcperf-alloc-bytes");
        return;
    }
    if (behaviour->busy_ns)
        burn(call, behaviour->busy_ns);
    if (behaviour->observe_cancel && (call->cancelled || past_deadline(call))) {
        gp_call_finish(call, GRPC_STATUS_DEADLINE_EXCEEDED, "the deadline has passed");
        return;
    }
    if (behaviour->delay_ns) {
        call->phase = GP_PHASE_DELAY;
        call->pending++;
        if (call->queue->server->model->wake_at(call, gp_clock_now_ns() + behaviour->delay_ns) == 0)
            return;
        call->pending--;
    }
    after_delay(call);
}

void gp_call_begin(struct gp_call *call)
{
    call->began = true;
    gp_counters_begin(&call->queue->server->counters, &call->queue->tally);
    if (forwards(call) && !call->method->forwards) {
        gp_call_finish(call, GRPC_STATUS_UNIMPLEMENTED,
                       "a server with a next one forwards unary calls alone");
        return;
    }
    if (call->method->reads_first && !forwards(call) && !gp_call_decode(call))
        return; /* what is forwarded the last server decodes */
    if (call->behaviour.asked)
        behave(call);
    else
        proceed(call);
}

static void rest_is_over(struct gp_call *call)
{
    call->phase = GP_PHASE_ANSWER;
    gp_call_send(call);
}

void gp_call_woken(struct gp_call *call)
{
    if (call->phase == GP_PHASE_QUEUED)
        gp_call_let_through(call);
    else if (call->phase == GP_PHASE_DELAY)
        after_delay(call);
    else if (call->phase == GP_PHASE_HOLD)
        answer(call);
    else if (call->phase == GP_PHASE_REST)
        rest_is_over(call);
}
