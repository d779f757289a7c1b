/* response: frames that are about a call. HEADERS, DATA and trailers, or RST_STREAM, and what they mean for
 * it: gRPC over HTTP/2, and RFC 9113, whose section numbers these are. */
#include "wire/connection_state.h"

#include "base/message_times.h"
#include "wire/status.h"

#define CONTINUATIONS_MOST 64u /* of one block: empty ones cost the peer nothing */
#define HTTP_OK 200u
#define HTTP_SWITCHING 101u

/* --- how a call ends here ---------------------------------------------------------------------- */

/* The peer has ended the stream. When we have not, we need not go on (8.1). */
static void end_by_peer(struct gp_wire *wire, uint32_t id, enum gp_class class)
{
    const struct gp_call *call = &wire->slab[id];

    if (call->flags & GP_CALL_LEAVING)
        class = (enum gp_class)call->class;
    if (call->flags & GP_CALL_HALF_CLOSED)
        wire_close_stream(wire, id, class, false);
    else
        wire_reset_stream(wire, id, class, GP_H2_NO_ERROR);
}

/* The response is not one: a stream error (8.1.1). */
static void end_malformed(struct gp_wire *wire, uint32_t id, const char *what)
{
    wire_note(wire, GP_CLASS_INTERNAL, "malformed response: %s", what);
    wire_reset_stream(wire, id, GP_CLASS_INTERNAL, GP_H2_PROTOCOL_ERROR);
}

void wire_on_reset(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    uint32_t id, code;

    if (frame->length != 4) {
        wire_fail(wire, GP_H2_FRAME_SIZE_ERROR, "RST_STREAM of %u bytes instead of 4", frame->length);
        return;
    }
    if (wire_is_idle(wire, frame->stream_id)) { /* 6.4, and the connection is none either */
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "RST_STREAM on stream %u, which is idle", frame->stream_id);
        return;
    }
    id = gp_roster_find(&wire->roster, frame->stream_id);
    if (id == GP_CALLS_NONE)
        return;
    code = gp_get_u32(payload);
    if (wire->slab[id].flags & GP_CALL_LEAVING) {
        wire_close_stream(wire, id, (enum gp_class)wire->slab[id].class, false);
        return;
    }
    wire_note(wire, gp_status_from_reset(code), "the peer reset the stream: %s", gp_h2_error_name(code));
    /* A peer that has begun to answer has begun the call, whatever it says now. */
    wire_close_stream(wire, id, gp_status_from_reset(code),
                      code == GP_H2_REFUSED_STREAM && !(wire->slab[id].flags & GP_CALL_ANSWERED));
}

/* --- HEADERS: the response's, or trailers ------------------------------------------------------ */

static const char *status_text(struct gp_wire *wire)
{
    return gp_decoder_message(wire->decoder);
}

/* The status as the peer has said it, and the class that it makes. */
static enum gp_class class_of_end(struct gp_wire *wire, const struct gp_call *call,
                                  const struct gp_fields *fields)
{
    enum gp_class class = (enum gp_class)fields->grpc_status;

    if (fields->grpc_status < 0) {
        class = fields->http_status ? gp_status_from_http(fields->http_status) : GP_CLASS_UNKNOWN;
        wire_note(wire, class, "the response ended without grpc-status (HTTP status %u)",
                  fields->http_status ? fields->http_status : HTTP_OK);
    } else if (class != GP_CLASS_OK) {
        wire_note(wire, class, "grpc-status %d: %s", fields->grpc_status, status_text(wire));
    } else if (!gp_message_between(&call->scan)) {
        class = GP_CLASS_INTERNAL;
        wire_note(wire, class, "the response ended inside a message");
    } else {
        class = gp_call_judge(wire->calls, call);
        if (wire_unlikely(class != GP_CLASS_OK))
            wire_note(wire, class, "status OK, but %u messages came and %u were sent", call->received,
                      call->sent);
    }
    return class;
}

static void on_trailers(struct gp_wire *wire, uint32_t id, const struct gp_fields *fields)
{
    const struct gp_call *call = &wire->slab[id];

    if (call->flags & GP_CALL_LEAVING)
        end_by_peer(wire, id, (enum gp_class)call->class);
    else if (wire_unlikely(fields->malformed || fields->http_status))
        end_malformed(wire, id, "trailers that break the rules for fields");
    else
        end_by_peer(wire, id, class_of_end(wire, call, fields));
}

