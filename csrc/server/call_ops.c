/* One call: the operations that its handler and its method have on C core. */
#include "server/call.h"

#include <assert.h>
#include <stdlib.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include "base/clock.h"
#include "server/forward.h"
#include "server/models.h"
#include "server/payload.h"
#include "server/server.h"

#define ZERO_BYTES (256u << 10)
#define BURST 64 /* sends in a row that a completion queue's thread may do */

/* Bodies are zeros. They are sent from here without a copy or a reference count; never written, so the kernel
 * backs all of it with its one page of zeros. */
static uint8_t zeros[ZERO_BYTES];

static void start(struct gp_call *call, const grpc_op *ops, size_t count, enum gp_event event)
{
    call->pending++;
    grpc_call_error error = grpc_call_start_batch(call->core, ops, count, gp_call_tag(call, event), NULL);
    assert(error ==
           GRPC_CALL_OK); /* anything else is a bug of ours: two operations of one kind, for example */
    if (error != GRPC_CALL_OK)
        call->pending--; /* nothing will complete */
}

void gp_call_watch(struct gp_call *call)
{
    /* A batch of its own: in one with others it would hold their completion back until the call is over. */
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    op.data.recv_close_on_server.cancelled = &call->close_cancelled;
    start(call, &op, 1, GP_EVENT_CLOSED);
}

void gp_call_post(grpc_call *core, void *tag)
{
    grpc_call_start_batch(core, NULL, 0, tag, NULL); /* an empty batch is complete at once */
}

/* --- messages --- */

void gp_call_drop_message(struct gp_call *call)
{
    if (call->message)
        grpc_byte_buffer_destroy(call->message);
    call->message = NULL;
}

bool gp_call_decode(struct gp_call *call)
{
    int failed = -1;
    if (call->message && call->message->data.raw.slice_buffer.count == 1) {
        grpc_slice *slice = call->message->data.raw.slice_buffer.slices;
        failed =
            gp_payload_decode(GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice), &call->response_size);
    } else if (call->message) {
        grpc_byte_buffer_reader reader;
        if (grpc_byte_buffer_reader_init(&reader, call->message)) {
            grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
            failed = gp_payload_decode(GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice),
                                       &call->response_size);
            grpc_slice_unref(slice);
            grpc_byte_buffer_reader_destroy(&reader);
        }
    }
    gp_call_drop_message(call);
    if (failed)
        gp_call_finish(call, GRPC_STATUS_INTERNAL, "the request is not a grpc.testing.SimpleRequest");
    else if (call->response_size < 0 || call->response_size > GP_PAYLOAD_MAX_BYTES)
        gp_call_finish(call, GRPC_STATUS_INVALID_ARGUMENT, "response_size must be from 0 to 1073741824");
    else
        return true;
    return false;
}

/* C core takes the slices out of a byte buffer and leaves the empty buffer to us: fill it again. */
static grpc_byte_buffer *fill_reply(struct gp_call *call)
{
    uint8_t small[GRPC_SLICE_INLINED_SIZE] = {0};
    _Static_assert(sizeof(small) >= GP_PAYLOAD_HEAD_BYTES, "a head must fit");
    size_t body = (size_t)call->response_size, head = gp_payload_head(call->response_size, small);
    if (!call->reply)
        call->reply = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &call->reply->data.raw.slice_buffer;
    grpc_slice_buffer_reset_and_unref(slices);
    bool all = head + body <= sizeof(small);
    if (head > 0)
        grpc_slice_buffer_add(slices, grpc_slice_from_copied_buffer((char *)small, all ? head + body : head));
    for (size_t part; !all && body > 0; body -= part) {
        part = body < ZERO_BYTES ? body : ZERO_BYTES;
        grpc_slice_buffer_add(slices, grpc_slice_from_static_buffer(zeros, part));
    }
    return call->reply;
}

static size_t add_headers(struct gp_call *call, grpc_op *ops, size_t count)
{
    if (call->headers_sent)
        return count;
    call->headers_sent = true;
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    return count + 1;
}

static size_t add_reply(struct gp_call *call, grpc_op *ops, size_t count)
{
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
    ops[count].data.send_message.send_message =
        call->forwarded ? gp_forward_response(call) : fill_reply(call);
    return count + 1;
}

static size_t add_receive(struct gp_call *call, grpc_op *ops, size_t count)
{
    call->reading = true;
    ops[count] = (grpc_op){.op = GRPC_OP_RECV_MESSAGE};
    ops[count].data.recv_message.recv_message = &call->message;
    return count + 1;
}

void gp_call_receive(struct gp_call *call)
{
    grpc_op op;
    if (!call->reading)
        start(call, &op, add_receive(call, &op, 0), GP_EVENT_RECEIVED);
}

