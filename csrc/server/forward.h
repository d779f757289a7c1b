/* The next server: with --forward a handler calls it, after all that its own behaviour asks for, and answers
 * what it is answered. Servers that do so in a row are a chain.
 *
 * Only unary calls are forwarded, request and response as the bytes they are; a stream is refused. The call
 * to the next server is a child of the one that is handled, which carries the rest of the deadline and any
 * cancellation onward; its completion comes out of the queue of the call that it serves, as
 * GP_EVENT_FORWARDED. */
#ifndef GP_SERVER_FORWARD_H
#define GP_SERVER_FORWARD_H

#include <grpc/grpc.h>

struct gp_call;
struct gp_error;
struct gp_options;

struct gp_forward {
    grpc_channel *channel; /* one connection; NULL: this is the last server */
    void *method;          /* C core's handle */
};

/* Connects, for a chain is of use only when it is whole; returns at once when there is no next server. */
int gp_forward_start(struct gp_forward *forward, const struct gp_options *options, struct gp_error *err);

void gp_forward_call(struct gp_call *call);     /* the handler's turn to call the next server */
void gp_forward_answered(struct gp_call *call); /* GP_EVENT_FORWARDED */
void gp_forward_reset(struct gp_call *call);    /* before the call itself goes away */

grpc_byte_buffer *gp_forward_response(struct gp_call *call); /* to be sent, once */

#endif
