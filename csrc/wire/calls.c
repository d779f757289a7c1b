/* calls: the table of records, the ring of finished calls, and the rules of the kinds, the same as those of
 * client/core_call.c. */
#include "wire/calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int add_message(struct gp_calls *calls, const struct gp_payload *payload, bool gzip,
                       struct gp_error *err)
{
    struct gp_calls_message *message = &calls->pool[calls->pool_count];
    uint8_t *framed;
    size_t size;

    if (payload->size > UINT32_MAX - GP_MESSAGE_PREFIX_BYTES)
        return gp_error_set(err, GP_ERROR_INVALID, "a message of %zu bytes is more than gRPC can carry",
                            payload->size);
    framed = gp_message_frame(payload->bytes, payload->size, gzip, &size);
    if (framed && size <= UINT32_MAX)
        message->frame = calloc(1, GP_FRAME_HEADER_BYTES + size + GP_CALLS_SLACK);
    if (message->frame) {
        message->framed = message->frame + GP_FRAME_HEADER_BYTES;
        message->framed_bytes = (uint32_t)size;
        message->bytes = (uint32_t)payload->size;
        gp_frame_write(message->frame, (struct gp_frame){.type = GP_FRAME_DATA, .length = (uint32_t)size});
        memcpy(message->framed, framed, size);
        calls->pool_count++;
    }
    free(framed);
    return message->frame ? 0 : gp_error_set(err, GP_ERROR_ENGINE, "out of memory for request messages");
}

static int build_pool(struct gp_calls *calls, const struct gp_calls_opts *opts, struct gp_error *err)
{
    const struct gp_request *request = opts->request;
    const struct gp_payload one = {request->message, request->message_bytes};
    const struct gp_payload *given = request->pool_count > 0 ? request->pool : &one;
    uint32_t count = request->pool_count > 0 ? request->pool_count : 1;

    calls->pool = calloc(count, sizeof *calls->pool);
    if (!calls->pool)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for request messages");
    for (uint32_t i = 0; i < count; i++)
        if (add_message(calls, &given[i], opts->gzip, err) < 0)
            return -1;
    return 0;
}

static int build(struct gp_calls *calls, const struct gp_calls_opts *opts, struct gp_error *err)
{
    if (opts->max_in_flight == 0 || opts->max_in_flight >= GP_CALLS_NONE / 2)
        return gp_error_set(err, GP_ERROR_INVALID, "%u calls in flight are not possible",
                            opts->max_in_flight);
    calls->slab = aligned_alloc(sizeof *calls->slab, opts->max_in_flight * sizeof *calls->slab);
    calls->events = malloc(opts->max_in_flight * sizeof *calls->events);
    if (!calls->slab || !calls->events)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for %u calls in flight",
                            opts->max_in_flight);
    memset(calls->slab, 0, opts->max_in_flight * sizeof *calls->slab);
    return build_pool(calls, opts, err);
}

int gp_calls_create(struct gp_calls **created, const struct gp_calls_opts *opts, struct gp_error *err)
{
    struct gp_calls *calls = calloc(1, sizeof *calls);

    *created = NULL;
    if (!calls)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    if (build(calls, opts, err) < 0) {
        gp_calls_destroy(calls);
        return -1;
    }
    calls->capacity = opts->max_in_flight;
    calls->kind = opts->request->kind;
    calls->messages = opts->request->messages;
    calls->seed = opts->request->seed;
    calls->parked = opts->request->parked && calls->kind != GP_KIND_UNARY;
    calls->gzip = opts->gzip;
    calls->times = opts->times;
    *created = calls;
    return 0;
}

void gp_calls_destroy(struct gp_calls *calls)
{
    if (!calls)
        return;
    free(calls->slab);
    free(calls->events);
    for (uint32_t i = 0; i < calls->pool_count; i++)
        free(calls->pool[i].frame);
    free(calls->pool);
    free(calls);
}

uint32_t gp_calls_owner(const struct gp_calls *calls, uint64_t id)
{
    assert(id < calls->capacity);
    return calls->slab[id].state == GP_CALL_FREE ? GP_CALLS_NONE : calls->slab[id].owner;
}

uint32_t gp_calls_received(const struct gp_calls *calls, uint64_t id)
{
    assert(id < calls->capacity);
    return calls->slab[id].state == GP_CALL_FREE ? 0 : calls->slab[id].received;
}

/* Streams of a client have odd ids: its n-th call on the connection has 2 n + 1. */
const struct gp_calls_message *gp_calls_draw(const struct gp_calls *calls, const struct gp_call *call)
{
    return &calls->pool[gp_call_draw(calls->seed, call->owner, call->stream_id >> 1, call->sent,
                                     calls->pool_count)];
}

/* --- finished calls ---------------------------------------------------------------------------- */

size_t gp_calls_take(struct gp_calls *calls, struct gp_event *events, size_t capacity)
{
    uint32_t count = calls->finished < capacity ? calls->finished : (uint32_t)capacity;
    uint32_t straight = calls->capacity - calls->first;

    if (straight > count)
        straight = count;
    memcpy(events, calls->events + calls->first, straight * sizeof *events);
    memcpy(events + straight, calls->events, (count - straight) * sizeof *events);
    calls->finished -= count;
    if (calls->finished == 0)
        calls->first = 0; /* what is written next is still in the cache */
    else
        calls->first = count - straight > 0 ? count - straight : calls->first + count;
    if (calls->first == calls->capacity)
        calls->first = 0;
    return count;
}

/* --- what the kinds demand --------------------------------------------------------------------- */

bool gp_call_should_close(const struct gp_calls *calls, const struct gp_call *call)
{
    if (call->flags & (GP_CALL_HALF_CLOSED | GP_CALL_LEAVING) || calls->parked || call->offset > 0 ||
        gp_call_has_more(calls, call))
        return false;
    return calls->kind == GP_KIND_CLIENT_STREAM || (calls->kind == GP_KIND_BIDI && gp_call_is_even(call));
}

bool gp_call_has_all(const struct gp_calls *calls, const struct gp_call *call)
{
    if (calls->parked || (calls->kind != GP_KIND_SERVER_STREAM && calls->kind != GP_KIND_BIDI_FREE))
        return false;
    if (calls->kind == GP_KIND_BIDI_FREE && (call->offset > 0 || gp_call_has_more(calls, call)))
        return false;
    return calls->messages > 0 ? call->received >= calls->messages : calls->ending && call->received > 0;
}

uint32_t gp_call_takes(const struct gp_calls *calls, const struct gp_call *call, uint32_t count)
{
    uint32_t most = UINT32_MAX;
    struct gp_call after = *call;

    after.received += count;
    if (gp_calls_want_one(calls))
        most = 2 - call->received; /* the second decides that it is one too many */
    else if (gp_call_has_all(calls, &after))
        most = calls->messages > call->received ? calls->messages - call->received : 1;
    return count < most ? count : most;
}

enum gp_class gp_call_judge(const struct gp_calls *calls, const struct gp_call *call)
{
    return gp_call_judge_ok(calls->kind, calls->parked, calls->messages, call->sent, call->received);
}
