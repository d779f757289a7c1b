/* core_call: one call on gRPC C core, as the batches of operations it is made of. Which batch follows which
 * is told by kind; no waiting and no channels here.
 *
 *   unary          WHOLE (everything in one batch)
 *   client_stream  WHOLE (headers, the response, the status); SEND, SEND, ... and half-closed with the last
 *   server_stream  WHOLE (headers, the request, the status); RECEIVE, RECEIVE, ... then cancelled by the
 * client bidi           WHOLE (headers, the status); EXCHANGE, EXCHANGE, ...; RECEIVE until the end bidi_free
 * WHOLE (headers, the status); SEND, SEND, ... beside RECEIVE, RECEIVE, ...; cancelled
 *
 * As long as a stream lives a receive is outstanding wherever messages may come: C core keeps a status back
 * while there is a message that nobody has asked for. */
#include "client/core.h"

#include <assert.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice_buffer.h>

#include "base/clock.h"
#include "base/message_times.h"

void core_call_init(struct core_call *call)
{
    memset(call, 0, sizeof *call);
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    call->details = grpc_empty_slice();
    call->outgoing = grpc_raw_byte_buffer_create(NULL, 0);
}

void core_call_fini(struct core_call *call)
{
    assert(!call->call);
    grpc_slice_unref(call->details);
    grpc_byte_buffer_destroy(call->outgoing);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
}

/* --- operations, put together on the stack ----------------------------------------------------- */

struct batch {
    grpc_op ops[6];
    size_t count;
};

static grpc_op *add(struct batch *batch, grpc_op_type type)
{
    grpc_op *op = &batch->ops[batch->count++];

    op->op = type;
    op->flags = 0;
    op->reserved = NULL;
    return op;
}

static void add_headers(struct batch *batch, const struct core_client *client)
{
    grpc_op *op = add(batch, GRPC_OP_SEND_INITIAL_METADATA);

    op->data.send_initial_metadata.count = client->metadata_count;
    op->data.send_initial_metadata.metadata = client->metadata;
    op->data.send_initial_metadata.maybe_compression_level.is_set = 0;
}

/* gRPC takes the slices out of the byte buffer and leaves the buffer itself: putting the slice in again is
 * what a copy of the buffer would do, without the allocation. */
static void add_message(struct batch *batch, struct core_client *client, struct core_call *call)
{
    grpc_slice_buffer *slices = &call->outgoing->data.raw.slice_buffer;

    grpc_slice_buffer_reset_and_unref(slices);
    grpc_slice_buffer_add(slices, grpc_slice_ref(client->message));
    add(batch, GRPC_OP_SEND_MESSAGE)->data.send_message.send_message = call->outgoing;
    call->sent++;
    client->messages_sent++;
}

static void add_half_close(struct batch *batch, struct core_call *call)
{
    add(batch, GRPC_OP_SEND_CLOSE_FROM_CLIENT);
    call->half_closed = true;
}

static void add_response_headers(struct batch *batch, struct core_call *call)
{
    call->initial.count = 0;
    add(batch, GRPC_OP_RECV_INITIAL_METADATA)->data.recv_initial_metadata.recv_initial_metadata =
        &call->initial;
}

static void add_response(struct batch *batch, struct core_call *call)
{
    add(batch, GRPC_OP_RECV_MESSAGE)->data.recv_message.recv_message = &call->incoming;
}

static void add_status(struct batch *batch, struct core_call *call)
{
    grpc_op *op = add(batch, GRPC_OP_RECV_STATUS_ON_CLIENT);

    call->trailing.count = 0;
    op->data.recv_status_on_client.trailing_metadata = &call->trailing;
    op->data.recv_status_on_client.status = &call->status;
    op->data.recv_status_on_client.status_details = &call->details;
    op->data.recv_status_on_client.error_string = NULL;
}

static void begin(struct core_call *call, const struct batch *batch, enum core_step step)
{
    grpc_call_error error =
        grpc_call_start_batch(call->call, batch->ops, batch->count, core_tag(call, step), NULL);

    assert(error == GRPC_CALL_OK);
    (void)error;
    call->batches++;
}

static void begin_send(struct core_client *client, struct core_call *call, bool last)
{
    struct batch batch = {.count = 0};

    add_message(&batch, client, call);
    if (last)
        add_half_close(&batch, call);
    call->sending = true;
    begin(call, &batch, CORE_STEP_SEND);
}

