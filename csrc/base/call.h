/* What a call is, as plain data shared by all that send, carry or count calls: its kind, what it asks for,
 * how it can end. */
#ifndef GP_BASE_CALL_H
#define GP_BASE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

enum gp_kind {
    GP_KIND_UNARY,
    GP_KIND_SERVER_STREAM,
    GP_KIND_CLIENT_STREAM,
    GP_KIND_BIDI,      /* ping-pong: the next message is sent when the answer to the last has come */
    GP_KIND_BIDI_FREE, /* both directions run on their own */
};

/* How a call ended: exactly one of these. 0 to 16 are the status codes of gRPC. */
enum gp_class {
    GP_CLASS_OK = 0,
    GP_CLASS_CANCELLED = 1,
    GP_CLASS_UNKNOWN = 2,
    GP_CLASS_DEADLINE_EXCEEDED = 4,
    GP_CLASS_PERMISSION_DENIED = 7,
    GP_CLASS_RESOURCE_EXHAUSTED = 8,
    GP_CLASS_UNIMPLEMENTED = 12,
    GP_CLASS_INTERNAL = 13,
    GP_CLASS_UNAVAILABLE = 14,
    GP_CLASS_UNAUTHENTICATED = 16,
    GP_CLASS_IN_FLIGHT_AT_END = 17, /* the drain ran out; the engine cancelled it */
    GP_CLASS_TRANSPORT = 18,        /* the connection died (wire only: C core can only say UNAVAILABLE) */
    GP_CLASS_COUNT
};

const char *
    gp_class_name(enum gp_class class); /* "OK", ... "UNAUTHENTICATED", "in_flight_at_end", "transport" */

struct gp_metadata {
    const char *key, *value;
    size_t
        value_bytes; /* of a binary one, which holds bytes of any kind. The value of others ends with NUL */
};

bool gp_metadata_is_binary(const char *key); /* gRPC: those whose key ends in -bin */
size_t gp_metadata_value_bytes(const struct gp_metadata *metadata);

/* A serialized request message. */
struct gp_payload {
    const void *bytes;
    size_t size;
};

/* What every call of a client asks for. A server_stream sends its one request also when it is parked. */
struct gp_request {
    enum gp_kind kind;
    const char *method;  /* "/package.Service/Method" */
    const void *message; /* one serialized request message, sent by each call (and for each message) */
    size_t message_bytes;
    const struct gp_payload *pool; /* or several, of which each message to be sent is drawn: gp_call_draw */
    uint32_t pool_count;           /* 0: `message` */
    uint64_t seed;
    const struct gp_metadata *metadata;
    size_t metadata_count;
    uint64_t deadline_ns; /* a span from the moment of sending; 0: none */
    uint32_t messages;    /* streams: each way, then the client ends it as OK; 0: at gp_client_end */
    bool fed;             /* parked bidi: its messages are given by gp_client_feed (wire) */
    bool parked;          /* streams: send `messages` (0 is meant), then stay idle until the server ends it */
};

/* When a call is OK. Every status but OK is the class itself; of calls whose status is OK:
 *   unary          exactly one response came, else UNIMPLEMENTED, as gRPC's own table of codes has it
 *   client_stream  the same
 *   server_stream  the client has read `messages` and cancelled; or the server ended first, for the length is
 *                  its choice, but at least one message came, else UNKNOWN
 *   bidi           as many answers came as messages were sent, and `messages` of them, else UNKNOWN
 *   bidi_free      `messages` sent and no fewer received (then cancelled), and at least one,
 *                  else UNKNOWN
 *   parked         whatever number of messages came, but client_stream still needs its one response
 * A second response where the kind has one is not OK either. (C core keeps the status back then: such a call
 * ends by its deadline or by cancel_all.) */

/* Whether a call whose status is OK has the messages its kind demands. `messages` is the request's. */
bool gp_call_is_complete(enum gp_kind kind, bool parked, uint32_t messages, uint32_t sent, uint32_t received);

/* The class of a call whose status is OK: OK if it is complete, else the one named above. */
enum gp_class gp_call_judge_ok(enum gp_kind kind, bool parked, uint32_t messages, uint32_t sent,
                               uint32_t received);

/* Which of a pool of `count` payloads is the `message`-th (from 0) of the `call`-th on a connection. It
 * follows from these and the seed alone, so that runs can be repeated and nothing is kept or locked to know
 * it. */
static inline uint32_t gp_call_draw(uint64_t seed, uint32_t connection, uint32_t call, uint32_t message,
                                    uint32_t count)
{
    uint64_t of_call = gp_random_at(seed, (uint64_t)connection << 32 | call);

    return (uint32_t)((gp_random_at(of_call, message) >> 32) * count >> 32);
}

/* Whether a call in flight has said all that it was to: a client_stream without a bound that was told to end
 * (gp_client_end). It is OK also when it is cancelled then, for its end is the client's; how much of it the
 * peer has read is not known, and `ahead` in its event says so. `sent`: its messages. */
bool gp_call_is_said(enum gp_kind kind, bool parked, uint32_t messages, bool ending, uint32_t sent);

/* A call that has ended. */
struct gp_event {
    uint64_t id;
    uint64_t sent_ns, done_ns; /* gp_clock_now_ns; of a call that never went out sent_ns is done_ns */
    uint32_t messages_received;
    enum gp_class class : 16;
    bool held : 1;    /* it waited for a stream or a connection: sent_ns is after it was submitted (wire) */
    bool ahead : 1;   /* OK, but cancelled before the peer had answered: gp_call_is_said */
    bool refused : 1; /* the peer is known not to have begun it, so that it may be submitted again (wire) */
};

#endif
