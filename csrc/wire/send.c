/* send: from calls to bytes. How a call begins, which of those that have something to send goes next, and the
 * frames themselves. Only DATA is held back by flow control (RFC 9113, 5.2). */
#include "wire/connection_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/message_times.h"

#define OUTPUT_MOST (256u << 10) /* framed ahead of what the socket has taken */
#define COPY_BLOCK 64u           /* copying a little more than needed, of constant size, is cheaper */

/* --- frames ------------------------------------------------------------------------------------ */

static uint8_t *reserve(struct gp_wire *wire, size_t size)
{
    uint8_t *bytes = gp_output_reserve(&wire->output, size);

    if (wire_unlikely(!bytes))
        wire_out_of_memory(wire);
    return bytes;
}

void wire_put_frame(struct gp_wire *wire, const struct gp_frame *frame, const void *payload)
{
    uint8_t *bytes = reserve(wire, GP_FRAME_HEADER_BYTES + frame->length);

    if (!bytes)
        return;
    gp_frame_write(bytes, *frame);
    if (payload)
        memcpy(bytes + GP_FRAME_HEADER_BYTES, payload, frame->length);
    gp_output_commit(&wire->output, GP_FRAME_HEADER_BYTES + frame->length);
}

void wire_put_u32(struct gp_wire *wire, enum gp_frame_type type, uint32_t stream_id, uint32_t value)
{
    uint8_t payload[4];

    gp_put_u32(payload, value);
    wire_put_frame(wire, &(struct gp_frame){.type = type, .stream_id = stream_id, .length = sizeof payload},
                   payload);
}

static size_t put_setting(uint8_t *at, enum gp_setting setting, uint32_t value)
{
    at[0] = 0;
    at[1] = (uint8_t)setting;
    gp_put_u32(at + 2, value);
    return 6;
}

/* RFC 9113, 3.4. The connection's window begins at 65,535 and is opened by a WINDOW_UPDATE; a smaller one is
 * reached by giving nothing back at first. */
void wire_put_preface(struct gp_wire *wire, uint32_t max_header_bytes)
{
    uint8_t settings[4 * 6], *bytes = reserve(wire, GP_FRAME_PREFACE_BYTES);
    size_t size = 0;

    if (!bytes)
        return;
    memcpy(bytes, gp_frame_preface, GP_FRAME_PREFACE_BYTES);
    gp_output_commit(&wire->output, GP_FRAME_PREFACE_BYTES);
    size += put_setting(settings + size, GP_SETTING_ENABLE_PUSH, 0);
    size += put_setting(settings + size, GP_SETTING_INITIAL_WINDOW_SIZE, wire->stream_window);
    size += put_setting(settings + size, GP_SETTING_MAX_FRAME_SIZE, WIRE_MAX_FRAME);
    size += put_setting(settings + size, GP_SETTING_MAX_HEADER_LIST_SIZE, max_header_bytes);
    wire_put_frame(wire, &(struct gp_frame){.type = GP_FRAME_SETTINGS, .length = (uint32_t)size}, settings);
    if (wire->connection_window > GP_FRAME_DEFAULT_WINDOW) {
        wire_put_u32(wire, GP_FRAME_WINDOW_UPDATE, 0, wire->connection_window - GP_FRAME_DEFAULT_WINDOW);
        wire->granted = wire->connection_window;
    }
}

/* One block, of as many frames as the peer's MAX_FRAME_SIZE makes it, with nothing in between. */
static void put_block(struct gp_wire *wire, uint32_t stream_id, const uint8_t *block, size_t size)
{
    enum gp_frame_type type = GP_FRAME_HEADERS;

    do {
        size_t part = size < wire->peer.max_frame_size ? size : wire->peer.max_frame_size;
        wire_put_frame(wire,
                       &(struct gp_frame){.type = (uint8_t)type,
                                          .stream_id = stream_id,
                                          .length = (uint32_t)part,
                                          .flags = part == size ? GP_FLAG_END_HEADERS : 0},
                       block);
        block += part;
        size -= part;
        type = GP_FRAME_CONTINUATION;
    } while (size > 0 && !wire->over);
}