static void begin_receive(struct core_call *call)
{
    struct batch batch = {.count = 0};

    add_response(&batch, call);
    begin(call, &batch, CORE_STEP_RECEIVE);
}

static void begin_exchange(struct core_client *client, struct core_call *call, bool last)
{
    struct batch batch = {.count = 0};

    add_message(&batch, client, call);
    if (last)
        add_half_close(&batch, call);
    add_response(&batch, call);
    begin(call, &batch, CORE_STEP_EXCHANGE);
}

static void begin_close(struct core_call *call)
{
    struct batch batch = {.count = 0};

    add_half_close(&batch, call);
    begin(call, &batch, CORE_STEP_CLOSE);
}

/* --- how a call begins ------------------------------------------------------------------------- */

static void begin_whole(struct core_client *client, struct core_call *call)
{
    struct batch batch = {.count = 0};

    add_headers(&batch, client);
    if (client->kind == GP_KIND_UNARY || client->kind == GP_KIND_SERVER_STREAM) {
        add_message(&batch, client, call);
        add_half_close(&batch, call);
    }
    add_response_headers(&batch, call);
    if (client->kind == GP_KIND_UNARY || client->kind == GP_KIND_CLIENT_STREAM)
        add_response(&batch, call);
    add_status(&batch, call);
    begin(call, &batch, CORE_STEP_WHOLE);
}

/* Whether the message now to be sent is the last one and takes the half-close with it. */
static bool is_last(const struct core_client *client, const struct core_call *call)
{
    if (client->parked)
        return false;
    return client->messages > 0 ? call->sent + 1 == client->messages : client->ending;
}

/* Whether there is one more to send. */
static bool has_more(const struct core_client *client, const struct core_call *call)
{
    if (client->messages > 0 || client->parked)
        return call->sent < client->messages;
    return !client->ending || call->sent == 0;
}

static void begin_stream(struct core_client *client, struct core_call *call)
{
    bool more = has_more(client, call), last = is_last(client, call);

    if (client->kind == GP_KIND_UNARY)
        return;
    if (client->kind == GP_KIND_BIDI && more) {
        begin_exchange(client, call, last);
        return;
    }
    if (client->kind != GP_KIND_CLIENT_STREAM)
        begin_receive(call);
    if (more && client->kind == GP_KIND_CLIENT_STREAM)
        begin_send(client, call, last);
    if (more && client->kind == GP_KIND_BIDI_FREE)
        begin_send(client, call, false);
}

static void open_call(struct core_client *client, struct core_call *call, const struct core_channel *channel,
                      uint64_t until_ns)
{
    assert(!call->call);
    call->sent = call->received = 0;
    call->sending = call->half_closed = call->over = call->ended = false;
    grpc_slice_unref(call->details);
    call->details = grpc_empty_slice();
    call->call =
        grpc_channel_create_registered_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client->queue,
                                            channel->method, core_time(until_ns), NULL);
    client->in_flight++;
}

/* A deadline must be known when the call is made, which comes before the sending: then both count from the
 * same moment, or a thread that loses its CPU in between would see a deadline expire early. */
void core_call_start(struct core_client *client, struct core_call *call, const struct core_channel *channel)
{
    uint64_t made_ns = client->deadline_ns > 0 ? gp_clock_now_ns() : 0;

    open_call(client, call, channel, made_ns > 0 ? made_ns + client->deadline_ns : UINT64_MAX);
    call->sent_ns = made_ns > 0 ? made_ns : gp_clock_now_ns();
    if (client->times)
        gp_message_times_begin(client->times, (uint64_t)(call - client->calls), call->sent_ns);
    begin_whole(client, call);
    begin_stream(client, call);
}

void core_call_ask(struct core_client *client, struct core_call *call, const struct core_channel *channel,
                   uint64_t until_ns)
{
    struct batch batch = {.count = 0};

    open_call(client, call, channel, until_ns);
    add_headers(&batch, client);
    add_status(&batch, call);
    begin(call, &batch, CORE_STEP_WHOLE);
}

/* --- how it goes on ---------------------------------------------------------------------------- */

/* Take what a receive has brought; whether it was a message. */
static bool take_message(struct core_client *client, struct core_call *call, uint64_t now_ns)
{
    if (!call->incoming)
        return false;
    grpc_byte_buffer_destroy(call->incoming);
    call->incoming = NULL;
    if (client->times)
        gp_message_times_came(client->times, (uint64_t)(call - client->calls), call->received, 1, now_ns);
    call->received++;
    client->messages_received++;
    return true;
}

