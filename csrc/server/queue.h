/* One completion queue and its thread: takes calls from C core, hands every completion to the call it belongs
 * to. All events of a call come out of one queue, so under Async a call needs no lock. */
#ifndef GP_SERVER_QUEUE_H
#define GP_SERVER_QUEUE_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>

#include "server/counters.h"

struct gp_call;
struct gp_server;

struct gp_queue {
    struct gp_tally tally;
    struct gp_server *server;
    grpc_completion_queue *core;
    struct gp_call *unused; /* touched by the queue's thread only */
    unsigned unused_count;
    pthread_mutex_t park_lock;
    struct gp_call *parked; /* all calls in hold */
};

void gp_queue_init(struct gp_queue *queue, struct gp_server *server);
void gp_queue_run(void *queue); /* the thread; does not return */

/* On the queue's thread, once gp_call_over. */
void gp_queue_retire(struct gp_queue *queue, struct gp_call *call);

void gp_queue_park(struct gp_queue *queue, struct gp_call *call);
bool gp_queue_unpark(struct gp_queue *queue, struct gp_call *call); /* false: it was released before */
void gp_queue_release(struct gp_queue *queue);                      /* all of them, from any thread */

#endif
