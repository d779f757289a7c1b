/* How calls get threads: the one place that knows. */
#ifndef GP_SERVER_MODELS_H
#define GP_SERVER_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/call.h"
#include "server/options.h"

struct gp_server;

struct gp_model {
    const char *name;
    bool owns_threads;                      /* each running handler has a thread of the process to itself */
    int (*start)(struct gp_server *server); /* 0 or an errno */
    void (*run)(struct gp_call *call);      /* a call was accepted: on the queue's thread */
    void (*begin)(struct gp_call *call);    /* it has passed the limits */
    void (*left)(struct gp_call *call);     /* its handler has ended, or will never begin; NULL: no matter */
    void (*deliver)(struct gp_call *call, enum gp_event event); /* on the queue's thread */
    int (*wake_at)(struct gp_call *call, uint64_t at_ns);       /* GP_EVENT_WOKEN then; -1: out of memory */
    bool (*forget)(struct gp_call *call); /* no longer; false: the event is already on its way */
};

extern const struct gp_model gp_model_async, gp_model_thread, gp_model_stream_workers, gp_model_pool;

const struct gp_model *gp_model(enum gp_model_kind kind);

/* Of ThreadPerCall: a new thread for the call, or its refusal when there is none to be had. And how threads
 * for calls are made. */
void gp_model_thread_run(struct gp_call *call);
int gp_model_thread_prepare(struct gp_server *server); /* 0 or an errno */

#endif
