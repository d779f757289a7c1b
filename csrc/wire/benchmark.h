/* The messages of BenchmarkService as bytes, for those that look at as little of them as they can: what
 * requests ask for, read while they pass by and cut anywhere, and what responses begin with. */
#ifndef GP_WIRE_BENCHMARK_H
#define GP_WIRE_BENCHMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_BENCHMARK_MAX_RESPONSE (INT32_C(1) << 30)
#define GP_BENCHMARK_HEAD_BYTES 32u /* room for a head */

/* Where in a call's length-prefixed SimpleRequests its stream is. All zero at the beginning. */
struct gp_ask {
    uint64_t number;       /* of the varint that is being read */
    uint32_t message_left; /* bytes of the current message still to come */
    uint32_t skip;         /* of these, to be passed over */
    int32_t response_size; /* what the current message, or else the last one, asks for */
    uint8_t prefix_bytes;  /* of the current prefix, have come */
    uint8_t shift, stage;
};

enum gp_asked {
    GP_ASKED_MORE,       /* all bytes are used up */
    GP_ASKED_MESSAGE,    /* one more message is complete; there may be bytes left */
    GP_ASKED_COMPRESSED, /* its compressed flag is set: not looked at. The stream can't be gone on with */
    GP_ASKED_MALFORMED,  /* no SimpleRequest. Likewise */
};

/* Go on with the bytes from `*at` to `end`, at most to the end of a message; `*at` moves. */
enum gp_asked gp_ask_read(struct gp_ask *ask, const uint8_t **at, const uint8_t *end);

/* Whether the stream may end here: not inside a message. */
static inline bool gp_ask_between(const struct gp_ask *ask)
{
    return ask->prefix_bytes == 0;
}

/* All of a length-prefixed SimpleResponse but its `body_bytes` zero bytes of body, which follow; returns its
 * length. A body of 0 bytes is an empty message. */
size_t gp_benchmark_head(int32_t body_bytes, uint8_t head[GP_BENCHMARK_HEAD_BYTES]);

#endif
