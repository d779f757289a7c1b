/* The header blocks of responses: recognised by their bytes, or else inflated by nghttp2.
 *
 * A block that consists only of indexed fields and of literals that are not added to the table leaves the
 * decoder as it was, and means the same when it comes again with the table unchanged: a few of them are
 * remembered. */
#ifndef GP_WIRE_FIELDS_H
#define GP_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"

struct gp_error;
struct gp_decoder;

struct gp_fields {
    uint16_t http_status;   /* 0: the block had none, as trailers have not */
    int8_t grpc_status;     /* -1: none; else an enum gp_class from 0 to 16 */
    bool grpc_content_type; /* application/grpc, alone or with a +sub-type or parameters */
    bool has_content_type;
    bool gzip;             /* grpc-encoding: gzip */
    bool unknown_encoding; /* grpc-encoding is neither identity nor gzip */
    bool malformed;        /* breaks RFC 9113, 8.2 or 8.3: pseudo-field after a field, unknown or repeated
                              pseudo-field, upper case, connection-specific field. That trailers have no
                              pseudo-field is for the caller to see: http_status is then 0 */
};

enum gp_decoded {
    GP_DECODED,
    GP_DECODED_TOO_LARGE, /* above max_list_bytes; the decoder goes on, the stream fails */
    GP_DECODED_BROKEN,    /* COMPRESSION_ERROR: the connection is done for */
};

/* max_list_bytes: uncompressed size above which a block is refused. */
int gp_decoder_create(struct gp_decoder **decoder, uint32_t max_list_bytes, struct gp_error *err);

/* One whole header block (HEADERS and its CONTINUATIONs together). */
enum gp_decoded gp_decoder_read(struct gp_decoder *decoder, const uint8_t *block, size_t size,
                                struct gp_fields *fields);

/* grpc-message of the last block read that had one, decoded; "" when none did. For causes, not on the path of
 * OK calls. */
const char *gp_decoder_message(const struct gp_decoder *decoder);

uint64_t gp_decoder_inflated(const struct gp_decoder *decoder); /* blocks that were not recognised */
void gp_decoder_destroy(struct gp_decoder *decoder);

#endif
