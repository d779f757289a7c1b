/* responder: what the five methods of BenchmarkService are: from HEADERS and DATA
 * to answers that are owed. */
#include "wire/responder_parts.h"

#include <stdlib.h>

#define INVALID_ARGUMENT ((enum gp_class)3)

/* --- how calls begin and end */

static struct gp_stream *begin(struct gp_responder *responder, uint32_t id, const struct gp_route *route)
{
    struct gp_stream *stream = gp_streams_take(&responder->streams, id);
    struct gp_responder_counts *counts = responder->counts;

    if (!stream) {
        gp_responder_fail(responder, GP_H2_INTERNAL_ERROR, "out of memory");
        return NULL;
    }
    stream->kind = route->kind;
    stream->encoded = route->encoded;
    counts->started++;
    if (++counts->running > counts->peak_running)
        counts->peak_running = counts->running;
    return stream;
}

void gp_responder_close(struct gp_responder *responder, struct gp_stream *stream)
{
    responder->counts->running--;
    responder->counts->finished++;
    gp_streams_forget(&responder->streams, stream);
    if (!stream->queued)
        gp_streams_give(&responder->streams, stream);
}

static void put_failure(struct gp_responder *responder, uint32_t id, bool alone, enum gp_class class,
                        const char *text)
{
    uint8_t *room = gp_responder_room(responder, GP_REPLY_BYTES);

    if (room)
        gp_responder_add(responder, gp_reply_failure(&responder->reply, room, id, alone, class, text));
}

/* A response that is whole before the request is: the rest of the request is not wanted (RFC 9113, 8.1). */
static void put_enough(struct gp_responder *responder, uint32_t id, bool half_closed)
{
    if (!half_closed)
        gp_responder_put_u32(responder, GP_FRAME_RST_STREAM, id, GP_H2_NO_ERROR);
}

static void fail(struct gp_responder *responder, struct gp_stream *stream, enum gp_class class,
                 const char *text)
{
    put_failure(responder, stream->id, !stream->headers_sent, class, text);
    put_enough(responder, stream->id, stream->half_closed);
    gp_responder_close(responder, stream);
}

static void reset(struct gp_responder *responder, struct gp_stream *stream, enum gp_h2_error error)
{
    gp_responder_put_u32(responder, GP_FRAME_RST_STREAM, stream->id, error);
    gp_responder_close(responder, stream);
}

void gp_responder_reset(struct gp_responder *responder, uint32_t id)
{
    struct gp_stream *stream = gp_streams_find(&responder->streams, id);

    if (!stream)
        return;
    responder->counts->cancelled++;
    gp_responder_close(responder, stream);
}

/* --- requests */

static bool owe(struct gp_responder *responder, struct gp_stream *stream)
{
    if (gp_stream_owe(stream, stream->wanted) != 0) {
        reset(responder, stream, GP_H2_ENHANCE_YOUR_CALM);
        return false;
    }
    gp_responder_queue(responder, stream);
    return true;
}

/* Whether the call goes on. */
static bool take_message(struct gp_responder *responder, struct gp_stream *stream)
{
    bool single = stream->kind == GP_KIND_UNARY || stream->kind == GP_KIND_SERVER_STREAM;
    bool first = !stream->asked;

    if (stream->ask.response_size < 0 || stream->ask.response_size > GP_BENCHMARK_MAX_RESPONSE) {
        fail(responder, stream, INVALID_ARGUMENT, "response_size must be from 0 to 1073741824");
        return false;
    }
    if (single && !first) {
        fail(responder, stream, GP_CLASS_UNIMPLEMENTED, "more than one request");
        return false;
    }
    stream->asked = true;
    stream->wanted = stream->ask.response_size;
    if (stream->kind == GP_KIND_BIDI)
        return owe(responder, stream);
    if (stream->kind == GP_KIND_BIDI_FREE && first)
        gp_responder_queue(responder, stream);
    return true;
}

static void take_bytes(struct gp_responder *responder, struct gp_stream *stream, const uint8_t *data,
                       size_t size)
{
    const uint8_t *at = data;

    for (;;) {
        switch (gp_ask_read(&stream->ask, &at, data + size)) {
        case GP_ASKED_MORE:
            return;
        case GP_ASKED_MESSAGE:
            if (!take_message(responder, stream))
                return;
            break;
        case GP_ASKED_COMPRESSED:
            fail(responder, stream, stream->encoded ? GP_CLASS_UNIMPLEMENTED : GP_CLASS_INTERNAL,
                 "compressed messages are not taken here");
            return;
        case GP_ASKED_MALFORMED:
            fail(responder, stream, GP_CLASS_INTERNAL, "the request is not a grpc.testing.SimpleRequest");
            return;
        }
    }
}

