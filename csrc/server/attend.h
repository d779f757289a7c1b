/* A thread that stays with one call: it runs the call's steps and sleeps between them, while the queue's
 * thread only puts what has happened into the call's inbox. What comes after the handler's end (the answer is
 * out, the call is closed) the queue's thread sees to, which is also the only one that retires a call. */
#ifndef GP_SERVER_ATTEND_H
#define GP_SERVER_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "server/call.h"

/* Stay until the handler has ended; `first` is the first step. inbox.attended has been set before, on the
 * queue's thread. */
void gp_attend(struct gp_call *call, void (*first)(struct gp_call *call));

/* Rows of the model's table. */
void gp_attend_deliver(struct gp_call *call, enum gp_event event);
int gp_attend_wake_at(struct gp_call *call, uint64_t at_ns);
bool gp_attend_forget(struct gp_call *call);

#endif
