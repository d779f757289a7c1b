/* One call: its life, and the events that drive it. */
#include "server/call.h"

#include <stdlib.h>
#include <grpc/slice_buffer.h>

#include "base/clock.h"
#include "server/forward.h"

struct gp_call *gp_call_create(struct gp_queue *queue)
{
    struct gp_call *call = calloc(1, sizeof(*call));
    pthread_condattr_t attributes;
    if (!call)
        return NULL;
    call->queue = queue;
    for (unsigned i = 0; i < GP_EVENT_COUNT; i++)
        call->tags[i] = (uint8_t)i;
    grpc_metadata_array_init(&call->metadata);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&call->inbox.lock, NULL);
    pthread_cond_init(&call->inbox.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return call;
}

void gp_call_destroy(struct gp_call *call)
{
    grpc_metadata_array_destroy(&call->metadata);
    if (call->reply)
        grpc_byte_buffer_destroy(call->reply);
    pthread_cond_destroy(&call->inbox.changed);
    pthread_mutex_destroy(&call->inbox.lock);
    free(call);
}

void gp_call_reset(struct gp_call *call)
{
    gp_forward_reset(call);
    if (call->core)
        grpc_call_unref(call->core);
    call->core = NULL;
    gp_call_drop_message(call);
    if (call->details) {
        grpc_call_details_destroy(call->details);
        free(call->details);
        call->details = NULL;
    }
    /* Keeping the array would save nothing: C core puts one of its own in its place and frees it. */
    grpc_metadata_array_destroy(&call->metadata);
    grpc_metadata_array_init(&call->metadata);
    if (call->reply)
        grpc_slice_buffer_reset_and_unref(&call->reply->data.raw.slice_buffer);
    call->close_cancelled = 0;
    call->cancelled_ns = 0;
    call->pending = 0;
    call->response_size = 0;
    call->phase = GP_PHASE_WORK;
    call->passed = 0;
    call->began = call->reading = call->writing = call->headers_sent = false;
    call->pumping = call->cancelled = call->finishing = call->done = false;
    call->burst = 0;
    call->inbox.events = 0;
    call->inbox.attended = false;
    call->inbox.wake_at_ns = 0;
}

void gp_call_note_cancel(struct gp_call *call)
{
    uint64_t unknown = 0;
    atomic_compare_exchange_strong(&call->cancelled_ns, &unknown, gp_clock_now_ns());
}

static void on_closed(struct gp_call *call)
{
    if (!call->close_cancelled)
        return;
    call->cancelled = true;
    if (call->done)
        return;
    if (!call->began)
        gp_call_give_up(call);
    else if (call->behaviour.observe_cancel)
        gp_call_abandon(call);
}

static void on_received(struct gp_call *call)
{
    call->reading = false;
    if (call->done || call->finishing)
        gp_call_drop_message(call);
    else
        call->method->received(call, call->message != NULL); /* which decodes it, and may ask for the next */
}

static void on_sent(struct gp_call *call, bool ok)
{
    call->writing = false;
    if (call->done)
        return;
    if (call->finishing)
        gp_call_finish(call, call->status, call->status_message);
    else if (ok)
        call->method->sent(call);
    else if (!gp_call_held(call))
        gp_call_abandon(call); /* a write fails only on a call that is no more */
}

void gp_call_step(struct gp_call *call, enum gp_event event)
{
    call->pending--;
    switch (event) {
    case GP_EVENT_CLOSED:
        on_closed(call);
        break;
    case GP_EVENT_RECEIVED:
        on_received(call);
        break;
    case GP_EVENT_SENT:
    case GP_EVENT_UNSENT:
        on_sent(call, event == GP_EVENT_SENT);
        break;
    case GP_EVENT_FORWARDED:
        gp_forward_answered(call);
        break;
    case GP_EVENT_WOKEN:
        if (!call->done && !call->finishing)
            gp_call_woken(call);
        break;
    default: /* GP_EVENT_ANSWERED, GP_EVENT_HOME: only counted */
        break;
    }
}
