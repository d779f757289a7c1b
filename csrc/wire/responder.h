/* One HTTP/2 connection in the mirror role: answers every call of BenchmarkService at once from bytes
 * prepared beforehand, so that a client meets its own ceiling. Bytes in, bytes out.
 *
 * Does the least that a correct server may: flow control, SETTINGS, PING, RST_STREAM, GOAWAY and the HPACK
 * state are kept, requests are not decoded but for the first of each distinct header block and message. */
#ifndef GP_WIRE_RESPONDER_H
#define GP_WIRE_RESPONDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct gp_error;
struct gp_responder;

int gp_responder_create(struct gp_responder **responder, struct gp_error *err);
int gp_responder_receive(struct gp_responder *responder, const uint8_t *data,
                         size_t size); /* -1: over, see gather */
size_t gp_responder_gather(struct gp_responder *responder, struct iovec *pieces, size_t capacity);
void gp_responder_written(struct gp_responder *responder, size_t bytes);

struct gp_responder_counts {
    uint64_t started, finished, cancelled, running, peak_running;
};
void gp_responder_counts(const struct gp_responder *responder, struct gp_responder_counts *counts);
void gp_responder_destroy(struct gp_responder *responder);

#endif
