/* The whole server: C core's listener, its completion queues, and what they share. */
#ifndef GP_SERVER_SERVER_H
#define GP_SERVER_SERVER_H

#include <grpc/grpc.h>

#include "server/counters.h"
#include "server/forward.h"
#include "server/limit.h"
#include "server/options.h"
#include "server/queue.h"
#include "server/stacks.h"
#include "server/timers.h"
#include "server/workers.h"

struct gp_error;
struct gp_model;

#define GP_METHOD_COUNT 5

struct gp_server {
    struct gp_counters counters;
    struct gp_limits limits;
    struct gp_workers workers; /* where the model has them */
    const struct gp_options *options;
    const struct gp_model *model;
    grpc_server *core;
    void *methods[GP_METHOD_COUNT]; /* C core's handles */
    struct gp_forward forward;
    struct gp_queue *queues;
    unsigned queue_count;
    struct gp_stacks stacks;
    struct gp_timers timers;
    pthread_attr_t call_thread; /* how a call's thread is made */
    int port;                   /* 0 for a Unix socket */
};

/* Listens and serves when it returns. The server lives as long as the process. */
int gp_server_start(struct gp_server *server, const struct gp_options *options, struct gp_error *err);

void gp_server_counts(const struct gp_server *server, struct gp_counts *counts);
void gp_server_release(struct gp_server *server); /* let every parked call go */

#endif
