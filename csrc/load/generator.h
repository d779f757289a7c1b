/* The load of one thread: a closed loop that keeps a number of calls in flight through warm-up and measured
 * window, then drains. Each of its callers is a slot; a slot's number is the id of its call.
 *
 *   init  run  fini
 */
#ifndef GP_LOAD_GENERATOR_H
#define GP_LOAD_GENERATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "load/due.h"
#include "load/run.h"

struct gp_recorder;
struct gp_timeline;

struct gp_generator_opts {
    struct gp_client *client; /* connected by the time of run */
    struct gp_timeline *timeline;
    struct gp_recorder *recorder;
    uint32_t concurrency;
    uint64_t calls; /* measured calls to make, may be 0; UINT64_MAX: any number */
    uint64_t drain_ns;
    uint64_t think_ns; /* from the end of a slot's call to its next */
    bool endless;      /* calls last until gp_client_end */
};

/* What the client had used and done at one end of the measured window. */
struct gp_generator_mark {
    uint64_t cpu_ns, messages_sent, messages_received;
};

/* What others may read while it runs; written once per batch. */
struct gp_generator_progress {
    atomic_int phase;              /* enum gp_run_phase, from GP_RUN_WARMUP on */
    _Atomic uint64_t finished, ok; /* measured calls */
};

struct gp_generator_slot {
    uint64_t rest_ns; /* the pause after its last failure, if that was an immediate one */
    bool flying, measured;
};

struct gp_generator {
    struct gp_generator_opts opts;
    struct gp_generator_slot *slots;
    uint64_t *batch; /* slots to be sent next */
    uint32_t batch_count;
    struct gp_event *events;
    uint32_t event_capacity;
    struct gp_due resting; /* slots in a pause */

    uint64_t now_ns; /* read once per batch */
    uint64_t start_ns, end_ns;
    bool entered;    /* the measured window has begun */
    int cut_by;      /* enum gp_cease: what made it cease before its own end */
    uint64_t cut_ns; /* when what was left in flight was cancelled; UINT64_MAX before */
    uint32_t in_flight, measured_in_flight;
    uint64_t calls_left;                 /* measured calls not yet sent */
    uint64_t finished, ok, last_done_ns; /* measured calls */
    uint64_t drained_ns;                 /* how long the drain took */
    struct gp_generator_mark marks[2];   /* at start and end of the measured window, if it was entered */
    bool cpu_known;                      /* whether the difference between their CPU is this run's own */
    struct gp_generator_progress progress;
};

int gp_generator_init(struct gp_generator *generator,
                      const struct gp_generator_opts *opts); /* -1: out of memory */
void gp_generator_run(
    struct gp_generator *generator); /* the whole story; when it returns nothing is in flight */
void gp_generator_fini(struct gp_generator *generator);

#endif
