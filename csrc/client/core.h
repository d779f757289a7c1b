/* What the parts of the core transport share: core_client.c (channels, completion queue, waiting),
 * core_opts.c and core_tls.c (what was asked for) and core_call.c (the batches of one call). The only header
 * here that includes gRPC. */
#ifndef GP_CLIENT_CORE_H
#define GP_CLIENT_CORE_H

#include <sys/types.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "client/pool.h"
#include "client/transport.h"
#include "client/usage.h"

/* What came back from the completion queue. A tag is a pointer to a call or a channel with its step in the
 * low bits; CORE_TAG_ALIGN makes room for them. */
enum core_step {
    CORE_STEP_WHOLE,    /* the batch that ends with the call's status */
    CORE_STEP_SEND,     /* one message was taken */
    CORE_STEP_RECEIVE,  /* one message came, or the end of them */
    CORE_STEP_EXCHANGE, /* both, in turn */
    CORE_STEP_CLOSE,    /* the client's side was closed */
    CORE_STEP_CHANNEL,  /* a channel's state has changed */
};
#define CORE_TAG_ALIGN 64u

/* One call's storage, used again by the next call with the same id: gRPC grows the arrays once and then they
 * stay. */
struct core_call {
    grpc_call *call; /* NULL while the id is not in flight */
    uint64_t sent_ns;
    uint32_t connection, number; /* the number-th call (from 0) of that channel */
    uint32_t sent, received;     /* messages */
    uint32_t burst;              /* of them, sent in a row */
    uint32_t rests_at;           /* its place among the resting, from 1; 0: it does not rest */
    uint8_t batches;             /* outstanding */
    bool sending;                /* a SEND is among them */
    bool half_closed;
    bool over;  /* the status is here: nothing new is begun */
    bool ended; /* the client has ended it, as OK */
    bool ahead; /* as in its event */
    grpc_status_code status;
    grpc_slice details; /* of the status; kept until the next call */
    grpc_byte_buffer *incoming;
    grpc_byte_buffer *outgoing; /* emptied by each send, filled again before the next */
    grpc_metadata_array initial, trailing;
} __attribute__((aligned(CORE_TAG_ALIGN)));

struct core_channel {
    grpc_channel *channel;
    void *method; /* the method, registered with this channel */
    grpc_connectivity_state state;
    uint32_t calls; /* so many were begun on it */
    uint32_t in_flight;
    bool lost; /* it was ready, and then was not */
} __attribute__((aligned(CORE_TAG_ALIGN)));

struct core_client {
    struct gp_client base;
    pid_t pid; /* the process that made it: a forked child must leave it alone */
    grpc_completion_queue *queue;
    grpc_channel_credentials *credentials;
    grpc_ssl_session_cache *sessions; /* to be resumed; NULL: each handshake is a full one */
    grpc_channel_args args;
    char *target, *method;

    struct core_channel *channels;
    uint32_t opened, ready, failing; /* of them */
    uint32_t channel_count;
    uint32_t connected, reconnects;
    struct gp_pool pool;

    struct core_call *calls;
    uint32_t call_count, in_flight;
    struct core_call **resting; /* streams that pause in their sending, see core_call_wake */
    uint32_t resting_count, steps_at_rest;
    enum gp_kind kind;
    uint64_t deadline_ns;
    uint32_t messages;
    bool parked;
    bool ending;          /* gp_client_end was called */
    bool closing;         /* it is being destroyed */
    grpc_slice *payloads; /* messages, one at least */
    uint32_t payload_count;
    uint64_t seed;
    grpc_metadata *metadata;
    size_t metadata_count;
    uint64_t messages_sent, payload_sent, messages_received;
    struct gp_message_times *times; /* NULL: not wanted */
    struct gp_usage usage;
};

static inline void *core_tag(const void *object, enum core_step step)
{
    return (void *)((uintptr_t)object | step);
}

static inline enum core_step core_tag_step(const void *tag)
{
    return (enum core_step)((uintptr_t)tag % CORE_TAG_ALIGN);
}

static inline void *core_tag_object(const void *tag)
{
    return (void *)((uintptr_t)tag - (uintptr_t)tag % CORE_TAG_ALIGN);
}

/* A time on gp_clock_now_ns's line, which is gRPC's monotonic one too; UINT64_MAX: never. */
gpr_timespec core_time(uint64_t ns);

/* Copy what is needed of opts into the client; -1 when it makes no sense. Free also what was half copied. */
int core_opts_copy(struct core_client *client, const struct gp_client_opts *opts, struct gp_error *err);
void core_opts_free(struct core_client *client);

/* NULL tls: plaintext. NULL: something in it that gRPC cannot do. */
grpc_channel_credentials *core_credentials(const struct gp_tls_opts *tls, struct gp_error *err);
grpc_ssl_session_cache *core_sessions(const struct gp_tls_opts *tls); /* NULL: not wanted */

/* Begin a batch; each comes back as a step of its name. `last` takes the half-close along. */
void core_begin_whole(struct core_client *client, struct core_call *call);
void core_begin_bare(struct core_client *client, struct core_call *call);
void core_begin_send(struct core_client *client, struct core_call *call, bool last);
void core_begin_receive(struct core_call *call);
void core_begin_exchange(struct core_client *client, struct core_call *call, bool last);
void core_begin_close(struct core_call *call);

void core_call_init(struct core_call *call);
void core_call_fini(struct core_call *call);
void core_call_start(struct core_client *client, struct core_call *call, struct core_channel *channel);

/* A call that sends headers alone and is there for what its status tells. */
void core_call_ask(struct core_client *client, struct core_call *call, struct core_channel *channel,
                   uint64_t until_ns);

/* Cancel it. One that has said all it was to is OK then. */
void core_call_cancel(struct core_client *client, struct core_call *call);

/* The queue was found empty: streams that paused for that go on sending. */
void core_call_wake(struct core_client *client);

/* One of its batches is back. True when it was the last: the call is over, `event` (but for the id) is filled
 * and the storage is free for another. */
bool core_call_step(struct core_client *client, struct core_call *call, enum core_step step, bool success,
                    uint64_t now_ns, struct gp_event *event);

#endif