/* A response that cannot be gRPC's: what HTTP says of it is its status. C core decides here, too, without
 * waiting for the end. */
static void on_foreign(struct gp_wire *wire, uint32_t id, const struct gp_fields *fields)
{
    enum gp_class class = gp_status_from_http(fields->http_status);

    if (fields->http_status == HTTP_OK)
        wire_note(wire, class, "the response's content-type is not application/grpc");
    else
        wire_note(wire, class, "HTTP status %u", fields->http_status);
    wire_reset_stream(wire, id, class, GP_H2_CANCEL);
}

static void on_first(struct gp_wire *wire, uint32_t id, const struct gp_fields *fields, bool end_stream)
{
    struct gp_call *call = &wire->slab[id];
    bool informational = fields->http_status >= 100 && fields->http_status < HTTP_OK;

    if (wire_unlikely(fields->malformed || fields->http_status == 0 ||
                      fields->http_status == HTTP_SWITCHING || (informational && end_stream))) /* 8.1, 8.6 */
        end_malformed(wire, id, "headers that break the rules for fields");
    else if (informational)
        return;
    else if (end_stream) /* gRPC's "Trailers-Only" */
        end_by_peer(wire, id, class_of_end(wire, call, fields));
    else if (wire_unlikely(fields->http_status != HTTP_OK ||
                           (fields->has_content_type && !fields->grpc_content_type)))
        on_foreign(wire, id, fields);
    else
        call->flags |= GP_CALL_ANSWERED | (fields->gzip ? GP_CALL_GZIP : 0);
}

static void on_too_large(struct gp_wire *wire, uint32_t id, bool end_stream)
{
    wire_note(wire, GP_CLASS_RESOURCE_EXHAUSTED, "a header list above our MAX_HEADER_LIST_SIZE");
    if (end_stream)
        end_by_peer(wire, id, GP_CLASS_RESOURCE_EXHAUSTED);
    else
        wire_reset_stream(wire, id, GP_CLASS_RESOURCE_EXHAUSTED, GP_H2_CANCEL);
}

/* A block is decoded whatever became of its stream: the state of HPACK is the connection's (4.3). */
static void on_block(struct gp_wire *wire, uint32_t stream_id, const uint8_t *block, size_t size,
                     bool end_stream)
{
    struct gp_fields fields;
    enum gp_decoded decoded = gp_decoder_read(wire->decoder, block, size, &fields);
    uint32_t id = gp_roster_find(&wire->roster, stream_id);

    if (wire_unlikely(decoded == GP_DECODED_BROKEN)) {
        wire_fail(wire, GP_H2_COMPRESSION_ERROR, "a header block that is not HPACK");
        return;
    }
    if (wire->habit.good && gp_decoder_inflated(wire->decoder) != wire->habit.inflated)
        wire->habit.good = false;
    if (id == GP_CALLS_NONE)
        return;
    const struct gp_call *call = &wire->slab[id];
    bool leaving = call->flags & GP_CALL_LEAVING;
    if (wire_unlikely(leaving && !end_stream))
        return;
    if (wire_unlikely(decoded == GP_DECODED_TOO_LARGE))
        on_too_large(wire, id, end_stream);
    else if (!(call->flags & GP_CALL_ANSWERED) && !leaving)
        on_first(wire, id, &fields, end_stream);
    else if (end_stream)
        on_trailers(wire, id, &fields);
    else
        end_malformed(wire, id, "headers after headers"); /* 8.1 */
}

/* --- header blocks of several frames (6.2, 6.10) ------------------------------------------------ */

/* Bounded in bytes and in frames: a block that never ends is an attack. */
static void gather_block(struct gp_wire *wire, const uint8_t *part, size_t size, bool end_headers)
{
    struct wire_open_block *open = &wire->open_block;

    if (gp_bytes_length(&open->bytes) + size > WIRE_MAX_BLOCK || open->continuations > CONTINUATIONS_MOST) {
        wire_fail(wire, GP_H2_ENHANCE_YOUR_CALM, "a header block of more than %u bytes or %u frames",
                  WIRE_MAX_BLOCK, CONTINUATIONS_MOST);
        return;
    }
    if (gp_bytes_append(&open->bytes, part, size) < 0) {
        wire_out_of_memory(wire);
        return;
    }
    if (!end_headers)
        return;
    uint32_t stream_id = open->stream_id;
    open->stream_id = 0;
    on_block(wire, stream_id, gp_bytes_front(&open->bytes), gp_bytes_length(&open->bytes), open->end_stream);
    gp_bytes_fini(&open->bytes);
}