void gp_call_send(struct gp_call *call)
{
    grpc_op ops[2];
    size_t count = add_headers(call, ops, 0);
    count = add_reply(call, ops, count);
    call->writing = true;
    start(call, ops, count, GP_EVENT_SENT);
}

/* Rest until then, and send; at once when there is no memory for a timer. */
static void send_at(struct gp_call *call, uint64_t time_ns)
{
    call->phase = GP_PHASE_REST;
    call->pending++;
    if (call->queue->server->model->wake_at(call, time_ns) == 0)
        return;
    call->pending--;
    call->phase = GP_PHASE_ANSWER;
    gp_call_send(call);
}

/* A completion queue does not look at its sockets while it has completions to hand out, and a send completes
 * at once for as long as there is a flow-control window: megabytes, in which nobody else's call and no
 * cancellation would be seen. So rest now and then, by a detour over the timer. */
void gp_call_pump(struct gp_call *call)
{
    const struct gp_model *model = call->queue->server->model;
    call->pumping = true;
    if (!model->owns_threads && ++call->burst == BURST) {
        call->burst = 0;
        send_at(call, gp_clock_now_ns());
    } else {
        gp_call_send(call);
    }
}

void gp_call_reply(struct gp_call *call)
{
    send_at(call, gp_clock_now_ns() + call->behaviour.message_delay_ns);
}

void gp_call_exchange(struct gp_call *call)
{
    grpc_op ops[3];
    size_t count = add_headers(call, ops, 0);
    count = add_reply(call, ops, count);
    count = add_receive(call, ops, count);
    start(call, ops, count, GP_EVENT_RECEIVED);
}

/* --- the end --- */

/* Time that a handler went on after nobody wanted its work any more. */
static void count_late_work(const struct gp_call *call)
{
    uint64_t over_ns = call->deadline_ns; /* since when */
    if (call->cancelled && call->cancelled_ns < over_ns)
        over_ns = call->cancelled_ns;
    if (over_ns != UINT64_MAX) {
        uint64_t now_ns = gp_clock_now_ns();
        if (now_ns > over_ns)
            gp_count(&call->queue->tally.work_after_cancel_ns, now_ns - over_ns);
    }
}

/* The handler has ended: after this it counts as finished, whatever C core still has to do with the call. */
void gp_call_end(struct gp_call *call)
{
    free(call->ballast);
    call->ballast = NULL;
    if (call->began) {
        count_late_work(call);
        gp_counters_end(&call->queue->server->counters, &call->queue->tally);
    }
    gp_call_leave(call); /* only now, or one too many would be running */
}

static void send_status(struct gp_call *call, bool reply)
{
    grpc_op ops[3];
    grpc_slice details = grpc_empty_slice();
    size_t count = add_headers(call, ops, 0);
    if (reply)
        count = add_reply(call, ops, count);
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    ops[count].data.send_status_from_server.status = call->status;
    if (call->status_message) {
        details = grpc_slice_from_copied_string(call->status_message);
        ops[count].data.send_status_from_server.status_details = &details;
    }
    start(call, ops, count + 1, GP_EVENT_ANSWERED);
    grpc_slice_unref(details);
}

/* Stop waiting, if the call is; no GP_EVENT_WOKEN will come then, or it is on its way and does nothing. */
static void stop_waiting(struct gp_call *call)
{
    bool stopped = false;
    if (call->phase == GP_PHASE_DELAY || call->phase == GP_PHASE_REST)
        stopped = call->queue->server->model->forget(call);
    else if (call->phase == GP_PHASE_HOLD)
        stopped = gp_queue_unpark(call->queue, call);
    if (stopped)
        call->pending--;
    call->phase = GP_PHASE_ANSWER;
}

/* The handler of a call that is no more: nothing to answer. */
void gp_call_abandon(struct gp_call *call)
{
    stop_waiting(call);
    gp_call_end(call);
}

void gp_call_finish(struct gp_call *call, grpc_status_code status, const char *message)
{
    stop_waiting(call);
    call->finishing = true;
    call->status = status;
    call->status_message = message;
    if (call->writing)
        return; /* GP_EVENT_SENT brings it back */
    gp_call_end(call);
    if (!call->cancelled)
        send_status(call, false);
}

void gp_call_respond(struct gp_call *call)
{
    call->status = GRPC_STATUS_OK;
    call->status_message = NULL;
    gp_call_end(call);
    if (!call->cancelled)
        send_status(call, true);
}

void gp_call_refuse(struct gp_call *call, grpc_status_code status, const char *message)
{
    gp_call_leave(call);
    call->status = status;
    call->status_message = message;
    send_status(call, false);
}
