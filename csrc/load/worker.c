/* worker: the life of one load thread, from its connections to its last call, and the gate where the threads
 * of a run wait for each other. */
#include "load/worker.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/client.h"
#include "load/loop.h"
#include "load/thread.h"

int gp_gate_init(struct gp_gate *gate, struct gp_error *err)
{
    *gate = (struct gp_gate){.eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (gate->eventfd < 0)
        return gp_error_errno(err, "cannot make the event descriptor of a load run");
    if (gp_thread_cond_init(&gate->opened) != 0) {
        gp_error_errno(err, "cannot make the condition variable of a load run");
        close(gate->eventfd);
        return -1;
    }
    pthread_mutex_init(&gate->lock, NULL);
    return 0;
}

void gp_gate_fini(struct gp_gate *gate)
{
    close(gate->eventfd);
    pthread_cond_destroy(&gate->opened);
    pthread_mutex_destroy(&gate->lock);
}

void gp_gate_open(struct gp_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static void wait_at(struct gp_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void report(struct gp_gate *gate, atomic_uint *counter)
{
    uint64_t one = 1;

    atomic_fetch_add(counter, 1);
    /* Cannot fail but by overflow, and then the conductor is awake anyway. */
    if (write(gate->eventfd, &one, sizeof one) < 0)
        return;
}

static bool gets_many_messages(enum gp_kind kind)
{
    return kind == GP_KIND_SERVER_STREAM || kind == GP_KIND_BIDI || kind == GP_KIND_BIDI_FREE;
}

static int init_records(struct gp_worker *worker, const struct gp_worker_opts *opts)
{
    struct gp_generator_opts generator = opts->generator;

    generator.client = worker->client;
    generator.recorder = &worker->recorder;
    if (gets_many_messages(opts->client->request.kind))
        generator.times = &worker->times;
    if (gp_recorder_init(&worker->recorder, opts->window_ns, generator.loop == &gp_open_loop) != 0)
        return -1;
    return gp_generator_init(&worker->generator, &generator);
}

/* Before the client, which holds on to it. */
static int init_times(struct gp_worker *worker, struct gp_client_opts *client)
{
    client->times = NULL;
    if (!gets_many_messages(client->request.kind))
        return 0;
    client->times = &worker->times;
    return gp_message_times_init(&worker->times, client->request.kind, client->max_in_flight);
}

int gp_worker_init(struct gp_worker *worker, const struct gp_worker_opts *opts, struct gp_error *err)
{
    struct gp_client_opts client = *opts->client;

    *worker = (struct gp_worker){
        .number = opts->number,
        .connect_timeout_ns = opts->connect_timeout_ns,
        .cpus = opts->cpus,
        .cpu_count = opts->cpu_count,
        .gate = opts->gate,
        .timeline = opts->generator.timeline,
    };
    if (init_times(worker, &client) != 0)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a load thread");
    if (gp_client_create(&worker->client, &client, err) != 0) {
        gp_message_times_fini(&worker->times);
        return -1;
    }
    if (init_records(worker, opts) != 0) {
        gp_worker_fini(worker);
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a load thread with %u calls in flight",
                            client.max_in_flight);
    }
    return 0;
}

void gp_worker_fini(struct gp_worker *worker)
{
    gp_client_destroy(worker->client);
    worker->client = NULL;
    gp_generator_fini(&worker->generator);
    gp_recorder_fini(&worker->recorder);
    gp_message_times_fini(&worker->times);
}

static int prepare(struct gp_worker *worker)
{
    if (gp_thread_bind(worker->cpus, worker->cpu_count, &worker->err) != 0)
        return -1;
    return gp_client_connect(worker->client, worker->connect_timeout_ns, &worker->timeline->cease,
                             &worker->err);
}

static void *work(void *argument)
{
    struct gp_worker *worker = argument;

    worker->failed = prepare(worker) != 0;
    if (worker->failed)
        gp_timeline_cease(worker->timeline,
                          GP_CEASE_ABANDON); /* a run on part of its threads is not what was asked */
    report(worker->gate, &worker->gate->connected);
    wait_at(worker->gate);
    if (!worker->failed) {
        gp_generator_run(&worker->generator);
        gp_client_stats(worker->client, &worker->stats);
        worker->cause_count = gp_client_causes(worker->client, worker->causes);
    }
    gp_client_destroy(worker->client); /* the connections close with the run, not with its result */
    worker->client = NULL;
    report(worker->gate, &worker->gate->ended);
    return NULL;
}

int gp_worker_start(struct gp_worker *worker, struct gp_error *err)
{
    char name[16];

    snprintf(name, sizeof name, "gp-load-%u", worker->number);
    worker->started = gp_thread_start(&worker->thread, name, work, worker, err) == 0;
    return worker->started ? 0 : -1;
}

void gp_worker_join(struct gp_worker *worker)
{
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}