void wire_on_continuation(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    if (wire->open_block.stream_id == 0) {
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "CONTINUATION without HEADERS");
        return;
    }
    wire->open_block.continuations++;
    gather_block(wire, payload, frame->length, frame->flags & GP_FLAG_END_HEADERS);
}

void wire_on_headers(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    const uint8_t *block = payload;
    size_t size = frame->length;
    bool end_stream = frame->flags & GP_FLAG_END_STREAM;

    if (wire_unlikely(wire_is_idle(wire, frame->stream_id))) {
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "HEADERS on stream %u, which is idle", frame->stream_id);
        return;
    }
    if (wire_unlikely(frame->flags & (GP_FLAG_PADDED | GP_FLAG_PRIORITY))) {
        enum gp_h2_error error = gp_frame_body(*frame, payload, &block, &size);
        if (error != GP_H2_NO_ERROR) {
            wire_fail(wire, error, "HEADERS too short for its padding or priority");
            return;
        }
    }
    if (frame->flags & GP_FLAG_END_HEADERS) {
        on_block(wire, frame->stream_id, block, size, end_stream);
        return;
    }
    wire->open_block.stream_id = frame->stream_id;
    wire->open_block.end_stream = end_stream;
    wire->open_block.continuations = 0;
    gather_block(wire, block, size, false);
}

/* --- DATA -------------------------------------------------------------------------------------- */

/* What is read is given back when an eighth of a window has been used: updates are few (6.9), and the most
 * that is not given back, by which a far peer's window is smaller, is little. The frame counts as a whole,
 * its padding included (6.1). */
#define GIVE_BACK 8u

static bool use_connection_window(struct gp_wire *wire, uint32_t bytes)
{
    wire->granted -= bytes;
    if (wire_unlikely(wire->granted < 0)) {
        wire_fail(wire, GP_H2_FLOW_CONTROL_ERROR, "more DATA than the connection's window allows");
        return false;
    }
    if (wire->granted <= wire->connection_window - wire->connection_window / GIVE_BACK) {
        wire_put_u32(wire, GP_FRAME_WINDOW_UPDATE, 0, (uint32_t)(wire->connection_window - wire->granted));
        wire->granted = wire->connection_window;
    }
    return !wire->over;
}

/* False when the call has ended. */
static bool use_stream_window(struct gp_wire *wire, uint32_t id, const struct gp_frame *frame)
{
    struct gp_call *call = &wire->slab[id];

    if (wire_unlikely(frame->length > wire->stream_window - call->consumed)) {
        wire_note(wire, GP_CLASS_INTERNAL, "more DATA than the stream's window allows");
        wire_reset_stream(wire, id, GP_CLASS_INTERNAL, GP_H2_FLOW_CONTROL_ERROR);
        return false;
    }
    call->consumed += frame->length;
    if (call->consumed > wire->stream_window / GIVE_BACK && !(frame->flags & GP_FLAG_END_STREAM)) {
        wire_put_u32(wire, GP_FRAME_WINDOW_UPDATE, frame->stream_id, call->consumed);
        call->consumed = 0;
    }
    return !wire->over;
}

bool wire_on_data_head(struct gp_wire *wire, const struct gp_frame *frame, uint32_t *id)
{
    *id = GP_CALLS_NONE;
    if (wire_unlikely(wire_is_idle(wire, frame->stream_id)))
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "DATA on stream %u, which is idle", frame->stream_id);
    else if (wire_unlikely(frame->flags & GP_FLAG_PADDED && frame->length == 0))
        wire_fail(wire, GP_H2_FRAME_SIZE_ERROR, "padded DATA without a length of its padding");
    if (wire->over || !use_connection_window(wire, frame->length))
        return false;
    *id = gp_roster_find(&wire->roster, frame->stream_id);
    if (*id == GP_CALLS_NONE)
        return true;
    uint8_t flags = wire->slab[*id].flags;
    if (wire_unlikely(flags & GP_CALL_LEAVING)) /* as good as closed; but its END_STREAM is of interest */
        return true;
    if (wire_unlikely(!(flags & GP_CALL_ANSWERED)))
        end_malformed(wire, *id, "DATA before headers");
    if (!(flags & GP_CALL_ANSWERED) || !use_stream_window(wire, *id, frame))
        *id = GP_CALLS_NONE;
    return !wire->over;
}

