/* How far the load threads of a run are, looked at while they work: they publish, nobody makes them wait.
 *
 *   init  look*  ( close  look* )  fini
 *
 * look may be called from any thread. */
#ifndef GP_LOAD_PROGRESS_H
#define GP_LOAD_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"

struct gp_run_snapshot;
struct gp_worker;

struct gp_progress {
    pthread_mutex_t lock; /* among those who look */
    struct gp_histogram latency;
    uint32_t workers;
    bool closed; /* the workers' windows are being merged: nothing of them may be read any more */
};

void gp_progress_init(struct gp_progress *progress, uint32_t workers);

/* Fill in counts and latencies so far; phase and time are the caller's. */
void gp_progress_look(struct gp_progress *progress, struct gp_worker *workers,
                      struct gp_run_snapshot *snapshot);

/* The threads have ended: read their windows for the last time. */
void gp_progress_close(struct gp_progress *progress, struct gp_worker *workers);

void gp_progress_fini(struct gp_progress *progress);

#endif