void wire_half_close(struct gp_wire *wire, struct gp_call *call)
{
    call->flags |= GP_CALL_HALF_CLOSED;
    wire_put_frame(
        wire,
        &(struct gp_frame){.type = GP_FRAME_DATA, .stream_id = call->stream_id, .flags = GP_FLAG_END_STREAM},
        NULL);
}

/* --- how a call begins ------------------------------------------------------------------------- */

/* Once the block is at rest, all calls begin with the same bytes, if their first message goes along. */
static void prepare_start(struct gp_wire *wire, const uint8_t *block, size_t size)
{
    const struct gp_calls *calls = wire->calls;
    const struct gp_call fresh = {0};
    struct wire_start *start = &wire->start;
    size_t data = GP_FRAME_HEADER_BYTES + size;
    size_t bytes = data + GP_FRAME_HEADER_BYTES + calls->framed_bytes;

    if (size > GP_FRAME_DEFAULT_SIZE || calls->framed_bytes > WIRE_SMALL_MESSAGE ||
        !gp_call_has_more(calls, &fresh))
        return;
    if (start->capacity < bytes + COPY_BLOCK) {
        free(start->frames);
        start->capacity = (uint32_t)(bytes + COPY_BLOCK);
        start->frames = calloc(1, start->capacity);
    }
    if (!start->frames) { /* then frames are made one by one */
        start->capacity = 0;
        return;
    }
    start->closes = gp_call_is_last(calls, &fresh);
    gp_frame_write(
        start->frames,
        (struct gp_frame){.type = GP_FRAME_HEADERS, .flags = GP_FLAG_END_HEADERS, .length = (uint32_t)size});
    memcpy(start->frames + GP_FRAME_HEADER_BYTES, block, size);
    gp_frame_write(start->frames + data, (struct gp_frame){.type = GP_FRAME_DATA,
                                                           .flags = start->closes ? GP_FLAG_END_STREAM : 0,
                                                           .length = calls->framed_bytes});
    memcpy(start->frames + data + GP_FRAME_HEADER_BYTES, calls->framed, calls->framed_bytes);
    start->data = (uint32_t)data;
    start->bytes = (uint32_t)bytes;
    start->ready = true;
}

static inline void copy_small(uint8_t *to, const uint8_t *from, size_t size)
{
    memcpy(to, from, COPY_BLOCK);
    if (size > COPY_BLOCK)
        memcpy(to + COPY_BLOCK, from + COPY_BLOCK, size - COPY_BLOCK);
}

static void count_sent(struct gp_wire *wire, struct gp_call *call)
{
    call->sent++;
    wire->messages_sent++;
}

/* The way of nearly every call. */
static void start_prepared(struct gp_wire *wire, uint32_t id)
{
    const struct wire_start *start = &wire->start;
    struct gp_call *call = &wire->slab[id];
    uint8_t *bytes = reserve(wire, start->bytes + COPY_BLOCK);

    if (wire_unlikely(!bytes))
        return;
    copy_small(bytes, start->frames, start->bytes);
    gp_put_u32(bytes + 5, call->stream_id);
    gp_put_u32(bytes + start->data + 5, call->stream_id);
    gp_output_commit(&wire->output, start->bytes);
    call->window = -(int32_t)wire->calls->framed_bytes;
    wire->send_window -= wire->calls->framed_bytes;
    count_sent(wire, call);
    if (start->closes)
        call->flags = GP_CALL_HALF_CLOSED;
    else if (gp_call_may_send(wire->calls, call))
        wire_mark_ready(wire, id);
}

