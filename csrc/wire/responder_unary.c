/* responder: the shortest way from a request to its answer. A unary call whose header block is known and
 * whose HEADERS and DATA stand together needs no record: when the request is the one seen last, its answer is
 * some dozens of bytes that are copied, with the stream's id written over in three places. */
#include "wire/responder_parts.h"

#include <string.h>

/* A call as it stands in the input. */
struct unary {
    uint32_t id;
    const uint8_t *request, *end;
};

/* Two whole frames: HEADERS of a new stream with a block that is known, then DATA that ends it. */
static bool stands_together(const struct gp_responder *responder, const uint8_t *at, const uint8_t *end,
                            struct unary *unary)
{
    if ((size_t)(end - at) < 2 * GP_FRAME_HEADER_BYTES)
        return false;
    struct gp_frame headers = gp_frame_read(at);
    at += GP_FRAME_HEADER_BYTES;
    if (headers.type != GP_FRAME_HEADERS || headers.flags != GP_FLAG_END_HEADERS ||
        headers.stream_id % 2 == 0 || headers.stream_id <= responder->last_id ||
        headers.length + GP_FRAME_HEADER_BYTES > (size_t)(end - at))
        return false;
    const struct gp_route *route = gp_routes_find(responder->routes, at, headers.length);
    if (!route || !route->known || route->kind != GP_KIND_UNARY)
        return false;
    at += headers.length;
    struct gp_frame data = gp_frame_read(at);
    at += GP_FRAME_HEADER_BYTES;
    if (data.type != GP_FRAME_DATA || data.flags != GP_FLAG_END_STREAM ||
        data.stream_id != headers.stream_id || data.length > (size_t)(end - at))
        return false;
    *unary = (struct unary){.id = headers.stream_id, .request = at, .end = at + data.length};
    return true;
}

/* Frames for response_size, with ids to be written over. The blocks are at rest, so nothing is changed by
 * writing them here. */
static void prepare_bytes(struct gp_responder *responder, int32_t response_size)
{
    struct gp_responder_answer *answer = &responder->answer;
    uint8_t *at = answer->bytes;

    at += gp_reply_headers(&responder->reply, at, 0);
    answer->data_at = (uint32_t)(at - answer->bytes);
    size_t head_size = gp_benchmark_head(response_size, at + GP_FRAME_HEADER_BYTES);
    answer->data_bytes = (uint32_t)(head_size + (size_t)response_size);
    gp_frame_write(at, (struct gp_frame){.length = answer->data_bytes, .type = GP_FRAME_DATA});
    memset(at + GP_FRAME_HEADER_BYTES + head_size, 0, (size_t)response_size);
    at += GP_FRAME_HEADER_BYTES + answer->data_bytes;
    answer->trailers_at = (uint32_t)(at - answer->bytes);
    at += gp_reply_ok(&responder->reply, at, 0);
    answer->size = (uint32_t)(at - answer->bytes);
    answer->response_size = response_size;
    answer->ready = true;
}

/* Learn a request and make its answer. False: it is none of the usual. */
static bool prepare(struct gp_responder *responder, const struct unary *unary)
{
    struct gp_responder_answer *answer = &responder->answer;
    size_t size = (size_t)(unary->end - unary->request);
    const uint8_t *at = unary->request;
    struct gp_ask ask = {0};

    if (size > sizeof answer->request || !gp_reply_at_rest(&responder->reply) ||
        gp_ask_read(&ask, &at, unary->end) != GP_ASKED_MESSAGE || at != unary->end || ask.response_size < 0 ||
        ask.response_size > (int32_t)GP_RESPONDER_SMALL_BYTES)
        return false;
    memcpy(answer->request, unary->request, size);
    answer->request_size = size;
    if (!answer->ready || answer->response_size != ask.response_size)
        prepare_bytes(responder, ask.response_size);
    return true;
}

static bool is_prepared(const struct gp_responder_answer *answer, const struct unary *unary)
{
    return answer->ready && (size_t)(unary->end - unary->request) == answer->request_size &&
           memcmp(unary->request, answer->request, answer->request_size) == 0;
}

static void count(struct gp_responder_counts *counts)
{
    counts->started++;
    counts->finished++;
    if (counts->running + 1 > counts->peak_running)
        counts->peak_running = counts->running + 1;
}

const uint8_t *gp_responder_at_once(struct gp_responder *responder, const uint8_t *at, const uint8_t *end)
{
    struct gp_responder_answer *answer = &responder->answer;
    struct unary unary;

    if (responder->first != GP_STREAM_NONE || responder->block_id != 0 ||
        !stands_together(responder, at, end, &unary) ||
        (!is_prepared(answer, &unary) && !prepare(responder, &unary)) ||
        responder->send_window < (int32_t)answer->data_bytes ||
        responder->peer.initial_window_size < answer->data_bytes)
        return NULL;
    uint8_t *room = gp_responder_room(responder, answer->size);
    if (!room)
        return end;
    memcpy(room, answer->bytes, answer->size);
    gp_put_u32(room + 5, unary.id);
    gp_put_u32(room + answer->data_at + 5, unary.id);
    gp_put_u32(room + answer->trailers_at + 5, unary.id);
    gp_responder_add(responder, answer->size);
    responder->send_window -= (int32_t)answer->data_bytes;
    responder->last_id = unary.id;
    gp_responder_data_begin(responder, unary.id, (uint32_t)(unary.end - unary.request));
    count(responder->counts);
    return unary.end;
}
