/* The five methods of grpc.testing.BenchmarkService, as proto/benchmark_service.proto describes them.
 *
 * A parked stream goes on reading, and the ping-pong kinds answer what they read; only its end waits for the
 * release. What a call does when it is released is a method's `released`: those with one response give it. */
#include "server/service.h"

static void finish_ok(struct gp_call *call)
{
    gp_call_finish(call, GRPC_STATUS_OK, NULL);
}

/* While parked: answer each message, read the next when the answer is out. */
static void held_received(struct gp_call *call, bool message)
{
    if (message && gp_call_decode(call))
        gp_call_send(call);
}

static void ping_pong_received(struct gp_call *call, bool message)
{
    if (gp_call_held(call))
        held_received(call, message);
    else if (!message)
        finish_ok(call);
    else if (!gp_call_decode(call))
        return;
    else if (call->behaviour.message_delay_ns)
        gp_call_reply(call);
    else
        gp_call_exchange(call);
}

static void from_client_received(struct gp_call *call, bool message)
{
    if (message && gp_call_decode(call))
        gp_call_receive(call);
    else if (!message && !gp_call_held(call))
        gp_call_respond(call);
}

static void both_ways_received(struct gp_call *call, bool message)
{
    if (gp_call_held(call)) {
        held_received(call, message);
        return;
    }
    if (!message) {
        finish_ok(call);
        return;
    }
    if (!gp_call_decode(call))
        return;
    gp_call_receive(call);
    if (!call->pumping) /* the first message says how large the responses are to be */
        gp_call_pump(call);
}

static void both_ways_sent(struct gp_call *call)
{
    if (gp_call_held(call))
        gp_call_receive(call);
    else
        gp_call_pump(call);
}

const struct gp_method gp_methods[GP_METHOD_COUNT] = {
    {
        .path = "/grpc.testing.BenchmarkService/UnaryCall",
        .reads_first = true,
        .forwards = true,
        .begin = gp_call_respond,
        .released = gp_call_respond,
    },
    {
        .path = "/grpc.testing.BenchmarkService/StreamingCall",
        .begin = gp_call_receive,
        .received = ping_pong_received,
        .sent = gp_call_receive, /* while parked, or late, an answer is sent on its own */
        .released = finish_ok,
    },
    {
        .path = "/grpc.testing.BenchmarkService/StreamingFromClient",
        .begin = gp_call_receive,
        .received = from_client_received,
        .released = gp_call_respond,
    },
    {
        .path = "/grpc.testing.BenchmarkService/StreamingFromServer",
        .reads_first = true,
        .begin = gp_call_pump,
        .sent = gp_call_pump,
        .released = gp_call_respond,
    },
    {
        .path = "/grpc.testing.BenchmarkService/StreamingBothWays",
        .begin = gp_call_receive,
        .received = both_ways_received,
        .sent = both_ways_sent,
        .released = finish_ok,
    },
};
