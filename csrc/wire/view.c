/* view: what the caller may know of a connection. */
#include "wire/connection_state.h"

bool gp_wire_ready(const struct gp_wire *wire)
{
    return wire->greeted && !wire->over;
}

/* Every queued call will want a stream id, too; they end at 2^31 - 1 (RFC 9113, 5.1.1). */
bool gp_wire_open(const struct gp_wire *wire)
{
    return !wire->over && !wire->goaway && wire->next_stream <= GP_FRAME_MAX_ID &&
           wire->queued <= (GP_FRAME_MAX_ID - wire->next_stream) / 2;
}

uint32_t gp_wire_in_flight(const struct gp_wire *wire)
{
    return wire->in_flight;
}

uint32_t gp_wire_queued(const struct gp_wire *wire)
{
    return wire->queued;
}

uint64_t gp_wire_pongs(const struct gp_wire *wire)
{
    return wire->pongs;
}

void gp_wire_stats(const struct gp_wire *wire, struct gp_wire_stats *stats)
{
    *stats = (struct gp_wire_stats){
        .messages_sent = wire->messages_sent,
        .payload_sent = wire->payload_sent,
        .messages_received = wire->messages_received,
        .bytes_received = wire->bytes_received,
        .refused = wire->refused,
        .inflated_blocks = gp_decoder_inflated(wire->decoder),
    };
}

const struct gp_settings *gp_wire_settings(const struct gp_wire *wire)
{
    return &wire->peer;
}

const char *gp_wire_cause(const struct gp_wire *wire)
{
    return wire->cause.text;
}

enum gp_class gp_wire_cause_class(const struct gp_wire *wire)
{
    return wire->cause.class;
}

size_t gp_wire_output_bytes(const struct gp_wire *wire)
{
    return wire->output.queued;
}
