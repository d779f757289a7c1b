/* receive: from bytes, cut anywhere, to frames. DATA is passed on as it comes; of other frames a part is kept
 * until the rest is there. Section numbers are those of RFC 9113. */
#include "wire/connection_state.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES 1024u /* a buffer up to this size is kept */
#define LEARN_EVERY 256u /* answers between attempts to learn their shape */
#define HTTP_1 "HTTP/1"  /* how the answer of a server begins that knows no HTTP/2 */
#define HTTP_1_BYTES (sizeof HTTP_1 - 1)

/* --- what may come ----------------------------------------------------------------------------- */

static void refuse_greeting(struct gp_wire *wire, const uint8_t *head)
{
    if (memcmp(head, HTTP_1, HTTP_1_BYTES) == 0)
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "the peer speaks HTTP/1, not HTTP/2");
    else
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "the peer does not begin with SETTINGS: is it HTTP/2?");
}

/* Frames that have to be kept until they are whole are bounded; the others are passed on or skipped. */
static bool is_kept(const struct gp_frame *frame)
{
    return frame->type != GP_FRAME_DATA && frame->type <= GP_FRAME_CONTINUATION;
}

/* What can be told from a frame's head alone. False when the connection is over. */
static bool check_head(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *head)
{
    const struct wire_open_block *open = &wire->open_block;

    if (!wire->greeted && (frame->type != GP_FRAME_SETTINGS || frame->flags & GP_FLAG_ACK)) /* 3.4 */
        refuse_greeting(wire, head);
    else if (frame->length > WIRE_MAX_FRAME) /* 4.2 */
        wire_fail(wire, GP_H2_FRAME_SIZE_ERROR, "a frame of %u bytes, MAX_FRAME_SIZE is %u", frame->length,
                  WIRE_MAX_FRAME);
    else if (frame->length > WIRE_MAX_BLOCK && is_kept(frame))
        wire_fail(wire, GP_H2_ENHANCE_YOUR_CALM, "a frame of type %u and %u bytes is too much", frame->type,
                  frame->length);
    else if (open->stream_id != 0 &&
             (frame->type != GP_FRAME_CONTINUATION || frame->stream_id != open->stream_id)) /* 6.10 */
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "a header block was interrupted by another frame");
    return !wire->over;
}

/* Nearly every frame is short and comes when any frame may. */
static inline bool is_plain(const struct gp_wire *wire, const struct gp_frame *frame)
{
    return frame->length <= WIRE_MAX_BLOCK && wire->greeted && wire->open_block.stream_id == 0;
}

static void on_frame(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    switch (frame->type) {
    case GP_FRAME_WINDOW_UPDATE:
        wire_on_window_update(wire, frame, payload);
        break;
    case GP_FRAME_RST_STREAM:
        wire_on_reset(wire, frame, payload);
        break;
    case GP_FRAME_SETTINGS:
        wire_on_settings(wire, frame, payload);
        break;
    case GP_FRAME_PING:
        wire_on_ping(wire, frame, payload);
        break;
    case GP_FRAME_GOAWAY:
        wire_on_goaway(wire, frame, payload);
        break;
    case GP_FRAME_CONTINUATION:
        wire_on_continuation(wire, frame, payload);
        break;
    case GP_FRAME_PRIORITY:
        wire_on_priority(wire, frame);
        break;
    case GP_FRAME_PUSH_PROMISE: /* 6.6: we have disabled it */
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "PUSH_PROMISE although push is disabled");
        break;
    }
}

/* --- payloads that are passed on --------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* 6.1: the first byte of a padded payload says how much of its end is padding. */
static void read_pad_length(struct gp_wire *wire, uint8_t length)
{
    struct wire_data *data = &wire->data;

    data->pad_length_owed = false;
    data->padding = length;
    if (length > data->left)
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "padding longer than its frame");
    else
        data->left -= length;
}

