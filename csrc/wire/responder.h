/* One HTTP/2 connection in the mirror role: answers every call of BenchmarkService at once from bytes
 * prepared beforehand, so that a client meets its own ceiling. Bytes in, bytes out.
 *
 * Does the least that a correct server may: flow control, SETTINGS, PING, RST_STREAM, GOAWAY and the HPACK
 * state are kept; of requests only the path and response_size are looked at. A unary call and a stream from
 * the client are answered when the client has ended its side, each message of a ping-pong at once; a stream
 * from the server goes on until it is cancelled, one both ways until the client has ended its side. What a
 * call's metadata asks for (grpcperf-hold, ...) is not done, for it would be work, and deadlines are left to
 * the client. Compressed messages are refused (UNIMPLEMENTED). */
#ifndef GP_WIRE_RESPONDER_H
#define GP_WIRE_RESPONDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct gp_error;
struct gp_responder;

/* Of all connections that were given it. */
struct gp_responder_counts {
    uint64_t started, finished, cancelled, running, peak_running;
    uint64_t rejected; /* calls of methods that there are not; never started */
};

/* Queues SETTINGS. `counts` is kept, and must outlive it. */
int gp_responder_create(struct gp_responder **responder, struct gp_responder_counts *counts,
                        struct gp_error *err);

/* Bytes from the peer, cut anywhere. 0, or -1 when the connection is over; what gather still gives (a GOAWAY)
 * is then worth sending. */
int gp_responder_receive(struct gp_responder *responder, const uint8_t *data, size_t size);

/* What is to be written, as at most `capacity` pieces; returns their number. Streams without
 * an end are answered as far as the peer's windows and a few hundred KiB allow: more comes
 * when this has been written. */
size_t gp_responder_gather(struct gp_responder *responder, struct iovec *pieces, size_t capacity);
void gp_responder_written(struct gp_responder *responder, size_t bytes);

/* Bytes that wait for being written, of those that are made already. */
size_t gp_responder_pending(const struct gp_responder *responder);

/* So much waits for a peer that sends and does not read, that it should read some of it before more is read
 * from it. */
bool gp_responder_crowded(const struct gp_responder *responder);

void gp_responder_destroy(struct gp_responder *responder); /* calls in flight count as cancelled */

#endif