/* The next of a ping-pong, or the end of it. */
static void on_answers(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];

    if (gp_call_may_send(wire->calls, call))
        wire_send_more(wire, id);
    else if (gp_call_should_close(wire->calls, call))
        wire_half_close(wire, call);
}

static void on_messages(struct gp_wire *wire, uint32_t id, uint32_t count)
{
    struct gp_call *call = &wire->slab[id];
    const struct gp_calls *calls = wire->calls;
    enum gp_kind kind = calls->kind;
    bool streams_to_us = kind == GP_KIND_SERVER_STREAM || kind == GP_KIND_BIDI_FREE;

    if (kind != GP_KIND_BIDI && (streams_to_us || wire_unlikely(call->received + count > 1)))
        count = gp_call_takes(calls, call, count);
    if (calls->times)
        gp_message_times_came(calls->times, id, call->received, count, wire->now_ns);
    call->received += count;
    wire->messages_received += count;
    if (kind == GP_KIND_BIDI) {
        on_answers(wire, id);
    } else if (streams_to_us) {
        if (gp_call_has_all(calls, call))
            wire_leave(wire, id, GP_CLASS_OK);
    } else if (wire_unlikely(call->received > 1)) {
        wire_note(wire, GP_CLASS_UNIMPLEMENTED, "more than one response message");
        wire_leave(wire, id, GP_CLASS_UNIMPLEMENTED);
    }
}

static void end_by_fault(struct gp_wire *wire, uint32_t id, enum gp_message_fault fault)
{
    enum gp_class class = fault == GP_MESSAGE_TOO_LARGE ? GP_CLASS_RESOURCE_EXHAUSTED : GP_CLASS_INTERNAL;

    if (fault == GP_MESSAGE_TOO_LARGE)
        wire_note(wire, class, "a message of more than %u bytes", wire->max_message_bytes);
    else if (fault == GP_MESSAGE_BAD_FLAG)
        wire_note(wire, class, "a message with a compressed flag that grpc-encoding does not allow");
    else
        wire_note(wire, class, "a message that is not sound gzip");
    wire_reset_stream(wire, id, class, GP_H2_CANCEL);
}

void wire_on_data(struct gp_wire *wire, uint32_t id, const uint8_t *data, size_t size)
{
    struct gp_call *call = &wire->slab[id];
    enum gp_message_fault fault;
    uint32_t count;

    if (wire_unlikely(call->flags & GP_CALL_LEAVING))
        return;
    count =
        gp_message_scan(&call->scan, data, size, wire->max_message_bytes, call->flags & GP_CALL_GZIP, &fault);
    if (count > 0)
        on_messages(wire, id, count);
    if (wire_unlikely(fault != GP_MESSAGE_FINE) && call->state == GP_CALL_OPEN &&
        !(call->flags & GP_CALL_LEAVING))
        end_by_fault(wire, id, fault);
}

void wire_on_data_end(struct gp_wire *wire, uint32_t id)
{
    if (!(wire->slab[id].flags & GP_CALL_LEAVING))
        wire_note(wire, GP_CLASS_UNKNOWN, "the response ended without trailers, so without grpc-status");
    end_by_peer(wire, id, GP_CLASS_UNKNOWN);
}

/* Its size is within the limits, for it was when the answer was learnt, and for a stream as fresh as this. */
bool wire_on_answer(struct gp_wire *wire, uint32_t stream_id, uint32_t body_bytes)
{
    uint32_t id = gp_roster_find(&wire->roster, stream_id), bytes = body_bytes + GP_MESSAGE_PREFIX_BYTES;

    if (wire_unlikely(id == GP_CALLS_NONE || wire->slab[id].flags != GP_CALL_HALF_CLOSED ||
                      bytes > wire->granted))
        return false;
    wire->slab[id].received = 1;
    wire->messages_received++;
    wire_close_stream(wire, id, GP_CLASS_OK, false);
    use_connection_window(wire, bytes);
    return true;
}
