/* What one load thread writes down about calls: classes, latencies, its own lateness, and the measured window
 * cut into shorter windows. One writer; recorders are merged after their threads have ended.
 *
 *   init  start  ( sent | dropped | record )*  end  record* (the drain)  ( merge | move )  fini
 */
#ifndef GP_LOAD_RECORDER_H
#define GP_LOAD_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/run.h"
#include "load/windows.h"

/* What is known of a call before it is sent. */
struct gp_plan {
    uint64_t intended_ns; /* closed loop: when it was submitted */
    bool measured;        /* intended inside the measured window */
    bool held;            /* there was no room for it when it was due: max_in_flight was reached */
};

struct gp_recorder {
    bool open_loop, ended;
    uint64_t start_ns, end_ns; /* the measured window is [start, end); both UINT64_MAX until they are known */
    uint64_t window_ns;        /* length of a window, doubled as they become many; the last may be shorter */
    uint64_t classes[GP_CLASS_COUNT];
    uint64_t not_sent; /* intended inside the measured window, and dropped */
    uint64_t ok_in_window, all_in_window;

    /* Of OK calls; what completes inside the window arrives here window by window. Open loop: response time,
     * from intended. Closed loop: from sent. */
    struct gp_histogram latency;
    struct gp_histogram errors;  /* the same of the others that came back by themselves */
    struct gp_histogram service; /* open loop: of OK calls, from sent */
    struct gp_histogram lag;     /* open loop, every measured call that nothing held back: from intended to
                                    sent. The client's own lateness */
    struct gp_histogram
        queued;              /* those that max_in_flight or the peer's limit on streams held back: likewise */
    struct gp_histogram gap; /* open loop: between calls handed to the transport inside the window */
    uint64_t bursts, burst_calls, largest_burst; /* open loop: calls that nothing held back, by submit */
    uint64_t last_sent_ns;

    /* The window being written: with `service` and `lag` the only memory touched on the path of a call. */
    struct gp_histogram current;
    uint64_t current_end_ns, current_ok, current_failed, current_sent;

    struct gp_windows windows; /* the finished ones: others may read them while the thread records */
    bool out_of_memory;        /* windows could not be kept: the result is not complete */
};

/* Length of the windows of a run: 20 or more of them, each at least 10 ms and at most 1 s long as long as
 * they are few (windows.h). duration_ns 0: not known beforehand. */
uint64_t gp_recorder_window_ns(uint64_t duration_ns);

/* -1 when out of memory */
int gp_recorder_init(struct gp_recorder *recorder, uint64_t window_ns, bool open_loop);
void gp_recorder_fini(struct gp_recorder *recorder);

/* The measured window; end_ns is UINT64_MAX when it is not known yet. Before the first record. */
void gp_recorder_start(struct gp_recorder *recorder, uint64_t start_ns, uint64_t end_ns);

/* Calls were handed to the transport together, `held` of them later than they were due for want of room. */
void gp_recorder_sent(struct gp_recorder *recorder, uint64_t now_ns, uint32_t count, uint32_t held);

/* A call that was to be sent inside the measured window never will be. */
void gp_recorder_dropped(struct gp_recorder *recorder);

/* A call has finished. One that was intended inside the measured window counts in the classes and latencies
 * wherever it finished. Every call that finished inside the window counts there, whenever it was sent. */
void gp_recorder_record(struct gp_recorder *recorder, const struct gp_event *event,
                        const struct gp_plan *plan);

/* The measured window ended at end_ns: every window up to there is closed. */
void gp_recorder_end(struct gp_recorder *recorder, uint64_t end_ns);

/* Add another thread's record to this one: both have ended, and windows began together. Those of the longer
 * windows decide. */
void gp_recorder_merge(struct gp_recorder *into, struct gp_recorder *from);

/* Hand counts, histograms and windows over to a result. A last window of less than half the length becomes
 * part of the one before it. */
void gp_recorder_move(struct gp_recorder *recorder, struct gp_run_result *result);

#endif
