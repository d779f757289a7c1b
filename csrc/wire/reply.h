/* The header blocks of a mirror's responses, as whole frames. Their two fields that are no others' enter the
 * peer's table with the first response of a connection; from then on a response begins with two bytes and
 * ends with one. Failures are spelled out, and leave the table alone. */
#ifndef GP_WIRE_REPLY_H
#define GP_WIRE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"

#define GP_REPLY_BYTES 192u     /* room for any frame of these */
#define GP_REPLY_TEXT_BYTES 96u /* of grpc-message */

enum gp_reply_state {
    GP_REPLY_OPENING,  /* nothing is in the peer's table */
    GP_REPLY_HALF,     /* the content type is */
    GP_REPLY_AT_REST,  /* frames are the same for ever, but for the stream's id */
    GP_REPLY_NO_TABLE, /* the peer's table is too small: likewise, and longer */
};

struct gp_reply { /* all zero at the beginning */
    enum gp_reply_state state;
    bool resized; /* the peer has yet to be told that its table is smaller */
};

/* The peer's SETTINGS_HEADER_TABLE_SIZE. */
void gp_reply_table_size(struct gp_reply *reply, uint32_t bytes);

static inline bool gp_reply_at_rest(const struct gp_reply *reply)
{
    return reply->state >= GP_REPLY_AT_REST && !reply->resized;
}

/* Write a frame and return its size. Each is sent: in this order, none left out. */
size_t gp_reply_headers(struct gp_reply *reply, uint8_t *out, uint32_t stream_id);
size_t gp_reply_ok(struct gp_reply *reply, uint8_t *out, uint32_t stream_id); /* trailers, after headers */

/* Trailers of a failed call; with `alone` they are all of the response. The text is plain ASCII without %. */
size_t gp_reply_failure(struct gp_reply *reply, uint8_t *out, uint32_t stream_id, bool alone,
                        enum gp_class class, const char *text);

#endif
