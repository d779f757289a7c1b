/* What the parts of a connection share: connection.c (its life and its calls' ends; view.c: what is to be
 * seen of it), send.c (from calls to bytes), receive.c (from bytes to frames), control.c (frames that are
 * about the connection), response.c (frames that are about a call). Seen by them alone. */
#ifndef GP_WIRE_CONNECTION_STATE_H
#define GP_WIRE_CONNECTION_STATE_H

#include "base/bytes.h"
#include "wire/answer.h"
#include "wire/block.h"
#include "wire/calls.h"
#include "wire/connection.h"
#include "wire/fields.h"
#include "wire/output.h"
#include "wire/queue.h"
#include "wire/roster.h"

#define WIRE_MAX_FRAME (1u << 20)   /* that we take, as MAX_FRAME_SIZE says */
#define WIRE_MAX_BLOCK (256u << 10) /* of a header block as it comes, or of another frame kept in memory */
#define WIRE_SMALL_MESSAGE 1024u    /* framed ones up to this are copied, larger ones shared */

#define wire_unlikely(condition) __builtin_expect(!!(condition), 0)

/* The HEADERS frame that begins a call, made once the block is at rest. Only the stream's id is missing. */
struct wire_head {
    bool ready;
    uint32_t bytes, capacity;
    uint8_t *frame; /* more may be read behind it */
};

/* A DATA frame whose payload has not come whole yet. */
struct wire_data {
    bool open, end_stream;
    bool pad_length_owed;
    uint32_t stream_id, left, padding;
};

/* A header block of several frames (RFC 9113, 6.10). */
struct wire_open_block {
    uint32_t stream_id; /* 0: none */
    uint32_t continuations;
    bool end_stream;
    struct gp_bytes bytes;
};

/* The answer that the peer gives again and again, if it does. Good as long as the decoder's state is what it
 * was, so that the same bytes mean the same. */
struct wire_habit {
    bool good;
    uint8_t misses;
    uint16_t learn_in, wait; /* answers until the next attempt to learn, and between the last two */
    uint64_t inflated;       /* gp_decoder_inflated when it was learnt */
    struct gp_answer *answer;
};

struct gp_wire {
    struct gp_calls *calls;
    struct gp_call *slab; /* calls->slab */
    uint64_t now_ns;      /* of the call of ours that is running */
    struct gp_roster roster;
    struct gp_output output;
    uint32_t index;
    uint32_t in_flight;
    uint32_t limit; /* streams that may be open now; 0 before the peer's SETTINGS and after its GOAWAY */
    uint32_t next_stream;
    struct wire_head head;
    int64_t send_window, granted; /* what we may send on the connection, and the peer */
    uint32_t stream_window, connection_window, max_message_bytes;
    struct gp_decoder *decoder;
    struct wire_habit habit;

    struct gp_settings peer;
    bool greeted; /* the peer's first SETTINGS have come */
    bool goaway;  /* it takes no more calls */
    bool over;
    bool head_refused; /* the request's header list is longer than the peer takes */
    struct gp_block *block;

    struct gp_queue pending; /* calls that wait for a stream; tickets are counted */
    struct gp_queue ready;   /* calls that have something to send; tickets are stream ids */
    struct gp_queue leaving; /* calls that end with this batch; likewise */
    uint32_t queued, next_ticket;

    struct gp_bytes partial; /* the beginning of a frame */
    struct wire_data data;
    struct wire_open_block open_block;
    uint32_t replies; /* frames owed to the peer's own frames and not yet written */

    uint64_t messages_sent, payload_sent, messages_received, bytes_received, refused, pongs;
    bool noted; /* the cause is one of this batch */
    struct gp_wire_cause cause;
};

/* connection.c */

/* Why the connection is over, or why calls end badly: kept for people, of each class in a batch the first;
 * and while batches have but one class the first of all, for writing text costs more than a call. */
void wire_note(struct gp_wire *wire, enum gp_class class, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The connection is over by the peer's fault or for want of memory: GOAWAY, and every call ends. */
void wire_fail(struct gp_wire *wire, enum gp_h2_error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wire_out_of_memory(struct gp_wire *wire);

void wire_close_stream(struct gp_wire *wire, uint32_t id, enum gp_class class, bool refused); /* no frame */
void wire_reset_stream(struct gp_wire *wire, uint32_t id, enum gp_class class, enum gp_h2_error error);

/* The class is decided and the peer may be about to end the stream itself, which is seen by the end of the
 * batch; then it is reset. */
void wire_leave(struct gp_wire *wire, uint32_t id, enum gp_class class);

/* What a batch of the peer's, or a word of the caller's, leaves to be done:
 * leaving calls, then queued ones. */
void wire_settle(struct gp_wire *wire);

/* Queued calls end as refused when there will be no stream for them; `limit` follows from the rest. */
void wire_update_limit(struct gp_wire *wire);

/* send.c */
void wire_put_preface(struct gp_wire *wire, uint32_t max_header_bytes);
void wire_put_frame(struct gp_wire *wire, const struct gp_frame *frame, const void *payload);
void wire_put_u32(struct gp_wire *wire, enum gp_frame_type type, uint32_t stream_id, uint32_t value);
void wire_start_call(struct gp_wire *wire, uint32_t id);
void wire_send_more(struct gp_wire *wire, uint32_t id); /* what may_send allows: at once, or it gets ready */
void wire_mark_ready(struct gp_wire *wire, uint32_t id);
void wire_half_close(struct gp_wire *wire, struct gp_call *call);
void wire_pump(struct gp_wire *wire);

/* control.c: one whole frame each. */
void wire_on_settings(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);
void wire_on_ping(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);
void wire_on_goaway(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);
void wire_on_window_update(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);
void wire_on_priority(struct gp_wire *wire, const struct gp_frame *frame);
bool wire_is_idle(const struct gp_wire *wire, uint32_t stream_id); /* RFC 9113, 5.1: never used, by anyone */

/* response.c */
void wire_on_headers(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);
void wire_on_continuation(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);
void wire_on_reset(struct gp_wire *wire, const struct gp_frame *frame, const uint8_t *payload);

/* The head of a DATA frame: flow control. *id is the call it is for, GP_CALLS_NONE when its payload means
 * nothing any more. False when the connection is over. */
bool wire_on_data_head(struct gp_wire *wire, const struct gp_frame *frame, uint32_t *id);
void wire_on_data(struct gp_wire *wire, uint32_t id, const uint8_t *data, size_t size);
void wire_on_data_end(struct gp_wire *wire, uint32_t id); /* END_STREAM */

/* A whole answer of one message and status OK, whose bytes and meaning are known. False when it is nothing of
 * the kind for this stream: then its frames are to be read one by one. */
bool wire_on_answer(struct gp_wire *wire, uint32_t stream_id, uint32_t body_bytes);

#endif