/* The next bytes of the payload that is open; it may be of an unknown type, or its call may have ended in the
 * meantime. Returns how many it took. */
static size_t feed_payload(struct gp_wire *wire, const uint8_t *bytes, size_t size)
{
    struct wire_data *data = &wire->data;
    uint32_t id = data->stream_id ? gp_roster_find(&wire->roster, data->stream_id) : GP_CALLS_NONE;
    size_t taken = 0, part;

    if (data->pad_length_owed && size > 0)
        read_pad_length(wire, bytes[taken++]);
    if (wire->over)
        return taken;
    part = smaller(size - taken, data->left);
    if (part > 0 && id != GP_CALLS_NONE)
        wire_on_data(wire, id, bytes + taken, part);
    data->left -= (uint32_t)part;
    taken += part;
    part = data->left == 0 ? smaller(size - taken, data->padding) : 0;
    data->padding -= (uint32_t)part;
    taken += part;
    data->open = data->left > 0 || data->padding > 0 || data->pad_length_owed;
    if (!data->open && data->end_stream && id != GP_CALLS_NONE && wire->slab[id].state == GP_CALL_OPEN)
        wire_on_data_end(wire, id);
    return taken;
}

/* A frame whose head has been read and whose payload is passed on. Returns how much of that it took. */
static size_t open_payload(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *bytes,
                           size_t size)
{
    uint32_t id = GP_CALLS_NONE;
    bool padded = frame->type == GP_FRAME_DATA && frame->flags & GP_FLAG_PADDED;
    bool end_stream = frame->type == GP_FRAME_DATA && frame->flags & GP_FLAG_END_STREAM;

    if (frame->type == GP_FRAME_DATA && !wire_on_data_head(wire, frame, &id))
        return 0;
    if (!padded && size >= frame->length) { /* as a rule */
        if (id == GP_CALLS_NONE)
            return frame->length;
        wire_on_data(wire, id, bytes, frame->length);
        if (end_stream && wire->slab[id].state == GP_CALL_OPEN)
            wire_on_data_end(wire, id);
        return frame->length;
    }
    wire->data = (struct wire_data){
        .open = true,
        .end_stream = end_stream,
        .pad_length_owed = padded,
        .stream_id = id == GP_CALLS_NONE ? 0 : frame->stream_id,
        .left = frame->length - padded,
    };
    return feed_payload(wire, bytes, size);
}

/* --- frames that lie in one piece, and others --------------------------------------------------- */

static size_t read_frames(struct gp_wire *wire, const uint8_t *data, size_t size);

/* Read an answer in the usual way and, if it was an ordinary one that left the decoder alone, remember it.
 * Returns how many bytes were taken; 0 when there is nothing to learn. */
static size_t learn_answer(struct gp_wire *wire, const uint8_t *bytes, size_t size)
{
    struct wire_habit *habit = &wire->habit;
    uint64_t inflated = gp_decoder_inflated(wire->decoder);
    uint32_t finished = wire->calls->finished;
    struct gp_answer answer;
    size_t taken;

    habit->wait = habit->wait < LEARN_EVERY / 2 ? 2u * habit->wait + 1 : LEARN_EVERY;
    habit->learn_in = habit->wait;
    if (!gp_calls_want_one(wire->calls) || !gp_answer_learn(&answer, bytes, size))
        return 0;
    taken = read_frames(wire, bytes, gp_answer_bytes(&answer));
    if (wire->over || gp_decoder_inflated(wire->decoder) != inflated ||
        wire->calls->finished != finished + 1 || gp_calls_newest(wire->calls)->class != GP_CLASS_OK)
        return taken;
    if (!habit->answer)
        habit->answer = malloc(sizeof *habit->answer);
    if (!habit->answer)
        return taken;
    *habit->answer = answer;
    habit->inflated = inflated;
    habit->misses = 0;
    habit->wait = 0;
    habit->good = true;
    return taken;
}

