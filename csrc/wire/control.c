/* control: frames that are about the connection: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, PRIORITY. Section
 * numbers are those of RFC 9113. */
#include "wire/connection_state.h"

#define REPLIES_MOST 1000u /* owed at a time: a peer that asks for more without reading floods us */

bool wire_is_idle(const struct gp_wire *wire, uint32_t stream_id)
{
    return stream_id % 2 == 0 || stream_id >= wire->next_stream;
}

/* True: another frame may be owed to the peer. */
static bool may_reply(struct gp_wire *wire)
{
    if (++wire->replies <= REPLIES_MOST)
        return true;
    wire_fail(wire, GP_H2_ENHANCE_YOUR_CALM, "the peer asked for over %u replies without reading them",
              REPLIES_MOST);
    return false;
}

/* --- SETTINGS (6.5) ---------------------------------------------------------------------------- */

/* Whether some stream's window would leave its range by the new initial size (6.9.2). */
static bool overflows(const struct gp_wire *wire, uint32_t initial)
{
    uint32_t id, cursor = 0;

    while ((id = gp_roster_next(&wire->roster, &cursor)) != GP_CALLS_NONE)
        if ((int64_t)initial + wire->slab[id].window > GP_FRAME_MAX_WINDOW)
            return true;
    return false;
}

/* Windows are kept relative to INITIAL_WINDOW_SIZE, so a change of it has only to wake those it frees. */
static void wake_blocked(struct gp_wire *wire)
{
    uint32_t id, cursor = 0;

    while (!wire->over && (id = gp_roster_next(&wire->roster, &cursor)) != GP_CALLS_NONE) {
        const struct gp_call *call = &wire->slab[id];
        if (call->flags & GP_CALL_BLOCKED && (int64_t)wire->peer.initial_window_size + call->window > 0)
            wire_mark_ready(wire, id);
    }
}

static void apply(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    const struct gp_settings old = wire->peer;
    enum gp_h2_error error = gp_settings_apply(&wire->peer, payload, frame->length);

    if (error == GP_H2_NO_ERROR && wire->peer.enable_push) /* a server must not (6.5.2) */
        error = GP_H2_PROTOCOL_ERROR;
    if (error == GP_H2_NO_ERROR && wire->peer.initial_window_size > old.initial_window_size &&
        overflows(wire, wire->peer.initial_window_size))
        error = GP_H2_FLOW_CONTROL_ERROR;
    if (error != GP_H2_NO_ERROR) {
        wire_fail(wire, error, "the peer's SETTINGS are not valid (%s)", gp_h2_error_name(error));
        return;
    }
    if (wire->peer.header_table_size != old.header_table_size) {
        gp_block_table_size(wire->block, wire->peer.header_table_size);
        wire->head.ready = wire->head.ready && gp_block_at_rest(wire->block);
    }
    wire->head_refused = gp_block_list_bytes(wire->block) > wire->peer.max_header_list_size;
    if (wire->peer.initial_window_size > old.initial_window_size)
        wake_blocked(wire);
}

void wire_on_settings(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    if (frame->stream_id != 0) {
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "SETTINGS on a stream");
        return;
    }
    if (frame->flags & GP_FLAG_ACK) {
        if (frame->length != 0)
            wire_fail(wire, GP_H2_FRAME_SIZE_ERROR, "SETTINGS ACK with a payload");
        return;
    }
    apply(wire, frame, payload);
    if (wire->over || !may_reply(wire))
        return;
    wire_put_frame(wire, &(struct gp_frame){.type = GP_FRAME_SETTINGS, .flags = GP_FLAG_ACK}, NULL);
    wire->greeted = true;
    wire_update_limit(wire);
}

/* --- PING (6.7) -------------------------------------------------------------------------------- */

void wire_on_ping(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    if (frame->length != 8) {
        wire_fail(wire, GP_H2_FRAME_SIZE_ERROR, "PING of %u bytes instead of 8", frame->length);
    } else if (frame->stream_id != 0) {
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "PING on a stream");
    } else if (frame->flags & GP_FLAG_ACK) {
        wire->pongs++;
    } else if (may_reply(wire)) {
        wire_put_frame(wire, &(struct gp_frame){.type = GP_FRAME_PING, .flags = GP_FLAG_ACK, .length = 8},
                       payload);
    }
}

/* --- GOAWAY (6.8) ------------------------------------------------------------------------------ */

/* Debug data as text, for a cause. */
static void copy_text(char *text, size_t capacity, const uint8_t *data, size_t size)
{
    size_t length = size < capacity ? size : capacity - 1;

    for (size_t i = 0; i < length; i++)
        text[i] = data[i] >= ' ' && data[i] <= '~' ? (char)data[i] : '?';
    text[length] = '\0';
}

