/* The inside of a responder, shared by its files only: responder.c cuts frames out of bytes,
 * responder_control.c minds the connection, responder_calls.c knows what calls are, responder_unary.c takes
 * the shortest way for the most common one, responder_send.c makes the bytes that go out. */
#ifndef GP_WIRE_RESPONDER_PARTS_H
#define GP_WIRE_RESPONDER_PARTS_H

#include "base/bytes.h"
#include "wire/frame.h"
#include "wire/reply.h"
#include "wire/responder.h"
#include "wire/routes.h"
#include "wire/streams.h"

#define GP_RESPONDER_STREAMS (1u << 20) /* MAX_CONCURRENT_STREAMS */
#define GP_RESPONDER_STREAM_WINDOW (4u << 20)
#define GP_RESPONDER_WINDOW (16u << 20) /* of the connection */
#define GP_RESPONDER_FRAME_BYTES (1u << 20)
#define GP_RESPONDER_BLOCK_BYTES (64u << 10) /* MAX_HEADER_LIST_SIZE, and of a compressed block */

#define GP_RESPONDER_PIECES 64u
#define GP_RESPONDER_SMALL_BYTES 1024u /* an answer that is copied whole; a request that is compared */

enum gp_responder_phase { GP_RESPONDER_PREFACE, GP_RESPONDER_GREETED, GP_RESPONDER_OPEN, GP_RESPONDER_OVER };

/* A run of bytes that goes out: of `out`, or zeros that nobody owns. */
struct gp_responder_piece {
    uint32_t size;
    bool zeros;
};

/* A whole answer to a unary call, once the header blocks have come to rest, and the request it belongs to. */
struct gp_responder_answer {
    bool ready;
    int32_t response_size;
    uint32_t size, data_at, trailers_at; /* where its second and third frame begin */
    uint32_t data_bytes;
    size_t request_size;
    uint8_t bytes[GP_RESPONDER_SMALL_BYTES + 256];
    uint8_t request[GP_RESPONDER_SMALL_BYTES];
};

struct gp_responder {
    struct gp_responder_counts *counts;
    struct gp_routes *routes;
    struct gp_reply reply;
    struct gp_streams streams;
    struct gp_settings peer;
    enum gp_responder_phase phase;
    uint32_t last_id;     /* the highest that the peer has opened */
    uint32_t received;    /* since we last allowed the peer more, on the connection */
    int32_t send_window;  /* what the peer allows on the connection */
    uint32_t first, last; /* streams with something to send */

    uint32_t preface_bytes; /* of it, have come */
    struct gp_bytes part;   /* of a frame that is not whole yet */
    struct gp_bytes block;  /* of headers that are to be continued */
    uint32_t block_id;      /* 0: none are */
    bool block_ends;
    struct {
        bool open, ends;
        uint32_t stream_id, left, padding;
    } data; /* the DATA frame that is being read */

    struct gp_bytes out;
    struct gp_responder_piece pieces[GP_RESPONDER_PIECES]; /* a ring */
    uint32_t piece_first, piece_count;
    size_t pending; /* bytes of all pieces */
    struct gp_responder_answer answer;
};

/* --- responder.c */

/* The connection is over: GOAWAY goes out, nothing more comes in. */
void gp_responder_fail(struct gp_responder *responder, enum gp_h2_error error, const char *text);

/* --- responder_control.c */

/* Any frame but DATA, whole, and of a form that its type may have. */
void gp_responder_frame(struct gp_responder *responder, struct gp_frame frame, const uint8_t *payload);

/* --- responder_calls.c */

void gp_responder_headers(struct gp_responder *responder, uint32_t id, bool ends, const uint8_t *block,
                          size_t size);

/* A DATA frame: its beginning, its bytes piece by piece, its end. */
void gp_responder_data_begin(struct gp_responder *responder, uint32_t id, uint32_t length);
void gp_responder_data(struct gp_responder *responder, uint32_t id, const uint8_t *data, size_t size);
void gp_responder_data_end(struct gp_responder *responder, uint32_t id, bool ends);

void gp_responder_reset(struct gp_responder *responder, uint32_t id); /* by the peer */

/* A call has ended, either way. */
void gp_responder_close(struct gp_responder *responder, struct gp_stream *stream);

/* --- responder_unary.c */

/* Answer a unary call that is in the bytes as a whole, HEADERS and DATA one after the other, if it is of the
 * kind already known. Returns where it ends; NULL: take the long way. */
const uint8_t *gp_responder_at_once(struct gp_responder *responder, const uint8_t *at, const uint8_t *end);

/* --- responder_send.c */

/* Room for bytes that go out after all others; NULL when out of memory, and then it is over. */
uint8_t *gp_responder_room(struct gp_responder *responder, size_t size);
void gp_responder_add(struct gp_responder *responder, size_t size); /* of the room, were written */

void gp_responder_put_u32(struct gp_responder *responder, enum gp_frame_type type, uint32_t id,
                          uint32_t value); /* RST_STREAM, WINDOW_UPDATE */
void gp_responder_queue(struct gp_responder *responder, struct gp_stream *stream); /* has something to send */
void gp_responder_trailers(struct gp_responder *responder, struct gp_stream *stream);

/* Allow the peer more, on the connection or on a stream, when half of what it may send is used up. */
void gp_responder_allow(struct gp_responder *responder, struct gp_stream *stream);

static inline int64_t gp_responder_window(const struct gp_responder *responder,
                                          const struct gp_stream *stream)
{
    return (int64_t)responder->peer.initial_window_size + stream->credit;
}

static inline bool gp_responder_idle(const struct gp_responder *responder, uint32_t id)
{
    return id % 2 == 0 || id > responder->last_id;
}

#endif