/* Whether a stream whose end the client decides has come to it. */
static bool has_all(const struct core_client *client, const struct core_call *call)
{
    if (client->parked)
        return false;
    if (client->kind == GP_KIND_BIDI_FREE && (call->sending || has_more(client, call)))
        return false;
    return client->messages > 0 ? call->received >= client->messages : client->ending && call->received > 0;
}

/* The client has all it wanted, and ends the call. */
static void end_ok(struct core_call *call)
{
    if (!call->half_closed)
        begin_close(call);
    call->ended = true;
    grpc_call_cancel(call->call, NULL);
}

static void after_send(struct core_client *client, struct core_call *call)
{
    if (has_more(client, call))
        begin_send(client, call, client->kind == GP_KIND_CLIENT_STREAM && is_last(client, call));
    else if (client->kind == GP_KIND_BIDI_FREE && has_all(client, call))
        end_ok(call);
    else if (client->kind == GP_KIND_CLIENT_STREAM && !client->parked && !call->half_closed)
        begin_close(call);
}

static void after_receive(struct core_client *client, struct core_call *call)
{
    if (client->kind != GP_KIND_BIDI && has_all(client, call))
        end_ok(call);
    else
        begin_receive(call);
}

static void after_exchange(struct core_client *client, struct core_call *call)
{
    if (has_more(client, call)) {
        begin_exchange(client, call, is_last(client, call));
        return;
    }
    if (!client->parked && !call->half_closed)
        begin_close(call);
    begin_receive(call);
}

/* --- how it ended ------------------------------------------------------------------------------ */

static bool has_its_messages(const struct core_client *client, const struct core_call *call)
{
    switch (client->kind) {
    case GP_KIND_UNARY:
    case GP_KIND_CLIENT_STREAM:
        return call->received == 1;
    case GP_KIND_SERVER_STREAM:
        return client->parked || call->received > 0;
    case GP_KIND_BIDI:
        return client->parked || (call->received == call->sent && call->sent >= client->messages);
    case GP_KIND_BIDI_FREE:
        return client->parked ||
               (call->received > 0 && call->received >= client->messages && call->sent >= client->messages);
    }
    return false;
}

static enum gp_class judge(const struct core_client *client, const struct core_call *call)
{
    bool single = client->kind == GP_KIND_UNARY || client->kind == GP_KIND_CLIENT_STREAM;

    if (call->ended)
        return GP_CLASS_OK;
    if ((unsigned)call->status > GP_CLASS_UNAUTHENTICATED) /* a server may send any number */
        return GP_CLASS_UNKNOWN;
    if (call->status != GRPC_STATUS_OK)
        return (enum gp_class)call->status;
    if (has_its_messages(client, call))
        return GP_CLASS_OK;
    return single ? GP_CLASS_UNIMPLEMENTED : GP_CLASS_UNKNOWN;
}

static void finish(struct core_client *client, struct core_call *call, uint64_t now_ns,
                   struct gp_event *event)
{
    event->sent_ns = call->sent_ns;
    event->done_ns = now_ns;
    event->messages_received = call->received;
    event->class = judge(client, call);
    event->held = event->refused = false;
    grpc_call_unref(call->call);
    call->call = NULL;
    client->in_flight--;
}

/* Only then may `incoming` be looked at: otherwise gRPC may be about to write there. */
static bool brings_message(const struct core_client *client, enum core_step step)
{
    if (step == CORE_STEP_WHOLE)
        return client->kind == GP_KIND_UNARY || client->kind == GP_KIND_CLIENT_STREAM;
    return step == CORE_STEP_RECEIVE || step == CORE_STEP_EXCHANGE;
}

bool core_call_step(struct core_client *client, struct core_call *call, enum core_step step, bool success,
                    uint64_t now_ns, struct gp_event *event)
{
    bool got = brings_message(client, step) && take_message(client, call, now_ns);

    call->batches--;
    if (step == CORE_STEP_WHOLE)
        call->over = true;
    if (step == CORE_STEP_SEND)
        call->sending = false;
    if (!call->over && !call->ended && success) {
        if (step == CORE_STEP_SEND)
            after_send(client, call);
        else if (step == CORE_STEP_RECEIVE && got)
            after_receive(client, call);
        else if (step == CORE_STEP_EXCHANGE && got)
            after_exchange(client, call);
    }
    if (call->batches > 0)
        return false;
    finish(client, call, now_ns, event);
    return true;
}