/* Calls above `last` were not and will not be begun by the peer: they may be submitted elsewhere. */
static uint32_t refuse_above(struct gp_wire *wire, uint32_t last)
{
    uint32_t id, cursor = 0, count = 0;

    while ((id = gp_roster_next(&wire->roster, &cursor)) != GP_CALLS_NONE) {
        const struct gp_call *call = &wire->slab[id];
        bool leaving = call->flags & GP_CALL_LEAVING;
        if (call->stream_id <= last)
            continue;
        wire_close_stream(wire, id, leaving ? (enum gp_class)call->class : GP_CLASS_TRANSPORT, !leaving);
        count++;
    }
    return count;
}

/* The last id only ever falls; a peer that raises it cannot bring back what has ended. */
void wire_on_goaway(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    uint32_t last, code;
    char text[128];

    if (frame->stream_id != 0 || frame->length < 8) {
        wire_fail(wire, frame->stream_id != 0 ? GP_H2_PROTOCOL_ERROR : GP_H2_FRAME_SIZE_ERROR,
                  frame->stream_id != 0 ? "GOAWAY on a stream" : "GOAWAY of fewer than 8 bytes");
        return;
    }
    last = gp_get_u32(payload) & GP_FRAME_MAX_ID;
    code = gp_get_u32(payload + 4);
    copy_text(text, sizeof text, payload + 8, frame->length - 8);
    wire_note(wire, GP_CLASS_TRANSPORT, "the peer sent GOAWAY (%s)%s%s", gp_h2_error_name(code),
              text[0] ? ": " : "", text);
    wire->goaway = true;
    while (refuse_above(wire, last) > 0)
        continue;
    wire_update_limit(wire);
}

/* --- WINDOW_UPDATE (6.9) ----------------------------------------------------------------------- */

static void widen_connection(struct gp_wire *wire, uint32_t increment)
{
    if (increment == 0)
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "WINDOW_UPDATE by 0 on the connection");
    else if (wire->send_window + increment > GP_FRAME_MAX_WINDOW)
        wire_fail(wire, GP_H2_FLOW_CONTROL_ERROR, "the connection's window was raised above 2^31-1");
    else
        wire->send_window += increment;
}

static void widen_stream(struct gp_wire *wire, uint32_t id, uint32_t increment)
{
    struct gp_call *call = &wire->slab[id];
    int64_t window = (int64_t)wire->peer.initial_window_size + call->window + increment;

    if (call->flags & GP_CALL_LEAVING)
        return;
    if (increment == 0) {
        wire_note(wire, GP_CLASS_INTERNAL, "WINDOW_UPDATE by 0 on a stream");
        wire_reset_stream(wire, id, GP_CLASS_INTERNAL, GP_H2_PROTOCOL_ERROR);
    } else if (window > GP_FRAME_MAX_WINDOW) {
        wire_note(wire, GP_CLASS_INTERNAL, "a stream's window was raised above 2^31-1");
        wire_reset_stream(wire, id, GP_CLASS_INTERNAL, GP_H2_FLOW_CONTROL_ERROR);
    } else {
        call->window += (int32_t)increment;
        if (call->flags & GP_CALL_BLOCKED && window > 0)
            wire_mark_ready(wire, id);
    }
}

void wire_on_window_update(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload)
{
    uint32_t increment, id;

    if (frame->length != 4) {
        wire_fail(wire, GP_H2_FRAME_SIZE_ERROR, "WINDOW_UPDATE of %u bytes instead of 4", frame->length);
        return;
    }
    increment = gp_get_u32(payload) & GP_FRAME_MAX_WINDOW;
    if (frame->stream_id == 0) {
        widen_connection(wire, increment);
    } else if (wire_is_idle(wire, frame->stream_id)) {
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "WINDOW_UPDATE on stream %u, which is idle", frame->stream_id);
    } else {
        id = gp_roster_find(&wire->roster, frame->stream_id);
        if (id != GP_CALLS_NONE) /* else it is closed, and the frame late (5.1) */
            widen_stream(wire, id, increment);
    }
}

/* --- PRIORITY (6.3): means nothing any more, but has its rules ------------------------------------ */

void wire_on_priority(struct gp_wire *wire, const struct gp_frame *frame)
{
    uint32_t id;

    if (frame->stream_id == 0) {
        wire_fail(wire, GP_H2_PROTOCOL_ERROR, "PRIORITY on the connection");
        return;
    }
    id = gp_roster_find(&wire->roster, frame->stream_id);
    if (frame->length == 5 || id == GP_CALLS_NONE || wire->slab[id].flags & GP_CALL_LEAVING)
        return;
    wire_note(wire, GP_CLASS_INTERNAL, "PRIORITY of %u bytes instead of 5", frame->length);
    wire_reset_stream(wire, id, GP_CLASS_INTERNAL, GP_H2_FRAME_SIZE_ERROR);
}
