/* progress: counts from the generators, percentiles from the windows that are over. */
#include "load/progress.h"

#include <stdatomic.h>

#include "load/run.h"
#include "load/worker.h"

void gp_progress_init(struct gp_progress *progress, uint32_t workers)
{
    *progress = (struct gp_progress){.workers = workers};
    gp_histogram_init(&progress->latency);
    pthread_mutex_init(&progress->lock, NULL);
}

void gp_progress_fini(struct gp_progress *progress)
{
    pthread_mutex_destroy(&progress->lock);
    gp_histogram_fini(&progress->latency);
}

/* What is new since the last look. */
static void read_windows(struct gp_progress *progress, struct gp_worker *workers)
{
    for (uint32_t i = 0; i < progress->workers; i++)
        gp_windows_read(&workers[i].recorder.windows, &progress->latency);
}

void gp_progress_look(struct gp_progress *progress, struct gp_worker *workers,
                      struct gp_run_snapshot *snapshot)
{
    for (uint32_t i = 0; i < progress->workers; i++) {
        struct gp_generator_progress *its = &workers[i].generator.progress;

        snapshot->sent += atomic_load_explicit(&its->sent, memory_order_relaxed);
        snapshot->calls += atomic_load_explicit(&its->finished, memory_order_relaxed);
        snapshot->ok += atomic_load_explicit(&its->ok, memory_order_relaxed);
        snapshot->not_sent += atomic_load_explicit(&its->not_sent, memory_order_relaxed);
    }
    pthread_mutex_lock(&progress->lock);
    if (!progress->closed)
        read_windows(progress, workers);
    snapshot->p50_ns = gp_histogram_quantile_ns(&progress->latency, 0.5);
    snapshot->p99_ns = gp_histogram_quantile_ns(&progress->latency, 0.99);
    pthread_mutex_unlock(&progress->lock);
}

void gp_progress_close(struct gp_progress *progress, struct gp_worker *workers)
{
    pthread_mutex_lock(&progress->lock);
    read_windows(progress, workers);
    progress->closed = true;
    pthread_mutex_unlock(&progress->lock);
}