static void start_slowly(struct gp_wire *wire, uint32_t id)
{
    uint32_t stream_id = wire->slab[id].stream_id;
    size_t size;
    const uint8_t *block = gp_block_next(wire->block, &size);

    if (!block) {
        wire_out_of_memory(wire);
        return;
    }
    put_block(wire, stream_id, block, size);
    if (wire->over)
        return;
    if (!wire->start.ready && gp_block_at_rest(wire->block))
        prepare_start(wire, block, size);
    if (gp_call_may_send(wire->calls, &wire->slab[id]))
        wire_send_more(wire, id);
}

/* MAX_HEADER_LIST_SIZE is advice (RFC 9113, 6.5.2), and taken: the stream would be of no use. */
static void refuse_head(struct gp_wire *wire, uint32_t id)
{
    wire_note(wire, GP_CLASS_RESOURCE_EXHAUSTED,
              "the request's headers take %u bytes, more than the peer's MAX_HEADER_LIST_SIZE of %u",
              gp_block_list_bytes(wire->block), wire->peer.max_header_list_size);
    gp_calls_finish(wire->calls, id, GP_CLASS_RESOURCE_EXHAUSTED, false, wire->now_ns);
}

void wire_start_call(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];
    uint32_t framed_bytes = wire->calls->framed_bytes;

    *call = (struct gp_call){
        .sent_ns = wire->now_ns, .stream_id = wire->next_stream, .owner = wire->index, .state = GP_CALL_OPEN};
    if (wire_unlikely(wire->head_refused)) {
        refuse_head(wire, id);
        return;
    }
    if (wire_unlikely(gp_roster_insert(&wire->roster, id) < 0)) {
        gp_calls_finish(wire->calls, id, GP_CLASS_TRANSPORT, true, wire->now_ns);
        wire_out_of_memory(wire);
        return;
    }
    wire->next_stream += 2;
    wire->in_flight++;
    if (wire->calls->times)
        gp_message_times_begin(wire->calls->times, id, wire->now_ns);
    if (wire_unlikely(wire->next_stream > GP_FRAME_MAX_ID))
        wire_update_limit(wire);
    if (wire->start.ready && wire->send_window >= framed_bytes &&
        wire->peer.initial_window_size >= framed_bytes)
        start_prepared(wire, id);
    else
        start_slowly(wire, id);
}

/* --- how it goes on ---------------------------------------------------------------------------- */

static bool stands_ready(const void *owner, struct gp_queue_entry entry)
{
    const struct gp_wire *wire = owner;
    const struct gp_call *call = &wire->slab[entry.call];

    return call->state == GP_CALL_OPEN && call->owner == wire->index && call->stream_id == entry.ticket &&
           call->flags & GP_CALL_READY;
}

void wire_mark_ready(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];

    if (call->flags & GP_CALL_READY)
        return;
    call->flags |= GP_CALL_READY;
    call->flags &= (uint8_t)~GP_CALL_BLOCKED;
    if (gp_queue_push(&wire->ready, (struct gp_queue_entry){id, call->stream_id}, stands_ready, wire) < 0)
        wire_out_of_memory(wire);
}

/* How much of the message may go into the next frame. A window may be negative (RFC 9113, 6.9.2). */
static uint32_t next_part(const struct gp_wire *wire, const struct gp_call *call)
{
    int64_t part = wire->calls->framed_bytes - call->offset;
    int64_t window = (int64_t)wire->peer.initial_window_size + call->window;

    part = part < wire->peer.max_frame_size ? part : wire->peer.max_frame_size;
    part = part < wire->send_window ? part : wire->send_window;
    part = part < window ? part : window;
    return part > 0 ? (uint32_t)part : 0;
}