/* The client has ended its side. */
static void take_end(struct gp_responder *responder, struct gp_stream *stream)
{
    bool single = stream->kind == GP_KIND_UNARY || stream->kind == GP_KIND_SERVER_STREAM;

    stream->half_closed = true;
    if (!gp_ask_between(&stream->ask))
        fail(responder, stream, GP_CLASS_INTERNAL, "the request ends inside a message");
    else if (single && !stream->asked)
        fail(responder, stream, GP_CLASS_UNIMPLEMENTED, "a request without a message");
    else if (stream->kind == GP_KIND_UNARY || stream->kind == GP_KIND_CLIENT_STREAM)
        owe(responder, stream);
    else if (stream->kind == GP_KIND_SERVER_STREAM || stream->left > 0 || stream->run.count > 0)
        gp_responder_queue(responder, stream);
    else
        gp_responder_trailers(responder, stream);
}

/* --- HEADERS */

/* On a stream that is there: trailers, which can only end it. */
static void take_trailers(struct gp_responder *responder, struct gp_stream *stream, bool ends)
{
    if (stream->half_closed)
        reset(responder, stream, GP_H2_STREAM_CLOSED);
    else if (!ends)
        reset(responder, stream, GP_H2_PROTOCOL_ERROR);
    else
        take_end(responder, stream);
}

static void refuse(struct gp_responder *responder, uint32_t id, enum gp_h2_error error)
{
    gp_responder_put_u32(responder, GP_FRAME_RST_STREAM, id, error);
}

static void take_request(struct gp_responder *responder, uint32_t id, bool ends, const struct gp_route *route)
{
    if (!route->has_path) {
        refuse(responder, id, GP_H2_PROTOCOL_ERROR);
    } else if (!route->known) {
        responder->counts->rejected++;
        put_failure(responder, id, true, GP_CLASS_UNIMPLEMENTED, "there is no such method");
        put_enough(responder, id, ends);
    } else if (responder->streams.count >= GP_RESPONDER_STREAMS) {
        refuse(responder, id, GP_H2_REFUSED_STREAM);
    } else {
        struct gp_stream *stream = begin(responder, id, route);
        if (stream && ends)
            take_end(responder, stream);
    }
}

/* Whatever the stream is, its block has to be read: the table needs it. */
void gp_responder_headers(struct gp_responder *responder, uint32_t id, bool ends, const uint8_t *block,
                          size_t size)
{
    struct gp_stream *stream = gp_streams_find(&responder->streams, id);
    struct gp_route route;
    enum gp_routed routed = gp_routes_read(responder->routes, block, size, &route);

    if (routed == GP_ROUTED_BROKEN) {
        gp_responder_fail(responder, GP_H2_COMPRESSION_ERROR, "a header block that is not HPACK");
    } else if (stream) {
        take_trailers(responder, stream, ends);
    } else if (id > responder->last_id) {
        responder->last_id = id;
        if (routed == GP_ROUTED_TOO_LARGE)
            refuse(responder, id, GP_H2_ENHANCE_YOUR_CALM);
        else
            take_request(responder, id, ends, &route);
    } /* else trailers of a call that we have ended */
}

/* --- DATA */

void gp_responder_data_begin(struct gp_responder *responder, uint32_t id, uint32_t length)
{
    struct gp_stream *stream = gp_streams_find(&responder->streams, id);

    responder->received += length;
    if (responder->received > GP_RESPONDER_WINDOW)
        gp_responder_fail(responder, GP_H2_FLOW_CONTROL_ERROR, "more than the connection's window");
    else if (!stream && gp_responder_idle(responder, id))
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "DATA on an idle stream");
    else
        gp_responder_allow(responder, NULL);
    if (!stream || responder->phase == GP_RESPONDER_OVER)
        return;
    stream->received += length;
    if (stream->half_closed)
        reset(responder, stream, GP_H2_STREAM_CLOSED);
    else if (stream->received > GP_RESPONDER_STREAM_WINDOW)
        reset(responder, stream, GP_H2_FLOW_CONTROL_ERROR);
}

void gp_responder_data(struct gp_responder *responder, uint32_t id, const uint8_t *data, size_t size)
{
    struct gp_stream *stream = gp_streams_find(&responder->streams, id);

    if (stream)
        take_bytes(responder, stream, data, size);
}

void gp_responder_data_end(struct gp_responder *responder, uint32_t id, bool ends)
{
    struct gp_stream *stream = gp_streams_find(&responder->streams, id);

    if (!stream)
        return;
    if (ends)
        take_end(responder, stream);
    else
        gp_responder_allow(responder, stream);
}
