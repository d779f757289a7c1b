/* responder: the frames that concern the connection are obeyed here, and header blocks gathered (RFC 9113,
 * sections 4.3 and 6). */
#include "wire/responder_parts.h"

#include <string.h>

static void put_ack(struct gp_responder *responder, enum gp_frame_type type, const uint8_t *payload,
                    uint32_t size)
{
    uint8_t *room = gp_responder_room(responder, GP_FRAME_HEADER_BYTES + size);

    if (!room)
        return;
    gp_frame_write(room, (struct gp_frame){.length = size, .type = type, .flags = GP_FLAG_ACK});
    if (size > 0)
        memcpy(room + GP_FRAME_HEADER_BYTES, payload, size);
    gp_responder_add(responder, GP_FRAME_HEADER_BYTES + size);
}

/* A changed INITIAL_WINDOW_SIZE concerns all streams (RFC 9113, 6.9.2). */
static void open_windows(struct gp_responder *responder)
{
    for (uint32_t i = 0; i < responder->streams.used; i++) {
        struct gp_stream *stream = &responder->streams.records[i];
        if (stream->id == 0 || stream->gone)
            continue;
        int64_t window = gp_responder_window(responder, stream);
        if (window > GP_FRAME_MAX_WINDOW) {
            gp_responder_fail(responder, GP_H2_FLOW_CONTROL_ERROR, "SETTINGS make a window too large");
            return;
        }
        if (stream->blocked && window > 0)
            gp_responder_queue(responder, stream);
    }
}

static void take_settings(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload)
{
    uint32_t window = responder->peer.initial_window_size;

    if (frame.flags & GP_FLAG_ACK) {
        if (frame.length != 0)
            gp_responder_fail(responder, GP_H2_FRAME_SIZE_ERROR, "SETTINGS ACK with a payload");
        return;
    }
    enum gp_h2_error error = gp_settings_apply(&responder->peer, payload, frame.length);
    if (error != GP_H2_NO_ERROR) {
        gp_responder_fail(responder, error, "SETTINGS that cannot be");
        return;
    }
    gp_reply_table_size(&responder->reply, responder->peer.header_table_size);
    responder->answer.ready = false;
    put_ack(responder, GP_FRAME_SETTINGS, NULL, 0);
    if (responder->peer.initial_window_size != window)
        open_windows(responder);
}

static void widen(struct gp_responder *responder, struct gp_frame frame, uint32_t more)
{
    struct gp_stream *stream = gp_streams_find(&responder->streams, frame.stream_id);

    if (!stream && gp_responder_idle(responder, frame.stream_id)) {
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "WINDOW_UPDATE on an idle stream");
    } else if (stream && (more == 0 || gp_responder_window(responder, stream) + more > GP_FRAME_MAX_WINDOW)) {
        gp_responder_put_u32(responder, GP_FRAME_RST_STREAM, frame.stream_id,
                             more ? GP_H2_FLOW_CONTROL_ERROR : GP_H2_PROTOCOL_ERROR);
        gp_responder_close(responder, stream);
    } else if (stream) {
        stream->credit += (int32_t)more;
        if (stream->blocked && gp_responder_window(responder, stream) > 0)
            gp_responder_queue(responder, stream);
    }
}

static void take_window_update(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload)
{
    uint32_t more = gp_get_u32(payload) & GP_FRAME_MAX_ID;

    if (frame.stream_id != 0)
        widen(responder, frame, more);
    else if (more == 0)
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "WINDOW_UPDATE of nothing");
    else if (more > (uint32_t)(GP_FRAME_MAX_WINDOW - (int64_t)responder->send_window))
        gp_responder_fail(responder, GP_H2_FLOW_CONTROL_ERROR, "WINDOW_UPDATE beyond the largest window");
    else
        responder->send_window += (int32_t)more;
}

static void take_reset(struct gp_responder *responder, struct gp_frame frame)
{
    if (gp_responder_idle(responder, frame.stream_id))
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "RST_STREAM on an idle stream");
    else
        gp_responder_reset(responder, frame.stream_id);
}

/* --- header blocks */

static void keep_block(struct gp_responder *responder, const uint8_t *block, size_t size)
{
    if (gp_bytes_length(&responder->block) + size > GP_RESPONDER_BLOCK_BYTES)
        gp_responder_fail(responder, GP_H2_ENHANCE_YOUR_CALM, "a header block without end");
    else if (gp_bytes_append(&responder->block, block, size) != 0)
        gp_responder_fail(responder, GP_H2_INTERNAL_ERROR, "out of memory");
}

static void take_headers(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload)
{
    const uint8_t *block;
    size_t size;
    enum gp_h2_error error = gp_frame_body(frame, payload, &block, &size);
    bool ends = frame.flags & GP_FLAG_END_STREAM;

    if (error != GP_H2_NO_ERROR || frame.stream_id % 2 == 0) {
        gp_responder_fail(responder, error ? error : GP_H2_PROTOCOL_ERROR, "HEADERS that cannot be");
    } else if (frame.flags & GP_FLAG_END_HEADERS) {
        gp_responder_headers(responder, frame.stream_id, ends, block, size);
    } else {
        responder->block_id = frame.stream_id;
        responder->block_ends = ends;
        keep_block(responder, block, size);
    }
}

static void take_continuation(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload)
{
    keep_block(responder, payload, frame.length);
    if (!(frame.flags & GP_FLAG_END_HEADERS) || responder->phase == GP_RESPONDER_OVER)
        return;
    responder->block_id = 0;
    gp_responder_headers(responder, frame.stream_id, responder->block_ends,
                         gp_bytes_length(&responder->block) ? gp_bytes_front(&responder->block) : payload,
                         gp_bytes_length(&responder->block));
    gp_bytes_clear(&responder->block);
}

/* --- any frame but DATA */

void gp_responder_frame(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload)
{
    switch (frame.type) {
    case GP_FRAME_HEADERS:
        take_headers(responder, frame, payload);
        break;
    case GP_FRAME_CONTINUATION:
        take_continuation(responder, frame, payload);
        break;
    case GP_FRAME_RST_STREAM:
        take_reset(responder, frame);
        break;
    case GP_FRAME_SETTINGS:
        take_settings(responder, frame, payload);
        break;
    case GP_FRAME_PING:
        if (!(frame.flags & GP_FLAG_ACK))
            put_ack(responder, GP_FRAME_PING, payload, frame.length);
        break;
    case GP_FRAME_WINDOW_UPDATE:
        take_window_update(responder, frame, payload);
        break;
    default:
        break; /* PRIORITY, GOAWAY and what is not known ask for nothing */
    }
}
