/* What one load thread writes down about finished calls: classes, latencies, and the measured window cut into
 * shorter windows. One writer; recorders are merged after their threads have ended.
 *
 *   init  start  record*  end  record* (the drain)  ( merge | move )  fini
 */
#ifndef GP_LOAD_RECORDER_H
#define GP_LOAD_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/run.h"

struct gp_recorder {
    uint64_t start_ns, end_ns; /* the measured window is [start, end); both UINT64_MAX until they are known */
    uint64_t window_ns;        /* length of a window; the last one may be shorter */
    uint64_t classes[GP_CLASS_COUNT];
    struct gp_histogram
        latency; /* of OK calls; what completes inside the window arrives here window by window */
    struct gp_histogram errors; /* of the others that came back by themselves */
    uint64_t ok_in_window, all_in_window;

    /* The window being written: the only memory touched on the path of a call. */
    struct gp_histogram current;
    uint64_t current_end_ns, current_ok, current_failed;

    struct gp_window *windows; /* the finished ones */
    size_t window_count, window_capacity;
    bool out_of_memory; /* windows could not be kept: the result is not complete */
};

/* Length of the windows of a run: 20 or more of them, each at least 10 ms and at most 1 s long. duration_ns
 * 0: not known beforehand. */
uint64_t gp_recorder_window_ns(uint64_t duration_ns);

int gp_recorder_init(struct gp_recorder *recorder, uint64_t window_ns); /* -1 when out of memory */
void gp_recorder_fini(struct gp_recorder *recorder);

/* The measured window; end_ns is UINT64_MAX when it is not known yet. Before the first record. */
void gp_recorder_start(struct gp_recorder *recorder, uint64_t start_ns, uint64_t end_ns);

/* A call has finished. Measured: it was sent inside the measured window, and counts in the classes and
 * latencies wherever it finished. Every call that finished inside the window counts there, whenever it was
 * sent. */
void gp_recorder_record(struct gp_recorder *recorder, const struct gp_event *event, bool measured);

/* The measured window ended at end_ns: every window up to there is closed. */
void gp_recorder_end(struct gp_recorder *recorder, uint64_t end_ns);

/* Add another thread's record to this one: both have ended, and windows began together. */
void gp_recorder_merge(struct gp_recorder *into, const struct gp_recorder *from);

/* Hand classes, histograms and windows over to a result. A last window of less than half the length becomes
 * part of the one before it. */
void gp_recorder_move(struct gp_recorder *recorder, struct gp_run_result *result);

#endif
