/* The models whose threads are used again.
 *
 * StreamWorkers: grpc-go's NumStreamWorkers. A call is handed to a worker that is free; when all are busy it
 * gets a thread of its own, as under ThreadPerCall. So it never waits, and the number is no limit.
 *
 * Pool: there are no other threads. A call that has passed the limits waits in line, which has bounds; beyond
 * them it is refused.
 *
 * A worker is free for the next call from the moment its handler has ended, which is before the answer goes
 * out: a client that answers an answer with a call must not find the pool full. */
#include "server/models.h"

#include "server/attend.h"
#include "server/server.h"

static struct gp_workers *workers_of(const struct gp_call *call)
{
    return &call->queue->server->workers;
}

/* --- the calls' side --- */

/* False: there are as many as may be. */
static bool line_up(struct gp_call *call)
{
    struct gp_workers *workers = workers_of(call);
    pthread_mutex_lock(&workers->lock);
    bool room = workers->taken < workers->most;
    if (room) {
        workers->taken++;
        call->place = GP_PLACE_IN_LINE;
        call->inbox.attended = true; /* from here on by a worker, also before it comes */
        gp_call_queue(call);
        gp_fifo_push(&workers->line, &call->link);
    }
    pthread_mutex_unlock(&workers->lock);
    if (room)
        pthread_cond_signal(&workers->more);
    return room;
}

/* Out of the line, back to the queue's thread; false: it is not in it. */
static bool withdraw(struct gp_call *call)
{
    struct gp_workers *workers = workers_of(call);
    pthread_mutex_lock(&workers->lock);
    bool waited = call->place == GP_PLACE_IN_LINE;
    if (waited) {
        gp_fifo_remove(&workers->line, &call->link);
        gp_call_unqueue(call);
        call->inbox.attended = false;
        call->place = GP_PLACE_WITH_WORKER; /* as far as `left` is concerned */
    }
    pthread_mutex_unlock(&workers->lock);
    return waited;
}

static void deliver(struct gp_call *call, enum gp_event event)
{
    if (event == GP_EVENT_CLOSED && call->close_cancelled && withdraw(call))
        gp_queue_step(call, event);
    else
        gp_attend_deliver(call, event);
}

static void left(struct gp_call *call)
{
    struct gp_workers *workers = workers_of(call);
    pthread_mutex_lock(&workers->lock);
    workers->taken -= call->place != GP_PLACE_ELSEWHERE;
    call->place = GP_PLACE_ELSEWHERE;
    pthread_mutex_unlock(&workers->lock);
}

/* --- the workers' side --- */

static struct gp_call *next_in_line(struct gp_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    while (!workers->line.first)
        pthread_cond_wait(&workers->more, &workers->lock);
    struct gp_call *call = gp_call_of_link(gp_fifo_pop(&workers->line));
    call->place = GP_PLACE_WITH_WORKER;
    gp_call_unqueue(call);
    pthread_mutex_unlock(&workers->lock);
    return call;
}

static void work(struct gp_server *server, void (*first)(struct gp_call *call))
{
    struct gp_stack stack;
    gp_stacks_enter(&server->stacks, &stack);
    for (;;)
        gp_attend(next_in_line(&server->workers), first);
}

static int start(struct gp_server *server, size_t most, void *(*thread_main)(void *))
{
    struct gp_workers *workers = &server->workers;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->more, NULL);
    workers->most = most;
    int error = gp_model_thread_prepare(server);
    for (unsigned i = 0; i < server->options->workers && !error; i++) {
        pthread_t thread;
        error = pthread_create(&thread, &server->call_thread, thread_main, server);
    }
    if (!error) /* what memory is compared with begins with all of them there */
        gp_stacks_wait(&server->stacks, server->options->workers);
    return error;
}

/* --- StreamWorkers: the limits come after the thread --- */

static void *stream_worker_main(void *server)
{
    work(server, gp_call_enter);
    return NULL;
}

static int stream_workers_start(struct gp_server *server)
{
    return start(server, server->options->workers, stream_worker_main);
}

static void stream_workers_run(struct gp_call *call)
{
    if (!line_up(call))
        gp_model_thread_run(call);
}

const struct gp_model gp_model_stream_workers = {
    .name = "stream-workers",
    .owns_threads = true,
    .start = stream_workers_start,
    .run = stream_workers_run,
    .begin = gp_call_begin,
    .left = left,
    .deliver = deliver,
    .wake_at = gp_attend_wake_at,
    .forget = gp_attend_forget,
};

/* --- Pool: the limits come before the line --- */

static void *pool_main(void *server)
{
    work(server, gp_call_begin);
    return NULL;
}

static int pool_start(struct gp_server *server)
{
    return start(server, (size_t)server->options->workers + server->options->queue, pool_main);
}

static void pool_begin(struct gp_call *call)
{
    if (!line_up(call))
        gp_call_reject(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "the pool's queue is full");
}

const struct gp_model gp_model_pool = {
    .name = "pool",
    .owns_threads = true,
    .start = pool_start,
    .run = gp_call_enter,
    .begin = pool_begin,
    .left = left,
    .deliver = deliver,
    .wake_at = gp_attend_wake_at,
    .forget = gp_attend_forget,
};
