/* How calls get threads: the one place that knows. A limit on calls would stand before `run`. */
#ifndef GP_SERVER_MODELS_H
#define GP_SERVER_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/call.h"
#include "server/options.h"

struct gp_server;

struct gp_model {
    const char *name;
    bool owns_threads;                      /* each running handler is a thread of the process */
    int (*start)(struct gp_server *server); /* 0 or an errno */
    void (*run)(struct gp_call *call);      /* a call was accepted */
    void (*deliver)(struct gp_call *call, enum gp_event event); /* on the queue's thread */
    int (*wake_at)(struct gp_call *call, uint64_t at_ns);       /* GP_EVENT_WOKEN then; -1: out of memory */
    bool (*forget)(struct gp_call *call); /* no longer; false: the event is already on its way */
};

const struct gp_model *gp_model(enum gp_model_kind kind);

#endif
