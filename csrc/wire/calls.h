/* The records of a client's calls: one cache line each, in one slab indexed by id, shared by all connections.
 * What the kinds of calls demand is told here as plain questions about a record; frames are nobody's business
 * here. */
#ifndef GP_WIRE_CALLS_H
#define GP_WIRE_CALLS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"
#include "wire/connection.h"
#include "wire/message.h"

#define GP_CALLS_NONE UINT32_MAX /* no id, and no connection */
#define GP_CALLS_CAUSES 8u       /* classes in which calls of one batch end */
#define GP_CALLS_SLACK 64u       /* bytes behind the frame, so that copies may be of constant size */

enum gp_call_state {
    GP_CALL_FREE = 0, /* the id is not in flight */
    GP_CALL_QUEUED,   /* waits for a stream */
    GP_CALL_OPEN,
};

enum gp_call_flag {
    GP_CALL_ANSWERED = 1,    /* the response's headers have come */
    GP_CALL_GZIP = 2,        /* and allow gzip */
    GP_CALL_HALF_CLOSED = 4, /* END_STREAM was sent */
    GP_CALL_READY = 8,       /* stands in the queue of those that have something to send */
    GP_CALL_BLOCKED = 16,    /* has something to send, but no window on its stream */
    GP_CALL_LEAVING = 32,    /* its class is decided; it ends with what is being received */
    GP_CALL_HELD = 64,       /* it has waited for a stream */
    GP_CALL_AHEAD = 128,     /* as in its event */
};

struct gp_call {
    uint64_t sent_ns;
    uint32_t stream_id;      /* or, while it is queued, its ticket */
    uint32_t sent, received; /* messages */
    int32_t window;          /* what may be sent on the stream, less the peer's INITIAL_WINDOW_SIZE */
    uint32_t consumed;       /* bytes received and not yet given back by WINDOW_UPDATE */
    uint32_t offset;         /* how much of the framed message now under way has been sent */
    uint32_t owner;          /* index of the connection */
    uint8_t state, flags;
    uint8_t class; /* once it is leaving */
    struct gp_message_scan scan;
};

_Static_assert(sizeof(struct gp_call) == 64, "one cache line");

/* A message as it is sent again and again. */
struct gp_calls_message {
    uint8_t *frame;  /* a DATA frame with it, if it fits into one; more may be read behind it */
    uint8_t *framed; /* the message in it, with its prefix */
    uint32_t framed_bytes;
    uint32_t bytes; /* as it was given: without prefix, not compressed */
};

struct gp_calls {
    struct gp_call *slab;
    uint32_t capacity;
    enum gp_kind kind;
    uint32_t messages;
    bool parked;
    bool ending; /* streams without a bound are to end */
    bool gzip;
    struct gp_message_times *times; /* NULL: nobody wants them */
    struct gp_calls_message *pool;  /* one, or those that are drawn from */
    uint32_t pool_count;
    uint64_t seed;
    struct gp_event *events; /* a ring of finished calls, with room for every id */
    uint32_t first, finished;
    struct gp_wire_cause causes[GP_CALLS_CAUSES]; /* of the connection at work, until they are taken */
    uint32_t cause_count;
};

static inline uint32_t gp_calls_wrap(const struct gp_calls *calls, uint32_t place) /* in the ring of events */
{
    return place < calls->capacity ? place : place - calls->capacity;
}

/* The call is over: its record is free again, its event waits to be taken. */
static inline void gp_calls_finish(struct gp_calls *calls, uint32_t id, enum gp_class class, bool refused,
                                   uint64_t now_ns)
{
    struct gp_call *call = &calls->slab[id];

    assert(call->state != GP_CALL_FREE && calls->finished < calls->capacity);
    calls->events[gp_calls_wrap(calls, calls->first + calls->finished++)] = (struct gp_event){
        .id = id,
        .sent_ns = call->sent_ns,
        .done_ns = now_ns,
        .messages_received = call->received,
        .class = class,
        .held = call->flags & GP_CALL_HELD,
        .ahead = call->flags & GP_CALL_AHEAD,
        .refused = refused,
    };
    if (call->scan.gzip)
        gp_message_scan_fini(&call->scan);
    call->state = GP_CALL_FREE;
}