static bool put_data(struct gp_wire *wire, const struct gp_call *call, uint32_t part, bool end_stream)
{
    const uint8_t *data = wire->calls->framed + call->offset;
    struct gp_frame frame = {.type = GP_FRAME_DATA,
                             .stream_id = call->stream_id,
                             .length = part,
                             .flags = end_stream ? GP_FLAG_END_STREAM : 0};

    if (part <= WIRE_SMALL_MESSAGE) {
        wire_put_frame(wire, &frame, data);
        return !wire->over;
    }
    uint8_t *bytes = reserve(wire, GP_FRAME_HEADER_BYTES);
    if (!bytes)
        return false;
    gp_frame_write(bytes, frame);
    gp_output_commit(&wire->output, GP_FRAME_HEADER_BYTES);
    if (gp_output_share(&wire->output, data, part) < 0)
        wire_out_of_memory(wire);
    return !wire->over;
}

/* A message is out. */
static void after_message(struct gp_wire *wire, uint32_t id, bool end_stream)
{
    struct gp_call *call = &wire->slab[id];

    call->offset = 0;
    count_sent(wire, call);
    if (end_stream)
        call->flags |= GP_CALL_HALF_CLOSED;
    else if (gp_call_has_all(wire->calls, call))
        wire_leave(wire, id, GP_CLASS_OK);
    else if (gp_call_should_close(wire->calls, call))
        wire_half_close(wire, call);
}

/* One frame. */
static void send_part(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];
    uint32_t part = next_part(wire, call);
    bool whole = part == wire->calls->framed_bytes - call->offset;
    bool end_stream = whole && gp_call_is_last(wire->calls, call);

    if (part == 0) {
        call->flags |= GP_CALL_BLOCKED;
        return;
    }
    if (!put_data(wire, call, part, end_stream))
        return;
    call->window -= (int32_t)part;
    wire->send_window -= part;
    call->offset += part;
    if (whole)
        after_message(wire, id, end_stream);
}

/* A small message goes out at once, as long as nobody waits for the connection's window. */
static bool fits_now(const struct gp_wire *wire, const struct gp_call *call)
{
    return call->offset == 0 && wire->calls->framed_bytes <= WIRE_SMALL_MESSAGE && wire->ready.count == 0 &&
           next_part(wire, call) == wire->calls->framed_bytes;
}

/* In ping-pong there is one to be sent for each answer that has come; otherwise one is enough at a time, the
 * others shall have their turn. */
void wire_send_more(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];

    do {
        if (!fits_now(wire, call))
            break;
        send_part(wire, id);
    } while (wire->calls->kind == GP_KIND_BIDI && !wire->over && gp_call_may_send(wire->calls, call));
    if (!wire->over && gp_call_may_send(wire->calls, call))
        wire_mark_ready(wire, id);
}

/* Frame what waits, in turn, as far as the connection's window and the bound on output allow. */
void wire_pump(struct gp_wire *wire)
{
    struct gp_queue_entry entry;

    while (!wire->over && wire->send_window > 0 && wire->output.queued < OUTPUT_MOST &&
           gp_queue_pop(&wire->ready, &entry, stands_ready, wire)) {
        struct gp_call *call = &wire->slab[entry.call];
        call->flags &= (uint8_t)~GP_CALL_READY;
        if (gp_call_may_send(wire->calls, call))
            send_part(wire, entry.call);
        if (!wire->over && !(call->flags & GP_CALL_BLOCKED) && gp_call_may_send(wire->calls, call))
            wire_mark_ready(wire, entry.call); /* behind the others */
    }
}

size_t gp_wire_gather(struct gp_wire *wire, struct iovec *pieces, size_t capacity, uint64_t now_ns)
{
    wire->now_ns = now_ns;
    if (wire->ready.count > 0 && !wire->over) {
        wire_pump(wire);
        wire_settle(wire);
    }
    return gp_output_gather(&wire->output, pieces, capacity);
}

void gp_wire_written(struct gp_wire *wire, size_t bytes)
{
    gp_output_written(&wire->output, bytes);
    if (wire->output.queued == 0)
        wire->replies = 0;
}

bool gp_wire_has_output(const struct gp_wire *wire)
{
    return wire->output.queued > 0 || (!wire->over && wire->ready.count > 0 && wire->send_window > 0);
}
