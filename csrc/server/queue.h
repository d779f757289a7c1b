/* One completion queue and its thread: takes calls from C core, hands every completion to the call it belongs
 * to. All events of a call come out of one queue, so under Async a call needs no lock. */
#ifndef GP_SERVER_QUEUE_H
#define GP_SERVER_QUEUE_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>

#include "server/call.h"
#include "server/counters.h"
#include "server/fifo.h"

struct gp_server;

struct gp_queue {
    struct gp_tally tally;
    struct gp_server *server;
    grpc_completion_queue *core;
    struct gp_call *unused; /* touched by the queue's thread only */
    unsigned unused_count;
    pthread_mutex_t park_lock;
    struct gp_fifo parked;     /* all calls in hold */
    _Atomic uint32_t releases; /* written under the lock */
};

void gp_queue_init(struct gp_queue *queue, struct gp_server *server);
void gp_queue_run(void *queue); /* the thread; does not return */

/* On the queue's thread: the call's next step, after which it is retired if it is
 * over. And that by itself. */
void gp_queue_step(struct gp_call *call, enum gp_event event);
void gp_queue_retire(struct gp_call *call);

/* False: all that were here when the call came have been released meanwhile, and so is this one. */
bool gp_queue_park(struct gp_queue *queue, struct gp_call *call);
bool gp_queue_unpark(struct gp_queue *queue, struct gp_call *call); /* false: it was released before */
void gp_queue_release(struct gp_queue *queue); /* all of them, and those that are on their way there */

#endif
