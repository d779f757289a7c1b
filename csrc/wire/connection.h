/* One HTTP/2 connection in the client role, as data: bytes in, finished calls and bytes out. No socket, no
 * clock.
 *
 *   create  ( submit | receive | gather, written )*  [ lost ]  destroy
 *
 * Calls are known by their ids; their records live in a table that all connections of a client share. Every
 * call submitted ends up in the list of finished ones exactly once, whatever the peer does, as soon as
 * receive, abort or lost has decided it. Violations end the connection with the error code RFC 9113 demands
 * (GOAWAY is queued, receive returns -1, the cause is kept) or, where they concern one stream, that call with
 * RST_STREAM and a status. */
#ifndef GP_WIRE_CONNECTION_H
#define GP_WIRE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/call.h"
#include "wire/frame.h"

struct gp_error;
struct gp_message_times;
struct gp_calls;
struct gp_wire;

/* The calls of a client, over all its connections. Destroyed after them. */
struct gp_calls_opts {
    uint32_t max_in_flight; /* ids are below this */
    const struct gp_request *request;
    bool gzip;                      /* send messages compressed */
    struct gp_message_times *times; /* where to note when messages come; NULL as a rule */
};

int gp_calls_create(struct gp_calls **calls, const struct gp_calls_opts *opts, struct gp_error *err);
size_t gp_calls_take(struct gp_calls *calls, struct gp_event *events,
                     size_t capacity);                                 /* finished ones, oldest first */
uint32_t gp_calls_received(const struct gp_calls *calls, uint64_t id); /* messages so far, of one in flight */
uint32_t gp_calls_owner(const struct gp_calls *calls, uint64_t id);    /* index of the connection that has it;
                                                                          UINT32_MAX: none */
void gp_calls_destroy(struct gp_calls *calls);

struct gp_wire_opts {
    struct gp_calls *calls;
    uint32_t index; /* the connection's own among those that live at the same time; below UINT32_MAX */
    const struct gp_request *request; /* the same that `calls` was made with */
    const char *scheme, *authority;
    uint32_t stream_window;     /* what the peer may send on a stream; 0: 4 MiB */
    uint32_t connection_window; /* and on the connection; 0: 16 MiB */
    uint32_t max_message_bytes; /* larger ones: RESOURCE_EXHAUSTED; 0: 4 MiB */
    uint32_t max_header_bytes;  /* of a header list, likewise; 0: 8 KiB, C core's default */
};

/* Queues preface, SETTINGS and WINDOW_UPDATE. */
int gp_wire_create(struct gp_wire **wire, const struct gp_wire_opts *opts, struct gp_error *err);

/* Start a call now, or when the peer's MAX_CONCURRENT_STREAMS or the coming of its SETTINGS allows; sent_ns
 * is the time of its start. On a connection that takes no more calls (after GOAWAY, or ids used up) it fails
 * as TRANSPORT: ask gp_wire_open first. */
void gp_wire_submit(struct gp_wire *wire, uint64_t id, uint64_t now_ns);

/* Send one message of at most GP_WIRE_FEED_BYTES on a parked stream. False: it has not begun, or has no room
 * now, in a window of the peer's or in memory. */
#define GP_WIRE_FEED_BYTES (GP_FRAME_DEFAULT_SIZE - 5u) /* one frame, whatever the peer says */
bool gp_wire_feeds(const struct gp_wire *wire, uint64_t id, uint32_t size); /* whether it would */
bool gp_wire_feed(struct gp_wire *wire, uint64_t id, const void *message, uint32_t size);

/* End a call from this side: RST_STREAM(CANCEL) if it was started, and finished with `class`. Of no effect on
 * a call that has ended or is another connection's. */
void gp_wire_abort(struct gp_wire *wire, uint64_t id, enum gp_class class, uint64_t now_ns);

void gp_wire_end(struct gp_wire *wire, uint64_t now_ns); /* as gp_client_end */

/* The same for all, queued ones too. Those that gp_call_is_said is true of end as OK. */
void gp_wire_abort_all(struct gp_wire *wire, enum gp_class class, uint64_t now_ns);

/* Bytes from the peer, cut anywhere. 0, or -1 when the connection is over; then all its calls have ended, and
 * what gather still gives (a GOAWAY) is worth sending. */
int gp_wire_receive(struct gp_wire *wire, const uint8_t *data, size_t size, uint64_t now_ns);

/* The connection is gone (end of file, reset, timeout): its calls end as TRANSPORT, with `cause` kept, those
 * that had not been started yet as refused. Refused are also calls above GOAWAY's last id (TRANSPORT) and
 * those reset with REFUSED_STREAM (UNAVAILABLE); retrying is the caller's choice. */
void gp_wire_lost(struct gp_wire *wire, const char *cause, uint64_t now_ns);

/* What is to be written, as at most `capacity` pieces; returns their number, which may be 0. Messages that
 * wait to be sent are framed here, a bounded amount at a time: write until has_output says no. Pieces stay
 * valid until the next call on this connection; written tells how many bytes of them went out. They may point
 * into the request's message, which is never copied when large. */
size_t gp_wire_gather(struct gp_wire *wire, struct iovec *pieces, size_t capacity, uint64_t now_ns);
void gp_wire_written(struct gp_wire *wire, size_t bytes);
bool gp_wire_has_output(const struct gp_wire *wire);
size_t gp_wire_output_bytes(const struct gp_wire *wire); /* framed and not written */

bool gp_wire_ready(const struct gp_wire *wire);         /* the peer's SETTINGS have come */
bool gp_wire_open(const struct gp_wire *wire);          /* takes more calls */
uint32_t gp_wire_in_flight(const struct gp_wire *wire); /* started and not finished */
uint32_t gp_wire_queued(const struct gp_wire *wire);    /* waiting for a stream */
void gp_wire_ping(struct gp_wire *wire);                /* keepalive: queue a PING */
uint64_t gp_wire_pongs(const struct gp_wire *wire);     /* PING ACKs received */

struct gp_wire_stats {
    uint64_t messages_sent, messages_received, bytes_received;
    uint64_t payload_sent; /* bytes of messages_sent, as they were given */
    uint64_t refused;      /* calls ended by REFUSED_STREAM or left out by GOAWAY */
    uint64_t inflated_blocks;
};
void gp_wire_stats(const struct gp_wire *wire, struct gp_wire_stats *stats);
const struct gp_settings *gp_wire_settings(const struct gp_wire *wire); /* the peer's */
const char *
gp_wire_cause(const struct gp_wire *wire); /* why it is over, or of the last call that ended without OK; "" */
enum gp_class gp_wire_cause_class(const struct gp_wire *wire); /* that of the calls it is the cause for */

#define GP_WIRE_CAUSE_BYTES 240u

struct gp_wire_cause {
    enum gp_class class;
    char text[GP_WIRE_CAUSE_BYTES];
};

/* Why calls have ended without OK since this was asked last, for each class that they ended in. Returns the
 * number of causes; they are there until the next call on any connection of the client. */
size_t gp_wire_take_causes(struct gp_wire *wire, const struct gp_wire_cause **causes);

void gp_wire_destroy(struct gp_wire *wire);

#endif
