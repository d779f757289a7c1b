/* responder: life, and frames cut out of the bytes, most of them in place (RFC 9113, section 4). */
#include "wire/responder_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void put_setting(uint8_t **at, enum gp_setting setting, uint32_t value)
{
    (*at)[0] = 0;
    (*at)[1] = (uint8_t)setting;
    gp_put_u32(*at + 2, value);
    *at += 6;
}

static void put_settings(struct gp_responder *responder)
{
    uint8_t *room = gp_responder_room(responder, 64);

    if (!room)
        return;
    uint8_t *at = room + GP_FRAME_HEADER_BYTES;
    put_setting(&at, GP_SETTING_MAX_CONCURRENT_STREAMS, GP_RESPONDER_STREAMS);
    put_setting(&at, GP_SETTING_INITIAL_WINDOW_SIZE, GP_RESPONDER_STREAM_WINDOW);
    put_setting(&at, GP_SETTING_MAX_FRAME_SIZE, GP_RESPONDER_FRAME_BYTES);
    put_setting(&at, GP_SETTING_MAX_HEADER_LIST_SIZE, GP_RESPONDER_BLOCK_BYTES);
    size_t size = (size_t)(at - room);
    gp_frame_write(room, (struct gp_frame){.length = (uint32_t)(size - GP_FRAME_HEADER_BYTES),
                                           .type = GP_FRAME_SETTINGS});
    gp_responder_add(responder, size);
}

int gp_responder_create(struct gp_responder **responder, struct gp_responder_counts *counts,
                        struct gp_error *err)
{
    struct gp_responder *made = calloc(1, sizeof *made);

    *responder = NULL;
    if (!made)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a connection");
    made->counts = counts;
    made->send_window = GP_FRAME_DEFAULT_WINDOW;
    made->first = made->last = GP_STREAM_NONE;
    gp_settings_init(&made->peer);
    if (gp_routes_create(&made->routes, GP_RESPONDER_BLOCK_BYTES, err) != 0) {
        gp_responder_destroy(made);
        return -1;
    }
    put_settings(made);
    gp_responder_put_u32(made, GP_FRAME_WINDOW_UPDATE, 0, GP_RESPONDER_WINDOW - GP_FRAME_DEFAULT_WINDOW);
    *responder = made;
    return 0;
}

void gp_responder_destroy(struct gp_responder *responder)
{
    if (!responder)
        return;
    responder->counts->running -= responder->streams.count;
    responder->counts->cancelled += responder->streams.count;
    responder->counts->finished += responder->streams.count;
    gp_streams_fini(&responder->streams);
    gp_routes_destroy(responder->routes);
    gp_bytes_fini(&responder->part);
    gp_bytes_fini(&responder->block);
    gp_bytes_fini(&responder->out);
    free(responder);
}

void gp_responder_fail(struct gp_responder *responder, enum gp_h2_error error, const char *text)
{
    size_t size = GP_FRAME_HEADER_BYTES + 8 + strlen(text);
    uint8_t *room = responder->phase == GP_RESPONDER_OVER ? NULL : gp_responder_room(responder, size);

    responder->phase = GP_RESPONDER_OVER;
    if (!room)
        return;
    gp_frame_write(
        room, (struct gp_frame){.length = (uint32_t)(size - GP_FRAME_HEADER_BYTES), .type = GP_FRAME_GOAWAY});
    gp_put_u32(room + GP_FRAME_HEADER_BYTES, responder->last_id);
    gp_put_u32(room + GP_FRAME_HEADER_BYTES + 4, error);
    memcpy(room + GP_FRAME_HEADER_BYTES + 8, text, strlen(text));
    gp_responder_add(responder, size);
}

/* --- frames */

/* Where a frame of a type may be, and how long it may be. */
static const struct {
    bool on_stream, on_connection;
    uint32_t least, most;
} laws[] = {
    [GP_FRAME_DATA] = {true, false, 0, GP_RESPONDER_FRAME_BYTES},
    [GP_FRAME_HEADERS] = {true, false, 0, GP_RESPONDER_BLOCK_BYTES},
    [GP_FRAME_PRIORITY] = {true, false, 5, 5},
    [GP_FRAME_RST_STREAM] = {true, false, 4, 4},
    [GP_FRAME_SETTINGS] = {false, true, 0, GP_RESPONDER_BLOCK_BYTES},
    [GP_FRAME_PUSH_PROMISE] = {false, false, 0, GP_RESPONDER_FRAME_BYTES},
    [GP_FRAME_PING] = {false, true, 8, 8},
    [GP_FRAME_GOAWAY] = {false, true, 8, GP_RESPONDER_BLOCK_BYTES},
    [GP_FRAME_WINDOW_UPDATE] = {true, true, 4, 4},
    [GP_FRAME_CONTINUATION] = {true, false, 0, GP_RESPONDER_BLOCK_BYTES},
};

/* Judged by its header alone, before any of its payload is waited for. */
static bool lawful(struct gp_responder *responder, struct gp_frame frame)
{
    bool typed = frame.type < sizeof laws / sizeof laws[0];
    bool continues = frame.type == GP_FRAME_CONTINUATION;

    if (frame.length > GP_RESPONDER_FRAME_BYTES ||
        (typed && (frame.length < laws[frame.type].least || frame.length > laws[frame.type].most)))
        gp_responder_fail(responder, GP_H2_FRAME_SIZE_ERROR,
                          "a frame of a wrong size, or of more than is taken");
    else if (responder->phase == GP_RESPONDER_GREETED &&
             (frame.type != GP_FRAME_SETTINGS || frame.flags & GP_FLAG_ACK))
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "the first frame is not SETTINGS");
    else if (responder->block_id != 0 ? !continues || frame.stream_id != responder->block_id : continues)
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR,
                          "a header block is not continued, or without need");
    else if (typed && !(frame.stream_id ? laws[frame.type].on_stream : laws[frame.type].on_connection))
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "a frame has no place there");
    return responder->phase != GP_RESPONDER_OVER;
}