/* HEADERS that may begin an answer. Returns how much was taken with it; 0 when it is to be read by itself. */
static inline size_t read_answer(struct gp_wire *wire, const uint8_t *bytes, size_t size)
{
    struct wire_habit *habit = &wire->habit;

    if (!habit->good) {
        if (habit->learn_in == 0)
            return learn_answer(wire, bytes, size);
        habit->learn_in--;
        return 0;
    }
    uint32_t stream_id = gp_answer_recognise(habit->answer, bytes, size);
    if (stream_id != 0 && wire_on_answer(wire, stream_id, habit->answer->body_bytes))
        return gp_answer_bytes(habit->answer);
    if (++habit->misses == 0) { /* a habit no more */
        habit->good = false;
        habit->learn_in = habit->wait = LEARN_EVERY;
    }
    return 0;
}

static size_t read_headers(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *bytes,
                           size_t size)
{
    size_t taken = frame->flags == GP_FLAG_END_HEADERS ? read_answer(wire, bytes, size) : 0;

    if (taken > 0)
        return taken;
    wire_on_headers(wire, frame, bytes + GP_FRAME_HEADER_BYTES);
    return GP_FRAME_HEADER_BYTES + frame->length;
}

/* Read frames as long as they are whole, or are passed on. Returns how many bytes were taken. */
static size_t read_frames(struct gp_wire *wire, const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size;

    while (!wire->over && (size_t)(end - at) >= GP_FRAME_HEADER_BYTES) {
        struct gp_frame frame = gp_frame_read(at);
        const uint8_t *payload = at + GP_FRAME_HEADER_BYTES;
        if (!is_plain(wire, &frame) && !check_head(wire, &frame, at))
            break;
        if (!is_kept(&frame)) {
            at = payload + open_payload(wire, &frame, payload, (size_t)(end - payload));
            continue;
        }
        if ((size_t)(end - payload) < frame.length)
            break;
        if (frame.type == GP_FRAME_HEADERS) { /* a test is cheaper than a jump through a table */
            at += read_headers(wire, &frame, at, (size_t)(end - at));
            continue;
        }
        on_frame(wire, &frame, payload);
        at = payload + frame.length;
    }
    return (size_t)(at - data);
}

static bool keep(struct gp_wire *wire, const uint8_t *data, size_t size)
{
    if (gp_bytes_append(&wire->partial, data, size) == 0)
        return true;
    wire_out_of_memory(wire);
    return false;
}

/* Go on with the frame of which a part is kept. Returns how many of the new bytes it took. */
static size_t complete_partial(struct gp_wire *wire, const uint8_t *data, size_t size)
{
    size_t kept = gp_bytes_length(&wire->partial), taken = 0;
    size_t wanted = GP_FRAME_HEADER_BYTES;

    if (kept >= wanted)
        wanted += gp_frame_read(gp_bytes_front(&wire->partial)).length;
    taken = wanted - kept < size ? wanted - kept : size;
    if (!keep(wire, data, taken))
        return taken;
    kept += taken;
    gp_bytes_take(&wire->partial, read_frames(wire, gp_bytes_front(&wire->partial), kept));
    if (gp_bytes_length(&wire->partial) == 0 && wire->partial.capacity > KEPT_BYTES)
        gp_bytes_fini(&wire->partial);
    return taken;
}

int gp_wire_receive(struct gp_wire *wire, const uint8_t *data, size_t size, uint64_t now_ns)
{
    size_t taken;

    wire->now_ns = now_ns;
    wire->bytes_received += size;
    while (size > 0 && !wire->over) {
        if (wire->data.open)
            taken = feed_payload(wire, data, size);
        else if (gp_bytes_length(&wire->partial) > 0)
            taken = complete_partial(wire, data, size);
        else
            taken = read_frames(wire, data, size);
        if (taken == 0 && !wire->over && keep(wire, data, size))
            taken = size;
        data += taken;
        size -= taken;
    }
    wire_settle(wire);
    return wire->over ? -1 : 0;
}
