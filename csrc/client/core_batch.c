/* core_batch: the batches of operations that calls are made of, each put together on the stack and begun.
 * Which follows which is core_call.c's matter. */
#include "client/core.h"

#include <assert.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice_buffer.h>

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

static grpc_slice next_message(const struct core_client *client, const struct core_call *call)
{
    if (client->payload_count == 1)
        return client->payloads[0];
    return client->payloads[gp_call_draw(client->seed, call->connection, call->number, call->sent,
                                         client->payload_count)];
}

/* gRPC takes the slices out of the byte buffer and leaves the buffer itself: putting the slice in again is
 * what a copy of the buffer would do, without the allocation. */
static void add_message(struct batch *batch, struct core_client *client, struct core_call *call)
{
    grpc_slice_buffer *slices = &call->outgoing->data.raw.slice_buffer;
    grpc_slice message = next_message(client, call);

    grpc_slice_buffer_reset_and_unref(slices);
    grpc_slice_buffer_add(slices, grpc_slice_ref(message));
    add(batch, GRPC_OP_SEND_MESSAGE)->data.send_message.send_message = call->outgoing;
    call->sent++;
    client->messages_sent++;
    client->payload_sent += GRPC_SLICE_LENGTH(message);
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

void core_begin_send(struct core_client *client, struct core_call *call, bool last)
{
    struct batch batch = {.count = 0};

    add_message(&batch, client, call);
    if (last)
        add_half_close(&batch, call);
    call->sending = true;
    begin(call, &batch, CORE_STEP_SEND);
}

void core_begin_receive(struct core_call *call)
{
    struct batch batch = {.count = 0};

    add_response(&batch, call);
    begin(call, &batch, CORE_STEP_RECEIVE);
}

void core_begin_exchange(struct core_client *client, struct core_call *call, bool last)
{
    struct batch batch = {.count = 0};

    add_message(&batch, client, call);
    if (last)
        add_half_close(&batch, call);
    add_response(&batch, call);
    begin(call, &batch, CORE_STEP_EXCHANGE);
}

void core_begin_close(struct core_call *call)
{
    struct batch batch = {.count = 0};

    add_half_close(&batch, call);
    begin(call, &batch, CORE_STEP_CLOSE);
}

void core_begin_whole(struct core_client *client, struct core_call *call)
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

/* Headers alone: a call that is there for what its status tells. */
void core_begin_bare(struct core_client *client, struct core_call *call)
{
    struct batch batch = {.count = 0};

    add_headers(&batch, client);
    add_status(&batch, call);
    begin(call, &batch, CORE_STEP_WHOLE);
}
