/* run: the conductor of a load run. The load itself is the workers'; here its phases are waited for, the
 * server is watched, and the threads' records become one result. */
#include "load/run.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "load/disturbance.h"
#include "load/loop.h"
#include "load/merge.h"
#include "load/progress.h"
#include "load/thread.h"
#include "load/worker.h"

struct gp_run {
    struct gp_timeline timeline;
    struct gp_gate gate;
    uint32_t threads;
    struct gp_worker *workers; /* of them, the first `threads_made` are initialised */
    uint32_t threads_made;
    struct gp_progress progress;
    struct gp_rate_step *steps; /* NULL: the closed loop */
    int *cpus;
    int server_pidfd;          /* -1 once it has told the death */
    pthread_mutex_t pool_lock; /* of GP_PICK_LOCKED, for all threads together */

    pthread_t conductor;
    bool started;
    pthread_mutex_t lock; /* over `ended`; what the conductor wrote before it is read after it */
    pthread_cond_t changed;
    bool ended;
    bool failed; /* it never came to measure */
    struct gp_error err;
    struct gp_run_result result;
};

/* Part `index` of `parts` nearly equal ones; the first get what is left over. */
static uint64_t share(uint64_t whole, uint32_t parts, uint32_t index)
{
    return whole / parts + (index < whole % parts);
}

static bool is_endless(const struct gp_request *request)
{
    return request->kind != GP_KIND_UNARY && request->messages == 0 && !request->parked;
}

static int check_opts(const struct gp_run_opts *opts, struct gp_error *err)
{
    assert(opts->threads > 0);
    assert(opts->threads <= opts->client.connections && opts->threads <= opts->concurrency);
    assert(opts->duration_ns > 0 || opts->calls > 0);
    assert(opts->step_count == 0 || !is_endless(&opts->client.request));
    if (opts->duration_ns == 0 && is_endless(&opts->client.request))
        return gp_error_set(err, GP_ERROR_INVALID,
                            "calls=%llu: a stream without a number of messages ends only with the run; give "
                            "messages_per_stream or a duration",
                            (unsigned long long)opts->calls);
    return 0;
}

static int add_worker(struct gp_run *run, const struct gp_run_opts *opts, struct gp_error *err)
{
    uint32_t index = run->threads_made;
    struct gp_client_opts client = opts->client;
    struct gp_worker_opts worker = {
        .number = index,
        .client = &client,
        .connect_timeout_ns = opts->connect_timeout_ns,
        .window_ns = gp_recorder_window_ns(opts->duration_ns),
        .cpus = run->cpus,
        .cpu_count = opts->cpu_count,
        .gate = &run->gate,
    };

    client.connections = (uint32_t)share(opts->client.connections, opts->threads, index);
    client.max_in_flight = (uint32_t)share(opts->concurrency, opts->threads, index);
    client.owner = run;
    client.lock = &run->pool_lock;
    client.request.seed = gp_random_at(opts->client.request.seed, index); /* its own draws from the pool */
    worker.generator = (struct gp_generator_opts){
        .loop = run->steps ? &gp_open_loop : &gp_closed_loop,
        .timeline = &run->timeline,
        .concurrency = client.max_in_flight,
        .calls = opts->calls ? share(opts->calls, opts->threads, index) : UINT64_MAX,
        .drain_ns = opts->drain_ns,
        .think_ns = opts->think_ns,
        .endless = is_endless(&opts->client.request),
        .schedule = {.arrival = opts->arrival,
                     .steps = run->steps,
                     .step_count = opts->step_count,
                     .seed = opts->seed,
                     .part = index,
                     .parts = opts->threads},
        .catch_up = opts->catch_up,
    };
    if (gp_worker_init(&run->workers[index], &worker, err) != 0)
        return -1;
    run->threads_made++;
    return 0;
}

static int copy_cpus(struct gp_run *run, const struct gp_run_opts *opts)
{
    if (opts->cpu_count == 0)
        return 0;
    run->cpus = malloc(opts->cpu_count * sizeof *run->cpus);
    if (!run->cpus)
        return -1;
    memcpy(run->cpus, opts->cpus, opts->cpu_count * sizeof *run->cpus);
    return 0;
}

static int copy_steps(struct gp_run *run, const struct gp_run_opts *opts)
{
    if (opts->step_count == 0)
        return 0;
    run->steps = malloc(opts->step_count * sizeof *run->steps);
    if (!run->steps)
        return -1;
    memcpy(run->steps, opts->steps, opts->step_count * sizeof *run->steps);
    return 0;
}

