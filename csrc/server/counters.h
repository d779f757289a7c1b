/* The server's counts. What has a maximum (running) is one number for the process; what only grows is tallied
 * per completion queue, so that queues do not share a cache line on the path of a call. All by relaxed
 * atomics: under ThreadPerCall many threads write one tally. Pure. */
#ifndef GP_SERVER_COUNTERS_H
#define GP_SERVER_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct gp_counters {
    _Alignas(64) _Atomic uint64_t running; /* handlers begun and not ended */
    _Atomic uint64_t peak_running;
    _Atomic uint64_t parked;
    _Atomic uint64_t queued; /* calls that wait in a limit, or for a thread */
};

struct gp_tally {
    _Alignas(64) _Atomic uint64_t started; /* handlers */
    _Atomic uint64_t finished;
    _Atomic uint64_t rejected; /* calls refused before a handler began, for want of room, rate or time ... */
    _Atomic uint64_t pruned;   /* ... of these, of time ... */
    _Atomic uint64_t threads_exhausted; /* ... and because the system gave no more threads */
    _Atomic uint64_t degraded;          /* calls that got a cheap answer instead of a handler's */
    _Atomic uint64_t cancelled;
    _Atomic uint64_t deadline_exceeded;
    _Atomic uint64_t work_after_cancel_ns;
    _Atomic uint64_t accepted; /* calls taken from C core ... */
    _Atomic uint64_t retired;  /* ... and given back */
};

struct gp_counts { /* a reading */
    uint64_t running, peak_running, parked, queued, started, finished, rejected, cancelled, deadline_exceeded;
    uint64_t pruned, threads_exhausted, degraded, work_after_cancel_ns, streams;
};

void gp_counters_begin(struct gp_counters *counters, struct gp_tally *tally);
void gp_counters_end(struct gp_counters *counters, struct gp_tally *tally);
void gp_counters_reset_peaks(struct gp_counters *counters);

/* Start a reading, then add the tally of each queue to it. */
void gp_counters_read(const struct gp_counters *counters, struct gp_counts *counts);
void gp_counts_add(struct gp_counts *counts, const struct gp_tally *tally);

static inline void gp_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

#endif
