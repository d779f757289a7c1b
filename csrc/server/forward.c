/* The next server: its channel, and one call to it for each call that is handled here. */
#include "server/forward.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include "base/error.h"
#include "server/call.h"
#include "server/credentials.h"
#include "server/forward_rules.h"
#include "server/options.h"
#include "server/queue.h"
#include "server/server.h"
#include "server/service.h"

#define CONNECT_S 5
#define MAX_MESSAGE 300 /* a reason grows by a name at every server that it comes by */

/* One call to the next server, as long as the call that it serves. */
struct gp_forwarded {
    grpc_call *core;
    grpc_byte_buffer *response;
    grpc_metadata *sent;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    char *message; /* why it failed */
};

/* --- the channel --- */

static grpc_channel *create_channel(const struct gp_options *options, struct gp_error *err)
{
    grpc_arg args[12];
    size_t count = 0;
    static const struct {
        const char *key;
        int number;
    } wanted[] = {
        {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
        {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
        {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
        {GRPC_ARG_ENABLE_RETRIES, 0},
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1}, /* the limits are those of the ends of the chain */
        {GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX},
        {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100}, /* a next server that is back is soon found again */
        {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000},
        {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000},
    };
    for (; count < sizeof(wanted) / sizeof(*wanted); count++)
        args[count] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                                 .key = (char *)wanted[count].key,
                                 .value.integer = wanted[count].number};
    if (options->forward_authority)
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                   .key = (char *)GRPC_ARG_DEFAULT_AUTHORITY,
                                   .value.string = (char *)options->forward_authority};
    if (options->forward_tls_name)
        args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                   .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                   .value.string = (char *)options->forward_tls_name};
    grpc_channel_credentials *credentials = gp_credentials_of_client(options, err);
    if (!credentials)
        return NULL;
    grpc_channel_args all = {.num_args = count, .args = args};
    grpc_channel *channel = grpc_channel_create(options->forward, credentials, &all);
    grpc_channel_credentials_release(credentials);
    return channel;
}

/* Before anything is served, on a queue that is nobody else's. */
static grpc_connectivity_state connect_within(grpc_channel *channel, int seconds)
{
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    gpr_timespec until =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(seconds, GPR_TIMESPAN));
    grpc_connectivity_state state = grpc_channel_check_connectivity_state(channel, 1);
    bool in_time = true;
    while (in_time && (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING)) {
        grpc_channel_watch_connectivity_state(channel, state, until, queue, NULL);
        in_time = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).success;
        state = grpc_channel_check_connectivity_state(channel, 1);
    }
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_completion_queue_destroy(queue);
    return state;
}

int gp_forward_start(struct gp_forward *forward, const struct gp_options *options, struct gp_error *err)
{
    if (!options->forward)
        return 0;
    forward->channel = create_channel(options, err);
    if (!forward->channel)
        return -1;
    if (connect_within(forward->channel, CONNECT_S) != GRPC_CHANNEL_READY)
        return gp_error_set(err, GP_ERROR_CONNECT, "no connection to the next server, %s%s", options->forward,
                            options->forward_tls ? ", with TLS" : "");
    forward->method =
        grpc_channel_register_call(forward->channel, gp_methods[GP_METHOD_UNARY].path, NULL, NULL);
    return 0;
}

/* --- a call --- */

/* What of the metadata goes on; gRPC keeps what is sent as long as it needs it. */
static size_t pass_on(const grpc_metadata_array *came, grpc_metadata *sent)
{
    size_t count = 0;
    for (size_t i = 0; i < came->count; i++) {
        const grpc_metadata *entry = &came->metadata[i];
        const char *key = (const char *)GRPC_SLICE_START_PTR(entry->key);
        if (gp_forward_passes(key, GRPC_SLICE_LENGTH(entry->key)))
            sent[count++] = (grpc_metadata){.key = entry->key, .value = entry->value};
    }
    return count;
}

static struct gp_forwarded *prepare(struct gp_call *call)
{
    const struct gp_forward *forward = &call->queue->server->forward;
    struct gp_forwarded *next = calloc(1, sizeof(*next));
    if (!next)
        return NULL;
    call->forwarded = next;
    next->sent = calloc(call->metadata.count + 1, sizeof(*next->sent));
    grpc_metadata_array_init(&next->initial);
    grpc_metadata_array_init(&next->trailing);
    next->details = grpc_empty_slice();
    if (!next->sent)
        return NULL;
    next->core = grpc_channel_create_registered_call(
        forward->channel, call->core, GRPC_PROPAGATE_DEFAULTS, call->queue->core, forward->method,
        gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL); /* the deadline comes from the parent */
    return next;
}

void gp_forward_call(struct gp_call *call)
{
    struct gp_forwarded *next = prepare(call);
    if (!next) {
        gp_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for a call to the next server");
        return;
    }
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},  {.op = GRPC_OP_SEND_MESSAGE},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_RECV_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_MESSAGE},           {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
    };
    ops[0].data.send_initial_metadata.metadata = next->sent;
    ops[0].data.send_initial_metadata.count = pass_on(&call->metadata, next->sent);
    ops[1].data.send_message.send_message = call->message;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &next->initial;
    ops[4].data.recv_message.recv_message = &next->response;
    ops[5].data.recv_status_on_client.trailing_metadata = &next->trailing;
    ops[5].data.recv_status_on_client.status = &next->status;
    ops[5].data.recv_status_on_client.status_details = &next->details;
    call->pending++;
    grpc_call_error error = grpc_call_start_batch(next->core, ops, sizeof(ops) / sizeof(*ops),
                                                  gp_call_tag(call, GP_EVENT_FORWARDED), NULL);
    if (error == GRPC_CALL_OK)
        return;
    call->pending--; /* metadata came that may not be sent; nothing will complete */
    gp_call_finish(call, GRPC_STATUS_INTERNAL, "gRPC does not take the call to the next server");
}

static const char *reason(struct gp_forwarded *next, const char *address)
{
    next->message = malloc(MAX_MESSAGE);
    if (next->message)
        snprintf(next->message, MAX_MESSAGE, "the next server, %s: %.*s", address,
                 (int)GRPC_SLICE_LENGTH(next->details), (const char *)GRPC_SLICE_START_PTR(next->details));
    return next->message;
}

void gp_forward_answered(struct gp_call *call)
{
    struct gp_forwarded *next = call->forwarded;
    if (call->done || call->finishing)
        return;
    if (next->status != GRPC_STATUS_OK)
        gp_call_finish(call, next->status, reason(next, call->queue->server->options->forward));
    else if (!next->response)
        gp_call_finish(call, GRPC_STATUS_INTERNAL, "the next server said OK and no response");
    else
        gp_call_respond(call);
}

grpc_byte_buffer *gp_forward_response(struct gp_call *call)
{
    return call->forwarded->response;
}

void gp_forward_reset(struct gp_call *call)
{
    struct gp_forwarded *next = call->forwarded;
    call->forwarded = NULL;
    if (!next)
        return;
    if (next->core)
        grpc_call_unref(next->core);
    if (next->response)
        grpc_byte_buffer_destroy(next->response);
    grpc_metadata_array_destroy(&next->initial);
    grpc_metadata_array_destroy(&next->trailing);
    grpc_slice_unref(next->details);
    free(next->sent);
    free(next->message);
    free(next);
}
