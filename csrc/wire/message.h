/* Length-prefixed messages (gRPC over HTTP/2) in the payloads of DATA frames: found and counted in place,
 * whichever way frames cut them, never gathered. A compressed one is inflated (gzip, by zlib) only to see
 * that it is sound and how large it is. */
#ifndef GP_WIRE_MESSAGE_H
#define GP_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_MESSAGE_PREFIX_BYTES 5u

enum gp_message_fault {
    GP_MESSAGE_FINE,
    GP_MESSAGE_TOO_LARGE, /* RESOURCE_EXHAUSTED */
    GP_MESSAGE_BAD_FLAG,  /* the compressed flag is neither 0 nor 1, or is 1 without an encoding: INTERNAL */
    GP_MESSAGE_BAD_GZIP,  /* INTERNAL */
};

/* Where in the stream of messages a call is. Small, for there is one for each call in flight. */
struct gp_message_scan {
    uint32_t left;        /* bytes of the current message's body still to come */
    uint8_t prefix_bytes; /* of the current prefix, have come */
    uint8_t prefix[GP_MESSAGE_PREFIX_BYTES];
    void *gzip; /* inflation under way; NULL as a rule */
};

/* Go on with the next bytes. Returns how many messages were completed by them. `gzip_allowed` is what
 * grpc-encoding said. On a fault (`*fault` is not FINE) the scan is at its end. */
uint32_t gp_message_scan(struct gp_message_scan *scan, const uint8_t *data, size_t size, uint32_t max_bytes,
                         bool gzip_allowed, enum gp_message_fault *fault);

/* Whether the stream may end here: not inside a message. */
bool gp_message_between(const struct gp_message_scan *scan);

void gp_message_scan_fini(struct gp_message_scan *scan);

/* A message with its prefix, compressed when `gzip`, ready to be sent many times: malloc'ed, NULL when out of
 * memory. */
uint8_t *gp_message_frame(const void *message, size_t size, bool gzip, size_t *framed_size);

#endif
