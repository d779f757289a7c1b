/* The server's counts. */
#include "server/counters.h"

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void gp_counters_begin(struct gp_counters *counters, struct gp_tally *tally)
{
    uint64_t running = atomic_fetch_add_explicit(&counters->running, 1, memory_order_relaxed) + 1;
    uint64_t peak = get(&counters->peak_running);
    while (running > peak &&
           !atomic_compare_exchange_weak_explicit(&counters->peak_running, &peak, running,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    gp_count(&tally->started, 1);
}

void gp_counters_end(struct gp_counters *counters, struct gp_tally *tally)
{
    atomic_fetch_sub_explicit(&counters->running, 1, memory_order_relaxed);
    gp_count(&tally->finished, 1);
}

void gp_counters_reset_peaks(struct gp_counters *counters)
{
    atomic_store_explicit(&counters->peak_running, get(&counters->running), memory_order_relaxed);
}

void gp_counters_read(const struct gp_counters *counters, struct gp_counts *counts)
{
    *counts = (struct gp_counts){
        .running = get(&counters->running),
        .peak_running = get(&counters->peak_running),
        .parked = get(&counters->parked),
        .queued = get(&counters->queued),
    };
}

void gp_counts_add(struct gp_counts *counts, const struct gp_tally *tally)
{
    /* What ends is read before what begins, so that a difference is never below zero. */
    uint64_t finished = get(&tally->finished), retired = get(&tally->retired);
    counts->finished += finished;
    counts->started += get(&tally->started);
    counts->streams += get(&tally->accepted) - retired;
    counts->rejected += get(&tally->rejected);
    counts->pruned += get(&tally->pruned);
    counts->threads_exhausted += get(&tally->threads_exhausted);
    counts->degraded += get(&tally->degraded);
    counts->cancelled += get(&tally->cancelled);
    counts->deadline_exceeded += get(&tally->deadline_exceeded);
    counts->work_after_cancel_ns += get(&tally->work_after_cancel_ns);
}
