/* send: from calls to bytes. How a call begins, which of those that have something to send goes next, and the
 * frames themselves. Only DATA is held back by flow control (RFC 9113, 5.2). */
#include "wire/connection_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/message_times.h"

#define OUTPUT_MOST (256u << 10)  /* framed ahead of what the socket has taken */
#define COPY_BLOCK GP_CALLS_SLACK /* copying a little more than needed, of constant size, is cheaper */

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

/* Once the block is at rest, all calls begin with the same frame. */
static void prepare_head(struct gp_wire *wire, const uint8_t *block, size_t size)
{
    struct wire_head *head = &wire->head;

    if (size > GP_FRAME_DEFAULT_SIZE)
        return;
    head->bytes = (uint32_t)(GP_FRAME_HEADER_BYTES + size);
    if (head->capacity < head->bytes) {
        free(head->frame);
        head->frame = calloc(1, head->bytes + COPY_BLOCK);
        head->capacity = head->frame ? head->bytes : 0;
    }
    if (!head->frame) /* then frames are made one by one */
        return;
    gp_frame_write(
        head->frame,
        (struct gp_frame){.type = GP_FRAME_HEADERS, .flags = GP_FLAG_END_HEADERS, .length = (uint32_t)size});
    memcpy(head->frame + GP_FRAME_HEADER_BYTES, block, size);
    head->ready = true;
}

/* Copy a prepared frame and write the stream's id into it. Returns the copy; NULL when out of memory. In
 * place, for as a function of its own it is a tenth of what a call costs. */
__attribute__((always_inline)) static inline uint8_t *put_prepared(struct gp_wire *wire, const uint8_t *frame,
                                                                   size_t size, uint32_t stream_id)
{
    uint8_t *bytes = reserve(wire, size + COPY_BLOCK);

    if (wire_unlikely(!bytes))
        return NULL;
    memcpy(bytes, frame, COPY_BLOCK);
    if (size > COPY_BLOCK)
        memcpy(bytes + COPY_BLOCK, frame + COPY_BLOCK, size - COPY_BLOCK);
    gp_put_u32(bytes + 5, stream_id);
    gp_output_commit(&wire->output, size);
    return bytes;
}

static void make_head(struct gp_wire *wire, uint32_t stream_id)
{
    size_t size;
    const uint8_t *block = gp_block_next(wire->block, &size);

    if (!block) {
        wire_out_of_memory(wire);
        return;
    }
    put_block(wire, stream_id, block, size);
    if (gp_block_at_rest(wire->block))
        prepare_head(wire, block, size);
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
    if (wire->head.ready)
        put_prepared(wire, wire->head.frame, wire->head.bytes, call->stream_id);
    else
        make_head(wire, call->stream_id);
    if (!wire->over && gp_call_may_send(wire->calls, call))
        wire_send_more(wire, id);
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
static uint32_t next_part(const struct gp_wire *wire, const struct gp_call *call,
                          const struct gp_calls_message *message)
{
    int64_t part = message->framed_bytes - call->offset;
    int64_t window = (int64_t)wire->peer.initial_window_size + call->window;

    part = part < wire->peer.max_frame_size ? part : wire->peer.max_frame_size;
    part = part < wire->send_window ? part : wire->send_window;
    part = part < window ? part : window;
    return part > 0 ? (uint32_t)part : 0;
}

static bool put_part(struct gp_wire *wire, const struct gp_call *call, const uint8_t *data, uint32_t part,
                     bool end_stream)
{
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

/* A message is out. It had END_STREAM if it could know itself to be the last. */
static void after_message(struct gp_wire *wire, uint32_t id, uint32_t bytes, bool end_stream)
{
    struct gp_call *call = &wire->slab[id];

    call->offset = 0;
    call->sent++;
    wire->messages_sent++;
    wire->payload_sent += bytes;
    if (end_stream)
        call->flags |= GP_CALL_HALF_CLOSED;
    else if (wire->calls->kind == GP_KIND_BIDI_FREE && gp_call_has_all(wire->calls, call))
        wire_leave(wire, id, GP_CLASS_OK);
}

/* One frame. */
static void send_part(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];
    const struct gp_calls_message *message = gp_calls_message(wire->calls, call);
    uint32_t part = next_part(wire, call, message);
    bool whole = part == message->framed_bytes - call->offset;
    bool end_stream = whole && gp_call_is_last(wire->calls, call);

    if (part == 0) {
        call->flags |= GP_CALL_BLOCKED;
        return;
    }
    if (!put_part(wire, call, message->framed + call->offset, part, end_stream))
        return;
    call->window -= (int32_t)part;
    wire->send_window -= part;
    call->offset += part;
    if (whole)
        after_message(wire, id, message->bytes, end_stream);
}

/* Whether a message can go out at once, by the frame that is prepared; nobody may be waiting for the
 * connection's window. */
static bool fits_now(const struct gp_wire *wire, const struct gp_call *call, uint32_t bytes)
{

    return bytes <= WIRE_SMALL_MESSAGE && call->offset == 0 && wire->ready.count == 0 &&
           wire->send_window >= bytes && (int64_t)wire->peer.initial_window_size + call->window >= bytes;
}

static void send_prepared(struct gp_wire *wire, uint32_t id, const struct gp_calls_message *message)
{
    struct gp_call *call = &wire->slab[id];
    uint32_t bytes = message->framed_bytes;
    bool end_stream = gp_call_is_last(wire->calls, call);
    uint8_t *frame = put_prepared(wire, message->frame, GP_FRAME_HEADER_BYTES + bytes, call->stream_id);

    if (wire_unlikely(!frame))
        return;
    frame[4] = end_stream ? GP_FLAG_END_STREAM : 0;
    call->window -= (int32_t)bytes;
    wire->send_window -= bytes;
    after_message(wire, id, message->bytes, end_stream);
}

/* In ping-pong there is one to be sent for each answer that has come; otherwise one is enough at a time, the
 * others shall have their turn. */
void wire_send_more(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];
    bool more;

    do {
        const struct gp_calls_message *message = gp_calls_message(wire->calls, call);

        if (!fits_now(wire, call, message->framed_bytes)) {
            wire_mark_ready(wire, id);
            return;
        }
        send_prepared(wire, id, message);
        more = !wire->over && gp_call_may_send(wire->calls, call);
    } while (more && wire->calls->kind == GP_KIND_BIDI);
    if (more)
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
