/* core_call: one call on gRPC C core, as the batches of operations it is made of. Which batch follows which
 * is told by kind; no waiting and no channels here.
 *
 *   unary          WHOLE (everything in one batch)
 *   client_stream  WHOLE (headers, the response, the status); SEND, SEND, ..., half-closed with the last
 *   server_stream  WHOLE (headers, the request, the status); RECEIVE, RECEIVE, ..., cancelled
 *   bidi           WHOLE (headers, the status); EXCHANGE, EXCHANGE, ...; RECEIVE until the end
 *   bidi_free      WHOLE (headers, the status); SEND, SEND, ... beside RECEIVE, RECEIVE, ...; cancelled
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

#define SEND_BURST 64u

gpr_timespec core_time(uint64_t ns)
{
    if (ns == UINT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = (int64_t)(ns / GP_NS_PER_S),
                          .tv_nsec = (int32_t)(ns % GP_NS_PER_S),
                          .clock_type = GPR_CLOCK_MONOTONIC};
}

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

/* --- how a call begins ------------------------------------------------------------------------- */

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
        core_begin_exchange(client, call, last);
        return;
    }
    if (client->kind != GP_KIND_CLIENT_STREAM)
        core_begin_receive(call);
    if (more && client->kind == GP_KIND_CLIENT_STREAM)
        core_begin_send(client, call, last);
    if (more && client->kind == GP_KIND_BIDI_FREE)
        core_begin_send(client, call, false);
}

static void open_call(struct core_client *client, struct core_call *call, struct core_channel *channel,
                      uint64_t until_ns)
{
    assert(!call->call);
    call->sent = call->received = call->burst = 0;
    call->sending = call->half_closed = call->over = call->ended = call->ahead = false;
    call->connection = (uint32_t)(channel - client->channels);
    call->number = channel->calls++;
    grpc_slice_unref(call->details);
    call->details = grpc_empty_slice();
    call->call =
        grpc_channel_create_registered_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client->queue,
                                            channel->method, core_time(until_ns), NULL);
    client->in_flight++;
    gp_pool_load(&client->pool, call->connection, ++channel->in_flight);
}

/* A deadline must be known when the call is made, which comes before the sending: then both count from the
 * same moment, or a thread that loses its CPU in between would see a deadline expire early. */
void core_call_start(struct core_client *client, struct core_call *call, struct core_channel *channel)
{
    uint64_t made_ns = client->deadline_ns > 0 ? gp_clock_now_ns() : 0;

    open_call(client, call, channel, made_ns > 0 ? made_ns + client->deadline_ns : UINT64_MAX);
    call->sent_ns = made_ns > 0 ? made_ns : gp_clock_now_ns();
    if (client->times)
        gp_message_times_begin(client->times, (uint64_t)(call - client->calls), call->sent_ns);
    core_begin_whole(client, call);
    begin_stream(client, call);
}

void core_call_ask(struct core_client *client, struct core_call *call, struct core_channel *channel,
                   uint64_t until_ns)
{
    open_call(client, call, channel, until_ns);
    core_begin_bare(client, call);
}

/* --- how it goes on ---------------------------------------------------------------------------- */

