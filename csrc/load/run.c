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
#include "load/thread.h"
#include "load/worker.h"

struct gp_run {
    struct gp_timeline timeline;
    struct gp_gate gate;
    uint32_t threads;
    struct gp_worker *workers; /* of them, the first `threads_made` are initialised */
    uint32_t threads_made;
    int *cpus;
    int server_pidfd; /* -1 once it has told the death */

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
    worker.generator = (struct gp_generator_opts){
        .timeline = &run->timeline,
        .concurrency = client.max_in_flight,
        .calls = opts->calls ? share(opts->calls, opts->threads, index) : UINT64_MAX,
        .drain_ns = opts->drain_ns,
        .think_ns = opts->think_ns,
        .endless = is_endless(&opts->client.request),
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
    run->timeline.warmup_ns = opts->warmup_ns;
    run->timeline.duration_ns = opts->duration_ns;
    run->timeline.threads = run->threads = opts->threads;
    run->timeline.server_pid = opts->server_pid;
    run->server_pidfd = opts->server_pidfd;
    run->workers = calloc(opts->threads, sizeof *run->workers);
    if (!run->workers || copy_cpus(run, opts) != 0) {
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

/* --- the conductor's thread
 * ------------------------------------------------------------------------------------ */

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

static void sum_worker(struct gp_run_result *result, const struct gp_worker *worker)
{
    const struct gp_generator *generator = &worker->generator;

    result->connected += worker->stats.connected;
    result->reconnects += worker->stats.reconnects;
    result->stopped |= generator->cut_by == GP_CEASE_STOP;
    result->client_cpu_known &= generator->entered && generator->cpu_known;
    if (generator->drained_ns > result->drain_ns)
        result->drain_ns = generator->drained_ns;
    if (!generator->entered)
        return;
    result->client_cpu_ns += generator->marks[1].cpu_ns - generator->marks[0].cpu_ns;
    result->messages_sent += generator->marks[1].messages_sent - generator->marks[0].messages_sent;
    result->messages_received +=
        generator->marks[1].messages_received - generator->marks[0].messages_received;
}

static void merge(struct gp_run *run)
{
    struct gp_run_result *result = &run->result;
    const struct gp_timeline *timeline = &run->timeline;
    struct gp_recorder *whole = &run->workers[0].recorder;

    result->client_cpu_known = true;
    for (uint32_t i = 0; i < run->threads; i++) {
        if (i > 0)
            gp_recorder_merge(whole, &run->workers[i].recorder);
        sum_worker(result, &run->workers[i]);
    }
    if (whole->out_of_memory) {
        run->failed = true;
        gp_error_set(&run->err, GP_ERROR_ENGINE, "out of memory for the windows of a load run");
    }
    gp_recorder_move(whole, result);
    result->server_cpu_known = timeline->server_cpu_known[0] && timeline->server_cpu_known[1];
    if (result->server_cpu_known)
        result->server_cpu_ns = timeline->server_cpu_ns[1] - timeline->server_cpu_ns[0];
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

    await(run, &run->gate.connected, started);
    run->result.connect_ns = gp_clock_now_ns() - began_ns;
    gp_gate_open(&run->gate);
    await(run, &run->gate.ended, started);
    for (uint32_t i = 0; i < run->threads; i++)
        gp_worker_join(&run->workers[i]);
    find_cause(run);
    if (!run->failed)
        merge(run);
    announce_end(run);
    return NULL;
}

/* --- from outside
 * ---------------------------------------------------------------------------------------------- */

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
    for (uint32_t i = 0; i < run->threads; i++) {
        struct gp_generator_progress *progress = &run->workers[i].generator.progress;

        snapshot->calls += atomic_load_explicit(&progress->finished, memory_order_relaxed);
        snapshot->ok += atomic_load_explicit(&progress->ok, memory_order_relaxed);
    }
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
    for (size_t i = 0; i < result->window_count; i++)
        free(result->windows[i].entries);
    free(result->windows);
    gp_histogram_fini(&result->latency);
    gp_histogram_fini(&result->errors);
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
    free(run->workers);
    free(run->cpus);
    fini_result(&run->result);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    gp_gate_fini(&run->gate);
    free(run);
}