static int copy_opts(struct gp_run *run, const struct gp_run_opts *opts)
{
    run->timeline.warmup_ns = opts->warmup_ns;
    run->timeline.duration_ns = opts->duration_ns;
    run->timeline.threads = run->threads = opts->threads;
    run->timeline.server_pid = opts->server_pid;
    run->server_pidfd = opts->server_pidfd;
    run->workers = calloc(opts->threads, sizeof *run->workers);
    gp_progress_init(&run->progress, opts->threads);
    if (!run->workers)
        return -1;
    return copy_steps(run, opts) != 0 || copy_cpus(run, opts) != 0 ? -1 : 0;
}

static int init_locks(struct gp_run *run, struct gp_error *err)
{
    if (gp_gate_init(&run->gate, err) != 0)
        return -1;
    if (gp_thread_cond_init(&run->changed) != 0) {
        gp_error_errno(err, "cannot make the condition variable of a load run");
        gp_gate_fini(&run->gate);
        return -1;
    }
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->pool_lock, NULL);
    return 0;
}

int gp_run_create(struct gp_run **made, const struct gp_run_opts *opts, struct gp_error *err)
{
    struct gp_run *run = NULL;

    *made = NULL;
    if (check_opts(opts, err) != 0)
        return -1;
    run = calloc(1, sizeof *run);
    if (!run || init_locks(run, err) != 0) {
        free(run);
        return run ? -1 : gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a load run");
    }
    gp_timeline_init(&run->timeline);
    if (copy_opts(run, opts) != 0) {
        gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a load run of %u threads", opts->threads);
        goto fail;
    }
    for (uint32_t i = 0; i < opts->threads; i++)
        if (add_worker(run, opts, err) != 0)
            goto fail;
    *made = run;
    return 0;
fail:
    gp_run_destroy(run);
    return -1;
}

/* --- the conductor's thread --- */

/* On failure those that did start are told to give up. Returns how many there are. */
static uint32_t start_workers(struct gp_run *run)
{
    for (uint32_t i = 0; i < run->threads; i++) {
        if (gp_worker_start(&run->workers[i], &run->err) == 0)
            continue;
        run->failed = true;
        gp_timeline_cease(&run->timeline, GP_CEASE_ABANDON);
        return i;
    }
    return run->threads;
}

static void note_server(struct gp_run *run, const struct pollfd *server)
{
    if (server->revents == 0)
        return;
    if (server->revents & POLLIN) {
        run->result.server_died = true;
        gp_timeline_cease(&run->timeline, GP_CEASE_DIED);
    }
    run->server_pidfd = -1; /* it stays readable: looking on would be spinning */
}

/* Sleep until so many workers have reported, or the server has died, which ends the run; then sleep on. */
static void await(struct gp_run *run, atomic_uint *reports, uint32_t wanted)
{
    uint64_t written;

    while (atomic_load(reports) < wanted) {
        struct pollfd fds[] = {
            {.fd = run->gate.eventfd, .events = POLLIN},
            {.fd = run->server_pidfd, .events = POLLIN}, /* poll overlooks a negative one */
        };

        if (poll(fds, 2, -1) < 0)
            continue; /* all signals are blocked here; what remains is want of memory, which passes */
        if (fds[0].revents && read(run->gate.eventfd, &written, sizeof written) < 0)
            written = 0; /* somebody's report was read with an earlier one */
        note_server(run, &fds[1]);
    }
}

/* Why it never came to measure; what a worker met by itself explains more than that it was told to stop. */
static void find_cause(struct gp_run *run)
{
    const struct gp_error *cause = NULL;

    for (uint32_t i = 0; i < run->threads; i++) {
        const struct gp_worker *worker = &run->workers[i];

        if (worker->failed && (!cause || cause->code == GP_ERROR_STOPPED))
            cause = &worker->err;
    }
    if (!cause || run->failed)
        return;
    run->failed = true;
    if (run->result.server_died)
        gp_error_set(&run->err, GP_ERROR_DIED, "the server died while the run was connecting to it");
    else
        run->err = *cause;
}

static void note_disturbance(struct gp_run_result *result, const struct gp_disturbance *before)
{
    struct gp_disturbance after;

    gp_disturbance_read(&after);
    result->steal_known = gp_disturbance_steal(before, &after, &result->steal);
    result->pressure_known = gp_disturbance_pressure(before, &after, &result->pressure);
}

