/* dispatch: the conductor. Connect, write, settle what is offered, deliver what is on disk, and let
 * everything end. */
#include "load/dispatch_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "load/thread.h"

#define LOOK_NS (2 * GP_NS_PER_MS)
#define STOP_GRACE_NS GP_NS_PER_S
#define MOST_MESSAGES (UINT64_C(1) << 32)

_Static_assert(GP_SPILL_BYTES == GP_CLIENT_FEED_BYTES, "what is spilled can be sent");

/* --- create ------------------------------------------------------------------------------------ */

static int no_memory(struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a dispatch");
}

static int check(const struct gp_dispatch_opts *opts, struct gp_error *err)
{
    if (opts->stream_count == 0)
        return gp_error_set(err, GP_ERROR_INVALID, "no streams: there must be at least 1");
    if (opts->writers > 0 && (opts->period_ns == 0 || opts->timeout_ns == 0))
        return gp_error_set(err, GP_ERROR_INVALID,
                            "a writer's period and the hand-off's timeout must be above 0");
    return 0;
}

static int copy_message(struct gp_dispatch *dispatch, const struct gp_request *request, struct gp_error *err)
{
    const void *bytes = request->pool_count > 0 ? request->pool[0].bytes : request->message;
    size_t size = request->pool_count > 0 ? request->pool[0].size : request->message_bytes;

    if (size < GP_DISPATCH_STAMP_BYTES || size > GP_CLIENT_FEED_BYTES)
        return gp_error_set(err, GP_ERROR_INVALID, "a message of %zu bytes: it must have %u to %u", size,
                            GP_DISPATCH_STAMP_BYTES, GP_CLIENT_FEED_BYTES);
    dispatch->message_bytes = (uint32_t)size;
    dispatch->message = malloc(size);
    if (!dispatch->message)
        return no_memory(err);
    memcpy(dispatch->message, bytes, size);
    return 0;
}

/* A place for each message that may come to be: a writer says one in each period at most, and one more. */
static int make_fates(struct gp_dispatch *dispatch, struct gp_error *err)
{
    const struct gp_dispatch_opts *opts = &dispatch->opts;
    double each = opts->writers > 0 ? (double)opts->duration_ns / (double)opts->period_ns + 2 : 0;
    double most = each * opts->writers;

    if (most >= (double)MOST_MESSAGES)
        return gp_error_set(err, GP_ERROR_INVALID, "%.3g messages are too many to keep account of", most);
    dispatch->fates_count = (uint64_t)most + 1;
    dispatch->fates = calloc(dispatch->fates_count, sizeof *dispatch->fates);
    return dispatch->fates ? 0 : no_memory(err);
}

static int make_queues(struct gp_dispatch *dispatch, struct gp_error *err)
{
    const struct gp_dispatch_opts *opts = &dispatch->opts;
    uint32_t count = opts->policy == GP_DISPATCH_ROUND_ROBIN ? opts->stream_count : 1;

    dispatch->queues = calloc(count, sizeof *dispatch->queues);
    if (!dispatch->queues)
        return no_memory(err);
    for (; dispatch->queue_count < count; dispatch->queue_count++)
        if (gp_dispatch_queue_init(&dispatch->queues[dispatch->queue_count], opts->writers, opts->buffer) < 0)
            return no_memory(err);
    return 0;
}

static int make_threads(struct gp_dispatch *dispatch, const struct gp_client_opts *streams,
                        struct gp_error *err)
{
    const struct gp_dispatch_opts *opts = &dispatch->opts;

    dispatch->writer_threads = opts->writer_threads > 0 ? opts->writer_threads : 1;
    if (dispatch->writer_threads > opts->writers)
        dispatch->writer_threads = opts->writers;
    dispatch->streams = calloc(opts->stream_count, sizeof *dispatch->streams);
    dispatch->writers = calloc(dispatch->writer_threads + 1, sizeof *dispatch->writers);
    if (!dispatch->streams || !dispatch->writers)
        return no_memory(err);
    for (uint32_t i = 0; i < dispatch->writer_threads; i++)
        if (dispatch_writers_init(&dispatch->writers[i], dispatch, i) < 0)
            return no_memory(err);
    for (uint32_t i = 0; i < opts->stream_count; i++)
        if (dispatch_stream_init(&dispatch->streams[i], dispatch, i, &streams[i], err) < 0)
            return -1;
    return 0;
}

static int open_spill(struct gp_dispatch *dispatch, const struct gp_spill_opts *given, struct gp_error *err)
{
    struct gp_spill_opts opts = *given;
    struct gp_spill_stats stats;

    opts.most_out = dispatch->opts.stream_count;
    if (gp_spill_create(&dispatch->spill, &opts, err) < 0)
        return -1;
    gp_spill_stats(dispatch->spill, &stats);
    dispatch->result.first_sequence = stats.first_sequence;
    return 0;
}

