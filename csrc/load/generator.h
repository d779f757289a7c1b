/* The load of one thread: calls through warm-up and measured window, then a drain. When a call is sent is
 * the matter of one of two tables over one loop (loop.h): the closed loop keeps a number of calls in flight,
 * the open loop follows a schedule. Each call in flight has a slot, whose number is the id of the call.
 *
 *   init  run  fini
 */
#ifndef GP_LOAD_GENERATOR_H
#define GP_LOAD_GENERATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "load/due.h"
#include "load/recorder.h"
#include "load/run.h"
#include "load/schedule.h"

struct gp_loop;
struct gp_timeline;

struct gp_generator_opts {
    const struct gp_loop *loop;
    struct gp_client *client; /* connected by the time of run */
    struct gp_timeline *timeline;
    struct gp_recorder *recorder;
    struct gp_message_times *times; /* switched on for the measured window; NULL: nobody wants them */
    uint32_t concurrency; /* closed loop: calls kept in flight; open loop: never more than so many */
    uint64_t calls;       /* measured calls to intend, may be 0; UINT64_MAX: any number */
    uint64_t drain_ns;
    uint64_t think_ns;                /* closed loop: from the end of a slot's call to its next */
    bool endless;                     /* closed loop: calls last until gp_client_end */
    struct gp_schedule_opts schedule; /* open loop; begins with the measured window */
    enum gp_catch_up catch_up;        /* open loop */
};

/* What the client had used and done at one end of the measured window. */
struct gp_generator_mark {
    uint64_t cpu_ns, messages_sent, payload_sent, messages_received;
    uint64_t polls, idle_polls;
    uint64_t opened, tls_resumed; /* connections */
};

/* What others may read while it runs; written once per batch. */
struct gp_generator_progress {
    atomic_int phase;                              /* enum gp_run_phase, from GP_RUN_WARMUP on */
    _Atomic uint64_t sent, finished, ok, not_sent; /* measured calls */
};

struct gp_generator_slot {
    struct gp_plan plan; /* of the call it is flying with */
    uint64_t rest_ns;    /* closed loop: the pause after its last failure, if that was an immediate one */
    bool flying;
};

struct gp_closed {
    struct gp_due resting; /* slots in a pause */
};

struct gp_open {
    struct gp_schedule schedule; /* of the warm-up, then of the measured window */
    struct gp_rate_step warmup;  /* the rate with which the window begins */
    bool measuring;              /* whether the next call is of the measured window */
    uint64_t origin_ns;          /* when that schedule begins */
    uint64_t next_ns;            /* the next call to be sent: all before it are sent or dropped */
    uint64_t calls_to_come;      /* measured ones; next is one of them if there are any */
    uint64_t full_until_ns;      /* the last moment at which no slot was known to be free */
    uint64_t patience_ns;        /* how long a call may wait for a slot; UINT64_MAX: to the end */
    uint32_t *free;              /* a stack of slots: the one used last is the warmest */
    uint32_t free_count;
};

struct gp_generator {
    struct gp_generator_opts opts;
    struct gp_generator_slot *slots;
    uint64_t *batch; /* slots to be sent next */
    uint32_t batch_count;
    struct gp_event *events;
    uint32_t event_capacity;
    union {
        struct gp_closed closed;
        struct gp_open open;
    };

    uint64_t now_ns; /* read once per batch */
    uint64_t begin_ns, start_ns, end_ns;
    bool entered;    /* the measured window has begun */
    int cut_by;      /* enum gp_cease: what made it cease before its own end */
    uint64_t cut_ns; /* when what was left in flight was cancelled; UINT64_MAX before */
    uint32_t in_flight, measured_in_flight;
    uint64_t calls_left;               /* measured calls not yet sent or dropped */
    uint64_t sent, finished, ok;       /* measured calls */
    uint64_t ahead;                    /* of those OK, cancelled before the server had answered */
    uint64_t last_ns;                  /* when the last of them finished or was dropped */
    uint64_t drained_ns;               /* how long the drain took */
    struct gp_generator_mark marks[2]; /* at start and end of the measured window, if it was entered */
    bool cpu_known;                    /* whether the difference between their CPU is this run's own */
    struct gp_generator_progress progress;
};

int gp_generator_init(struct gp_generator *generator,
                      const struct gp_generator_opts *opts); /* -1: out of memory */
void gp_generator_run(struct gp_generator *generator);       /* the whole story; then nothing is in flight */
void gp_generator_fini(struct gp_generator *generator);

#endif