static void end_data(struct gp_responder *responder)
{
    if (responder->data.left > 0 || responder->data.padding > 0 || responder->phase == GP_RESPONDER_OVER)
        return;
    responder->data.open = false;
    gp_responder_data_end(responder, responder->data.stream_id, responder->data.ends);
}

static void begin_data(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload)
{
    bool padded = frame.flags & GP_FLAG_PADDED;
    uint32_t padding = padded && frame.length > 0 ? payload[0] : 0;

    if (padded && padding >= frame.length) {
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "DATA with more padding than there is");
        return;
    }
    responder->data.open = true;
    responder->data.ends = frame.flags & GP_FLAG_END_STREAM;
    responder->data.stream_id = frame.stream_id;
    responder->data.padding = padding;
    responder->data.left = frame.length - padding - padded;
    gp_responder_data_begin(responder, frame.stream_id, frame.length);
    end_data(responder);
}

/* --- from bytes to frames */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static const uint8_t *take_preface(struct gp_responder *responder, const uint8_t *at, const uint8_t *end)
{
    size_t size = least((size_t)(end - at), GP_FRAME_PREFACE_BYTES - responder->preface_bytes);

    if (memcmp(at, gp_frame_preface + responder->preface_bytes, size) != 0)
        gp_responder_fail(responder, GP_H2_PROTOCOL_ERROR, "this is not HTTP/2");
    responder->preface_bytes += (uint32_t)size;
    if (responder->preface_bytes == GP_FRAME_PREFACE_BYTES && responder->phase != GP_RESPONDER_OVER)
        responder->phase = GP_RESPONDER_GREETED;
    return at + size;
}

static const uint8_t *take_data(struct gp_responder *responder, const uint8_t *at, const uint8_t *end)
{
    size_t body = least((size_t)(end - at), responder->data.left);
    size_t padding = least((size_t)(end - at) - body, responder->data.padding);

    if (body > 0)
        gp_responder_data(responder, responder->data.stream_id, at, body);
    responder->data.left -= (uint32_t)body;
    responder->data.padding -= (uint32_t)padding;
    end_data(responder);
    return at + body + padding;
}

/* How many bytes of a frame are needed together: of DATA only what comes before its body. 0: it is over. */
static size_t needed(struct gp_responder *responder, const uint8_t *bytes, size_t size)
{
    if (size < GP_FRAME_HEADER_BYTES)
        return GP_FRAME_HEADER_BYTES;
    struct gp_frame frame = gp_frame_read(bytes);
    if (!lawful(responder, frame))
        return 0;
    if (frame.type == GP_FRAME_DATA)
        return GP_FRAME_HEADER_BYTES + (frame.flags & GP_FLAG_PADDED && frame.length > 0);
    return GP_FRAME_HEADER_BYTES + frame.length;
}

static void take_whole(struct gp_responder *responder, const uint8_t *bytes)
{
    struct gp_frame frame = gp_frame_read(bytes);

    responder->phase = GP_RESPONDER_OPEN;
    if (frame.type == GP_FRAME_DATA)
        begin_data(responder, frame, bytes + GP_FRAME_HEADER_BYTES);
    else
        gp_responder_frame(responder, frame, bytes + GP_FRAME_HEADER_BYTES);
}

/* Go on with a frame whose beginning came earlier, byte by byte if need be. */
static const uint8_t *take_part(struct gp_responder *responder, const uint8_t *at, const uint8_t *end)
{
    struct gp_bytes *part = &responder->part;

    for (;;) {
        size_t have = gp_bytes_length(part);
        size_t whole = needed(responder, have ? gp_bytes_front(part) : at, have);
        if (responder->phase == GP_RESPONDER_OVER)
            return end;
        if (have == whole) {
            take_whole(responder, gp_bytes_front(part));
            gp_bytes_clear(part);
            return at;
        }
        if (at == end)
            return end;
        size_t more = least(whole - have, (size_t)(end - at));
        if (gp_bytes_append(part, at, more) != 0)
            gp_responder_fail(responder, GP_H2_INTERNAL_ERROR, "out of memory");
        at += more;
    }
}

static const uint8_t *take_next(struct gp_responder *responder, const uint8_t *at, const uint8_t *end)
{
    if (responder->phase == GP_RESPONDER_PREFACE)
        return take_preface(responder, at, end);
    if (responder->data.open)
        return take_data(responder, at, end);
    if (gp_bytes_length(&responder->part) > 0)
        return take_part(responder, at, end);
    const uint8_t *behind = gp_responder_at_once(responder, at, end);
    if (behind)
        return behind;
    size_t have = (size_t)(end - at), whole = needed(responder, at, have);
    if (whole == 0)
        return end;
    if (have < whole)
        return take_part(responder, at, end);
    take_whole(responder, at);
    return at + whole;
}

int gp_responder_receive(struct gp_responder *responder, const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size;

    while (at < end && responder->phase != GP_RESPONDER_OVER)
        at = take_next(responder, at, end);
    return responder->phase == GP_RESPONDER_OVER ? -1 : 0;
}
