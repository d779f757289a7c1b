/* One load thread with its client, generator and recorder.
 *
 *   init  start  join  fini
 *
 * The thread connects, reports to the gate, waits there until all have connected, and generates its load. */
#ifndef GP_LOAD_WORKER_H
#define GP_LOAD_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/message_times.h"
#include "load/generator.h"
#include "load/recorder.h"
#include "load/timeline.h"

/* Where the workers of a run and its conductor meet. */
struct gp_gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
    int eventfd;                  /* written by a worker after each report; the conductor sleeps on it */
    atomic_uint connected, ended; /* reports: workers that have connected or failed to; that are through */
};

int gp_gate_init(struct gp_gate *gate, struct gp_error *err);
void gp_gate_fini(struct gp_gate *gate);
void gp_gate_open(struct gp_gate *gate);

struct gp_worker_opts {
    unsigned number;                     /* from 0; in the thread's name */
    const struct gp_client_opts *client; /* this worker's share */
    struct gp_generator_opts generator;  /* client, recorder and times are filled in by the worker */
    uint64_t connect_timeout_ns;
    uint64_t window_ns;
    const int *cpus; /* must outlive the thread */
    size_t cpu_count;
    struct gp_gate *gate;
};

struct gp_worker {
    unsigned number;
    pthread_t thread;
    bool started;
    uint64_t connect_timeout_ns;
    const int *cpus;
    size_t cpu_count;
    struct gp_gate *gate;
    struct gp_timeline *timeline;
    struct gp_client *client;
    struct gp_generator generator;
    struct gp_recorder recorder;
    struct gp_message_times times; /* of kinds that get many messages; empty otherwise */
    bool failed;                   /* it never came to generate load; err has the cause */
    struct gp_error err;
    struct gp_client_stats stats; /* after the run, as are the causes */
    struct gp_client_cause causes[GP_CLIENT_CAUSES];
    size_t cause_count;
};

/* Makes the client here, so that opts need not outlive the call; the thread takes it over. */
int gp_worker_init(struct gp_worker *worker, const struct gp_worker_opts *opts, struct gp_error *err);
int gp_worker_start(struct gp_worker *worker, struct gp_error *err);
void gp_worker_join(struct gp_worker *worker); /* fine when it was not started */
void gp_worker_fini(struct gp_worker *worker);

#endif