static void announce_end(struct gp_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->ended = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* The whole run. */
static void *conduct(void *argument)
{
    struct gp_run *run = argument;
    uint64_t began_ns = gp_clock_now_ns();
    uint32_t started = start_workers(run);
    struct gp_disturbance before;

    await(run, &run->gate.connected, started);
    run->result.connect_ns = gp_clock_now_ns() - began_ns;
    gp_disturbance_read(&before);
    gp_gate_open(&run->gate);
    await(run, &run->gate.ended, started);
    note_disturbance(&run->result, &before);
    for (uint32_t i = 0; i < run->threads; i++)
        gp_worker_join(&run->workers[i]);
    find_cause(run);
    gp_progress_close(&run->progress, run->workers);
    if (!run->failed)
        run->failed = gp_merge(&run->result, run->workers, run->threads, &run->timeline, &run->err) != 0;
    announce_end(run);
    return NULL;
}

/* --- from outside --- */

int gp_run_start(struct gp_run *run, struct gp_error *err)
{
    assert(!run->started);
    if (gp_thread_start(&run->conductor, "gp-run", conduct, run, err) != 0)
        return -1;
    run->started = true;
    return 0;
}

bool gp_run_wait(struct gp_run *run, uint64_t timeout_ns)
{
    struct timespec until = gp_thread_until(timeout_ns);
    bool ended;

    pthread_mutex_lock(&run->lock);
    while (!run->ended && pthread_cond_timedwait(&run->changed, &run->lock, &until) == 0)
        ;
    ended = run->ended;
    pthread_mutex_unlock(&run->lock);
    return ended;
}

void gp_run_stop(struct gp_run *run)
{
    gp_timeline_cease(&run->timeline, GP_CEASE_STOP);
}

/* The phase of the run is that of its slowest thread. */
static enum gp_run_phase phase_of(struct gp_run *run)
{
    int phase = GP_RUN_ENDED;

    if (gp_run_wait(run, 0))
        return GP_RUN_ENDED;
    for (uint32_t i = 0; i < run->threads; i++) {
        int its = atomic_load_explicit(&run->workers[i].generator.progress.phase, memory_order_relaxed);

        phase = its < phase ? its : phase;
    }
    return (enum gp_run_phase)phase;
}

void gp_run_snapshot(struct gp_run *run, struct gp_run_snapshot *snapshot)
{
    uint64_t begin_ns = atomic_load(&run->timeline.begin_ns);
    uint64_t start_ns = gp_timeline_start_ns(&run->timeline, begin_ns);
    uint64_t now_ns = gp_clock_now_ns();

    *snapshot = (struct gp_run_snapshot){.phase = phase_of(run)};
    if (snapshot->phase == GP_RUN_ENDED)
        snapshot->elapsed_ns = run->result.window_ns;
    else if (begin_ns > 0 && now_ns > start_ns)
        snapshot->elapsed_ns = now_ns - start_ns;
    gp_progress_look(&run->progress, run->workers, snapshot);
}

int gp_run_result(struct gp_run *run, const struct gp_run_result **result, struct gp_error *err)
{
    assert(run->ended);
    *result = run->failed ? NULL : &run->result;
    if (run->failed && err)
        *err = run->err;
    return run->failed ? -1 : 0;
}

static void fini_result(struct gp_run_result *result)
{
    struct gp_histogram *histograms[] = {&result->latency,       &result->errors,      &result->service,
                                         &result->lag,           &result->queued,      &result->gap,
                                         &result->first_message, &result->message_gap, &result->round_trip};

    for (size_t i = 0; i < sizeof histograms / sizeof *histograms; i++)
        gp_histogram_fini(histograms[i]);
    gp_windows_fini(&result->windows);
}

void gp_run_destroy(struct gp_run *run)
{
    if (!run)
        return;
    gp_timeline_cease(&run->timeline, GP_CEASE_ABANDON);
    if (run->started)
        pthread_join(run->conductor, NULL);
    for (uint32_t i = 0; i < run->threads_made; i++)
        gp_worker_fini(&run->workers[i]);
    gp_progress_fini(&run->progress);
    free(run->workers);
    free(run->steps);
    free(run->cpus);
    fini_result(&run->result);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    pthread_mutex_destroy(&run->pool_lock);
    gp_gate_fini(&run->gate);
    free(run);
}