int gp_dispatch_create(struct gp_dispatch **created, const struct gp_dispatch_opts *opts,
                       struct gp_error *err)
{
    struct gp_dispatch *dispatch;

    *created = NULL;
    if (check(opts, err) < 0)
        return -1;
    dispatch = calloc(1, sizeof *dispatch);
    if (!dispatch)
        return no_memory(err);
    dispatch->opts = *opts;
    dispatch->opts.streams = NULL;
    dispatch->opts.spill.directory = NULL;
    pthread_mutex_init(&dispatch->lock, NULL);
    gp_histogram_init(&dispatch->result.held_up);
    gp_histogram_init(&dispatch->result.delivery);
    if (gp_thread_cond_init(&dispatch->changed) < 0 ||
        copy_message(dispatch, &opts->streams[0].request, err) < 0 || make_fates(dispatch, err) < 0 ||
        make_queues(dispatch, err) < 0 || make_threads(dispatch, opts->streams, err) < 0 ||
        open_spill(dispatch, &opts->spill, err) < 0) {
        gp_dispatch_destroy(dispatch);
        return -1;
    }
    *created = dispatch;
    return 0;
}

/* --- the conductor's thread -------------------------------------------------------------------- */

static bool is_stopped(struct gp_dispatch *dispatch)
{
    return atomic_load(&dispatch->stop);
}

static void enter(struct gp_dispatch *dispatch, enum dispatch_phase phase)
{
    atomic_store(&dispatch->phase, (int)phase);
}

/* Sleep until then, or until told to stop. */
static void rest(struct gp_dispatch *dispatch, uint64_t until_ns)
{
    struct timespec until = gp_clock_timespec(until_ns);

    pthread_mutex_lock(&dispatch->lock);
    while (!is_stopped(dispatch) && pthread_cond_timedwait(&dispatch->changed, &dispatch->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&dispatch->lock);
}

/* Between two looks at what threads have come to. */
static void nap(void)
{
    struct timespec pause = gp_clock_timespec(LOOK_NS);

    nanosleep(&pause, NULL);
}

static bool all_connected(const struct gp_dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->opts.stream_count; i++)
        if (!dispatch->streams[i].connected)
            return false;
    return true;
}

static void wait_connected(struct gp_dispatch *dispatch)
{
    while (atomic_load(&dispatch->connecting) > 0 && !is_stopped(dispatch))
        nap();
}

static bool is_settled(struct gp_dispatch *dispatch)
{
    return atomic_load(&dispatch->settled) == dispatch->writer_threads &&
           atomic_load(&dispatch->offered) == 0;
}

static bool is_finished(struct gp_dispatch *dispatch)
{
    return atomic_load(&dispatch->live_streams) == 0;
}

/* As long as it takes, or may take. Being told to stop is no reason to lose what streams have in hand. */
static bool wait_until(struct gp_dispatch *dispatch, bool (*is_done)(struct gp_dispatch *), uint64_t most_ns,
                       bool even_if_stopped)
{
    uint64_t limit_ns = gp_clock_now_ns() + most_ns;

    while (!is_done(dispatch) && gp_clock_now_ns() < limit_ns && (even_if_stopped || !is_stopped(dispatch)))
        nap();
    return is_done(dispatch);
}

static void conduct(struct gp_dispatch *dispatch)
{
    const struct gp_dispatch_opts *opts = &dispatch->opts;
    uint64_t grace_ns = opts->drain_ns;

    dispatch->begin_ns = gp_clock_now_ns();
    dispatch->end_ns = dispatch->begin_ns + (opts->writers > 0 ? opts->duration_ns : 0);
    enter(dispatch, DISPATCH_WRITE);
    rest(dispatch, dispatch->end_ns);
    dispatch->result.wrote_ns = gp_clock_now_ns();
    enter(dispatch, DISPATCH_SETTLE);
    if (wait_until(dispatch, is_settled, opts->drain_ns, false)) {
        enter(dispatch, DISPATCH_REPLAY);
        wait_until(dispatch, is_finished, opts->drain_ns, false);
    }
    enter(dispatch, DISPATCH_FINISH);
    if (is_stopped(dispatch) && grace_ns > STOP_GRACE_NS)
        grace_ns = STOP_GRACE_NS;
    wait_until(dispatch, is_finished, grace_ns, true);
}

static int start_streams(struct gp_dispatch *dispatch, uint32_t *started, struct gp_error *err)
{
    uint32_t count = dispatch->opts.stream_count;

    atomic_store(&dispatch->connecting, count);
    atomic_store(&dispatch->live_streams, count);
    for (; *started < count; ++*started)
        if (gp_thread_start(&dispatch->streams[*started].thread, "gp-stream", dispatch_stream_run,
                            &dispatch->streams[*started], err) < 0)
            return -1;
    return 0;
}

