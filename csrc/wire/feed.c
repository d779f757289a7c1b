/* feed: messages that the caller gives one by one to a stream that sends none of its own. They are small and
 * go out at once or not at all, so that nothing of them has to be kept here. */
#include "wire/connection_state.h"

#include <assert.h>
#include <string.h>

/* All of it may go out now (RFC 9113, 5.2); nobody may be waiting for the connection's window. */
bool gp_wire_feeds(const struct gp_wire *wire, uint64_t id, uint32_t size)
{
    const struct gp_call *call = &wire->slab[id];
    uint32_t bytes = GP_MESSAGE_PREFIX_BYTES + size;

    assert(id < wire->calls->capacity && size <= GP_WIRE_FEED_BYTES);
    return !wire->over && call->state == GP_CALL_OPEN && call->owner == wire->index &&
           !(call->flags & (GP_CALL_HALF_CLOSED | GP_CALL_LEAVING)) && wire->ready.count == 0 &&
           wire->send_window >= bytes && (int64_t)wire->peer.initial_window_size + call->window >= bytes;
}

bool gp_wire_feed(struct gp_wire *wire, uint64_t id, const void *message, uint32_t size)
{
    struct gp_call *call = &wire->slab[id];
    uint32_t framed = GP_MESSAGE_PREFIX_BYTES + size;
    uint8_t *bytes;

    if (!gp_wire_feeds(wire, id, size))
        return false;
    bytes = gp_output_reserve(&wire->output, GP_FRAME_HEADER_BYTES + framed);
    if (!bytes)
        return false;
    gp_frame_write(bytes,
                   (struct gp_frame){.type = GP_FRAME_DATA, .stream_id = call->stream_id, .length = framed});
    bytes += GP_FRAME_HEADER_BYTES;
    bytes[0] = 0; /* not compressed */
    gp_put_u32(bytes + 1, size);
    memcpy(bytes + GP_MESSAGE_PREFIX_BYTES, message, size);
    gp_output_commit(&wire->output, GP_FRAME_HEADER_BYTES + framed);
    call->window -= (int32_t)framed;
    wire->send_window -= framed;
    call->sent++;
    wire->messages_sent++;
    wire->payload_sent += size;
    return true;
}