static inline const struct gp_event *gp_calls_newest(const struct gp_calls *calls) /* when one has finished */
{
    return &calls->events[gp_calls_wrap(calls, calls->first + calls->finished - 1)];
}

const struct gp_calls_message *gp_calls_draw(const struct gp_calls *calls, const struct gp_call *call);

/* The message that the call is at, or sends next. */
static inline const struct gp_calls_message *gp_calls_message(const struct gp_calls *calls,
                                                              const struct gp_call *call)
{
    return calls->pool_count == 1 ? calls->pool : gp_calls_draw(calls, call);
}

/* Kinds whose status OK demands exactly one response, and nothing else. */
static inline bool gp_calls_want_one(const struct gp_calls *calls)
{
    return calls->kind == GP_KIND_UNARY || calls->kind == GP_KIND_CLIENT_STREAM;
}

/* Kinds that send one message and close: their length is not a matter of `messages`. */
static inline bool gp_calls_send_one(const struct gp_calls *calls)
{
    return calls->kind == GP_KIND_UNARY || calls->kind == GP_KIND_SERVER_STREAM;
}

/* Whether there is one more message to begin. */
static inline bool gp_call_has_more(const struct gp_calls *calls, const struct gp_call *call)
{
    if (gp_calls_send_one(calls))
        return call->sent == 0;
    if (calls->messages > 0 || calls->parked)
        return call->sent < calls->messages;
    return !calls->ending || call->sent == 0;
}

/* Whether the message to be sent next, or under way, takes END_STREAM with it. */
static inline bool gp_call_is_last(const struct gp_calls *calls, const struct gp_call *call)
{
    if (gp_calls_send_one(calls))
        return true;
    if (calls->kind == GP_KIND_BIDI_FREE || calls->parked)
        return false;
    return calls->messages > 0 ? call->sent + 1 == calls->messages : calls->ending;
}

static inline bool gp_calls_is_said(const struct gp_calls *calls, const struct gp_call *call)
{
    return gp_call_is_said(calls->kind, calls->parked, calls->messages, calls->ending, call->sent);
}

/* Every message sent has its answer: when ping-pong may go on. By difference, for the counts of a stream
 * without a bound wrap. */
static inline bool gp_call_is_even(const struct gp_call *call)
{
    return (int32_t)(call->received - call->sent) >= 0;
}

/* Whether there is anything to send now: the rest of a message, or another one. */
static inline bool gp_call_may_send(const struct gp_calls *calls, const struct gp_call *call)
{
    if (call->flags & (GP_CALL_HALF_CLOSED | GP_CALL_LEAVING))
        return false;
    if (call->offset > 0)
        return true;
    return gp_call_has_more(calls, call) && (calls->kind != GP_KIND_BIDI || gp_call_is_even(call));
}

/* Whether all is sent and END_STREAM is still owed, since the last message could not know that it was. */
bool gp_call_should_close(const struct gp_calls *calls, const struct gp_call *call);

/* Whether a stream whose end the client decides has come to it. */
bool gp_call_has_all(const struct gp_calls *calls, const struct gp_call *call);

/* `count` more messages have come: how many of them the call takes until they decide its end. What comes
 * behind that is not looked at, however the bytes are cut. */
uint32_t gp_call_takes(const struct gp_calls *calls, const struct gp_call *call, uint32_t count);

/* The class of a call whose status is OK: "When a call is OK" in base/call.h. */
enum gp_class gp_call_judge(const struct gp_calls *calls, const struct gp_call *call);

#endif