static int start_writers(struct gp_dispatch *dispatch, uint32_t *started, struct gp_error *err)
{
    for (; *started < dispatch->writer_threads; ++*started)
        if (gp_thread_start(&dispatch->writers[*started].thread, "gp-writers", dispatch_writers_run,
                            &dispatch->writers[*started], err) < 0)
            return -1;
    return 0;
}

static int connect_streams(struct gp_dispatch *dispatch)
{
    wait_connected(dispatch);
    if (is_stopped(dispatch) && atomic_load(&dispatch->connecting) > 0)
        return gp_error_set(&dispatch->err, GP_ERROR_STOPPED, "stopped while connecting");
    if (all_connected(dispatch))
        return 0;
    for (uint32_t i = 0; i < dispatch->opts.stream_count; i++)
        if (!dispatch->streams[i].connected) {
            dispatch->err = dispatch->streams[i].err;
            break;
        }
    return -1;
}

static void *conductor(void *argument)
{
    struct gp_dispatch *dispatch = argument;
    uint32_t streams = 0, writers = 0;

    if (start_streams(dispatch, &streams, &dispatch->err) == 0 && connect_streams(dispatch) == 0 &&
        start_writers(dispatch, &writers, &dispatch->err) == 0)
        conduct(dispatch);
    atomic_store(&dispatch->stop, 1); /* for streams that still connect */
    enter(dispatch, DISPATCH_END);
    while (streams > 0)
        pthread_join(dispatch->streams[--streams].thread, NULL);
    dispatch_spill_buffered(dispatch);
    enter(dispatch, DISPATCH_CLOSE);
    while (writers > 0)
        pthread_join(dispatch->writers[--writers].thread, NULL);
    dispatch_take_account(dispatch);
    pthread_mutex_lock(&dispatch->lock);
    dispatch->finished = true;
    pthread_cond_broadcast(&dispatch->changed);
    pthread_mutex_unlock(&dispatch->lock);
    return NULL;
}

/* --- from outside ------------------------------------------------------------------------------ */

int gp_dispatch_start(struct gp_dispatch *dispatch, struct gp_error *err)
{
    if (gp_thread_start(&dispatch->thread, "gp-dispatch", conductor, dispatch, err) != 0)
        return -1;
    dispatch->started = true;
    return 0;
}

void gp_dispatch_stop(struct gp_dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->lock);
    atomic_store(&dispatch->stop, 1);
    pthread_cond_broadcast(&dispatch->changed);
    pthread_mutex_unlock(&dispatch->lock);
}

bool gp_dispatch_wait_finished(struct gp_dispatch *dispatch, uint64_t timeout_ns)
{
    struct timespec until = gp_thread_until(timeout_ns);
    bool finished;

    pthread_mutex_lock(&dispatch->lock);
    while (!dispatch->finished && pthread_cond_timedwait(&dispatch->changed, &dispatch->lock, &until) == 0)
        ;
    finished = dispatch->finished;
    pthread_mutex_unlock(&dispatch->lock);
    return finished;
}

int gp_dispatch_result(struct gp_dispatch *dispatch, const struct gp_dispatch_result **result,
                       struct gp_error *err)
{
    assert(dispatch->finished);
    *result = &dispatch->result;
    if (dispatch->err.code == GP_ERROR_NONE)
        return 0;
    *err = dispatch->err;
    return -1;
}

void gp_dispatch_destroy(struct gp_dispatch *dispatch)
{
    if (!dispatch)
        return;
    if (dispatch->started) {
        gp_dispatch_stop(dispatch);
        pthread_join(dispatch->thread, NULL);
    }
    for (uint32_t i = 0; dispatch->streams && i < dispatch->opts.stream_count; i++)
        dispatch_stream_fini(&dispatch->streams[i]);
    for (uint32_t i = 0; dispatch->writers && i < dispatch->writer_threads; i++)
        dispatch_writers_fini(&dispatch->writers[i]);
    for (uint32_t i = 0; i < dispatch->queue_count; i++)
        gp_dispatch_queue_fini(&dispatch->queues[i]);
    gp_spill_destroy(dispatch->spill);
    gp_histogram_fini(&dispatch->result.held_up);
    gp_histogram_fini(&dispatch->result.delivery);
    pthread_cond_destroy(&dispatch->changed);
    pthread_mutex_destroy(&dispatch->lock);
    free(dispatch->streams);
    free(dispatch->writers);
    free(dispatch->queues);
    free(dispatch->fates);
    free(dispatch->message);
    free(dispatch);
}
