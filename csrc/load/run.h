/* One load run, from its connections to its merged result. The conductor: a thread of the run's own waits for
 * the phases to pass (and for the server's death) and joins the load threads, each of which has a client, a
 * generator and a recorder to itself.
 *
 *   create  start  ( wait | snapshot )*  stop?  wait  result  destroy
 *
 *   connect -> warm-up -> measured window -> drain (bounded) -> cancel what is left -> merge
 *
 * All functions may be called from any thread; one caller at a time for result and destroy. */
#ifndef GP_LOAD_RUN_H
#define GP_LOAD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/histogram.h"
#include "client/client.h"
#include "load/schedule.h"
#include "load/windows.h"

struct gp_error;
struct gp_run;

/* Open loop, max_in_flight reached: what becomes of a call that is due. What is dropped is not_sent; time
 * spent waiting for a slot is part of the response time. */
enum gp_catch_up {
    GP_CATCH_UP_NONE,    /* it is dropped at its intended time */
    GP_CATCH_UP_BOUNDED, /* it may wait for 100 ms */
    GP_CATCH_UP_FULL,    /* it waits until the end of the run */
};

struct gp_run_opts {
    struct gp_client_opts client; /* connections are shared out over threads; concurrency is max_in_flight */
    uint32_t threads;
    uint32_t concurrency; /* over all threads: calls kept in flight, or in the open loop never exceeded */
    /* The rate over the measured window, from its start on; the warm-up has the rate it begins with. None:
     * the closed loop. */
    const struct gp_rate_step *steps;
    size_t step_count;
    enum gp_arrival arrival;
    uint64_t seed;
    enum gp_catch_up catch_up;
    uint64_t connect_timeout_ns;
    uint64_t warmup_ns;
    uint64_t duration_ns; /* 0: bounded by calls alone */
    uint64_t calls;       /* measured calls to make (open loop: to intend); 0: bounded by duration alone */
    uint64_t drain_ns;
    uint64_t think_ns; /* closed loop: pause of a caller between its calls */
    int server_pidfd;  /* readable when the server is dead; -1: not known. Not owned */
    pid_t server_pid;  /* its CPU is read at both ends of the window; 0: not known */
    const int *cpus;   /* the load threads are bound to these; NULL: not bound */
    size_t cpu_count;
};

enum gp_run_phase { GP_RUN_CONNECT, GP_RUN_WARMUP, GP_RUN_MEASURE, GP_RUN_DRAIN, GP_RUN_ENDED };

struct gp_run_snapshot {
    enum gp_run_phase phase;
    uint64_t elapsed_ns;                /* since the start of the measured window; 0 before it */
    uint64_t sent, calls, ok, not_sent; /* measured calls sent; finished, of them OK; dropped */
    uint64_t p50_ns, p99_ns;            /* latency of those OK in windows that are over; 0: none yet */
};

struct gp_run_result {
    /* Calls intended inside the measured window (closed loop: sent), each in exactly one class, also when it
     * finished in the drain. Streams without a number of messages that were in flight when the window began
     * count as sent in it. Calls intended = sum of classes + not_sent. */
    uint64_t classes[GP_CLASS_COUNT];
    uint64_t not_sent;
    struct gp_histogram latency; /* of OK ones: from intended (closed loop: from sent) to done */
    struct gp_histogram errors;  /* of those that ended otherwise; in_flight_at_end has no latency */
    struct gp_histogram service; /* open loop, of OK ones: from sent to done */
    /* From intended to sent. Calls that waited for a slot or for the peer's limit on streams are in queued,
     * all others in lag, which thus is the client's own lateness (open loop only). */
    struct gp_histogram lag, queued;
    struct gp_histogram gap; /* open loop: between calls as each thread handed them to its transport */
    /* Open loop: times at which calls that waited for nothing were handed over, those calls, and the most at
     * once. */
    uint64_t bursts, burst_calls, largest_burst;
    struct gp_histogram first_message, message_gap, round_trip; /* base/message_times.h */
    /* Completions inside the measured window, whenever the call was sent: so that throughput agrees with
     * Little's law. */
    uint64_t ok_in_window, all_in_window;
    uint64_t messages_sent, messages_received; /* in the measured window, streams' and unary calls' alike */
    uint64_t payload_sent;                     /* bytes of messages_sent */
    uint64_t opened, tls_resumed;              /* connections set up in it; of them, by TLS resumption */
    uint64_t ahead; /* streams that are OK for the client's end of them, whatever of it the server has read */
    uint64_t window_ns; /* length of the measured window as it came out */
    struct gp_windows windows;
    /* Why calls ended badly, as far as the transport tells: of all calls, those of the warm-up too. */
    struct gp_client_cause causes[GP_CLIENT_CAUSES];
    size_t cause_count;
    uint64_t connect_ns;                   /* all connections, from first to last */
    uint32_t connected, reconnects, alive; /* at the start, in place of lost ones, at the end */
    struct gp_client_peer peer;            /* at the end of the run (wire) */
    uint64_t drain_ns;                     /* how long the drain took */
    bool client_cpu_known, server_cpu_known;
    uint64_t client_cpu_ns, server_cpu_ns; /* in the measured window */
    uint64_t polls, idle_polls;            /* in the measured window, as gp_client_stats has them */
    bool steal_known, pressure_known;
    double steal, pressure; /* shares of warm-up, window and drain: load/disturbance.h */
    bool server_died;       /* server_pidfd told so during the run */
    bool stopped;           /* gp_run_stop ended it before its own end */
};

/* Copies what it needs of opts. */
int gp_run_create(struct gp_run **run, const struct gp_run_opts *opts, struct gp_error *err);
int gp_run_start(struct gp_run *run, struct gp_error *err);
bool gp_run_wait(struct gp_run *run, uint64_t timeout_ns); /* whether it has ended */
void gp_run_stop(struct gp_run *run); /* cease, drain for at most 0.5 s; returns at once */
void gp_run_snapshot(struct gp_run *run, struct gp_run_snapshot *snapshot);

/* After the end: the merged result, owned by the run; or -1 with why it never came to measure. */
int gp_run_result(struct gp_run *run, const struct gp_run_result **result, struct gp_error *err);
void gp_run_destroy(struct gp_run *run); /* stops it first, without a drain */

#endif