/* Take what a receive has brought; whether it was a message. */
static bool take_message(struct core_client *client, struct core_call *call, uint64_t now_ns)
{
    if (!call->incoming)
        return false;
    grpc_byte_buffer_destroy(call->incoming);
    call->incoming = NULL;
    if (call->ended) /* no longer wanted, and not counted */
        return true;
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

/* gRPC looks at its sockets when a completion queue is empty, and one that a stream fills with sends never
 * is: what comes in would starve. So a stream rests after some sends in a row until the queue has been found
 * empty. */
static void rest(struct core_client *client, struct core_call *call)
{
    call->burst = 0;
    client->resting[client->resting_count] = call;
    call->rests_at = ++client->resting_count;
}

static void leave_rest(struct core_client *client, struct core_call *call)
{
    struct core_call *last = client->resting[--client->resting_count];

    client->resting[call->rests_at - 1] = last;
    last->rests_at = call->rests_at;
    call->rests_at = 0;
}

/* The client has all it wanted, and ends the call. */
static void end_ok(struct core_call *call)
{
    call->ended = true;
    grpc_call_cancel(call->call, NULL);
}

/* A message that gRPC has not taken yet is not one that was said. */
void core_call_cancel(struct core_client *client, struct core_call *call)
{
    call->ahead = !call->over && gp_call_is_said(client->kind, client->parked, client->messages,
                                                 client->ending, call->sent - call->sending);
    grpc_call_cancel(call->call, NULL);
}

static void after_send(struct core_client *client, struct core_call *call)
{
    if (client->kind == GP_KIND_BIDI_FREE && has_more(client, call) && ++call->burst == SEND_BURST)
        rest(client, call);
    else if (has_more(client, call))
        core_begin_send(client, call, client->kind == GP_KIND_CLIENT_STREAM && is_last(client, call));
    else if (client->kind == GP_KIND_BIDI_FREE && has_all(client, call))
        end_ok(call);
    else if (client->kind == GP_KIND_CLIENT_STREAM && !client->parked && !call->half_closed)
        core_begin_close(call);
}

void core_call_wake(struct core_client *client)
{
    for (uint32_t count = client->resting_count; count > 0; count--) {
        struct core_call *call = client->resting[count - 1];

        leave_rest(client, call);
        if (!call->over && !call->ended)
            after_send(client, call);
    }
}

static void after_receive(struct core_client *client, struct core_call *call)
{
    if (client->kind != GP_KIND_BIDI && has_all(client, call))
        end_ok(call);
    core_begin_receive(call); /* also then: see go_on */
}

static void after_exchange(struct core_client *client, struct core_call *call)
{
    if (has_more(client, call)) {
        core_begin_exchange(client, call, is_last(client, call));
        return;
    }
    if (!client->parked && !call->half_closed)
        core_begin_close(call);
    core_begin_receive(call);
}

/* gRPC keeps the status back while a message is unread, and cancelling a call that the server has ended too
 * changes nothing: what is still there is read to its end also when the client wants no more of it, or the
 * call would never come back. */
static void go_on(struct core_client *client, struct core_call *call, enum core_step step, bool got)
{
    if (call->ended) {
        if (got)
            core_begin_receive(call);
    } else if (step == CORE_STEP_SEND) {
        after_send(client, call);
    } else if (step == CORE_STEP_RECEIVE && got) {
        after_receive(client, call);
    } else if (step == CORE_STEP_EXCHANGE && got) {
        after_exchange(client, call);
    }
}

/* --- how it ended ------------------------------------------------------------------------------ */

static enum gp_class judge(const struct core_client *client, const struct core_call *call)
{
    if (call->ended || call->ahead)
        return GP_CLASS_OK;
    if ((unsigned)call->status > GP_CLASS_UNAUTHENTICATED) /* a server may send any number */
        return GP_CLASS_UNKNOWN;
    if (call->status != GRPC_STATUS_OK)
        return (enum gp_class)call->status;
    return gp_call_judge_ok(client->kind, client->parked, client->messages, call->sent, call->received);
}

static void finish(struct core_client *client, struct core_call *call, uint64_t now_ns,
                   struct gp_event *event)
{
    call->ahead &= call->status == GRPC_STATUS_CANCELLED; /* else it ended by itself at that moment */
    event->sent_ns = call->sent_ns;
    event->done_ns = now_ns;
    event->messages_received = call->received;
    event->class = judge(client, call);
    event->held = event->refused = false;
    event->ahead = call->ahead;
    if (call->rests_at > 0)
        leave_rest(client, call);
    grpc_call_unref(call->call);
    call->call = NULL;
    client->in_flight--;
    gp_pool_load(&client->pool, call->connection, --client->channels[call->connection].in_flight);
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
    if (!call->over && success)
        go_on(client, call, step, got);
    if (call->batches > 0)
        return false;
    finish(client, call, now_ns, event);
    return true;
}
