/* core_client: the transport "core", on the real gRPC C core. Channels (each made to own exactly one
 * connection), the one completion queue of a client, waiting, and the start of gRPC itself. What a call
 * consists of is in core_call.c. gRPC headers are included in core_*.c alone. */
#include "client/core.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <grpc/support/log.h>

#include "base/clock.h"
#include "base/error.h"

#define CONNECTING_MAX 128u /* at a time: more overflow the server's listen queue and cost seconds */
#define STOP_LOOK_NS (20 * GP_NS_PER_MS)
#define ASK_NS GP_NS_PER_S
#define FINISH_NS (2 * GP_NS_PER_S) /* for calls to come back that were cancelled at the client's end */
#define RESTING_NS GP_NS_PER_MS
#define RESTING_STEPS 64u
#define LATE_STEPS 64u /* what poll still takes in when its time has passed */
/* Calls given back at a time. Taking one costs as much as sending one: in a large batch the first would wait
 * for all the others before it is sent again, and of 64 calls asked for a third would not be in flight. */
#define EVENTS_AT_ONCE 16u

/* --- gRPC itself ------------------------------------------------------------------------------- */

static _Atomic pid_t started_in; /* the process whose gRPC this is; 0: not started */
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

static void say_nothing(gpr_log_func_args *unused) {}

/* gRPC tells stderr of every handshake that fails; who wants that sets the environment variable. */
static void start(void)
{
    gp_usage_begin();
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_function(say_nothing);
    grpc_init();
}

/* gRPC is started at the first use and stays: its threads then are constant. They do not survive
 * a fork, and gRPC hangs without them, so a forked child is refused before it touches a lock
 * that may be held for ever. */
static int start_grpc(struct gp_error *err)
{
    pid_t nobody = 0, self = getpid();

    if (!atomic_compare_exchange_strong(&started_in, &nobody, self) && nobody != self)
        return gp_error_set(err, GP_ERROR_ENGINE,
                            "gRPC was started in process %d before it forked: use spawn instead of fork",
                            (int)nobody);
    pthread_once(&start_once, start);
    return 0;
}

const char *gp_client_core_version(void)
{
    return grpc_version_string();
}

/* --- create ------------------------------------------------------------------------------------ */

static void *aligned_zeros(size_t count, size_t size)
{
    void *memory = aligned_alloc(CORE_TAG_ALIGN, count * size);

    return memory ? memset(memory, 0, count * size) : NULL;
}

static int build_storage(struct core_client *client, const struct gp_client_opts *opts, struct gp_error *err)
{
    client->channels = aligned_zeros(opts->connections, sizeof *client->channels);
    client->calls = aligned_zeros(opts->max_in_flight, sizeof *client->calls);
    client->resting = calloc(opts->max_in_flight, sizeof *client->resting);
    if (!client->channels || !client->calls || !client->resting)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for %u calls in flight",
                            opts->max_in_flight);
    client->channel_count = opts->connections;
    for (; client->call_count < opts->max_in_flight; client->call_count++)
        core_call_init(&client->calls[client->call_count]);
    if (gp_pool_init(&client->pool, opts->pick, opts->connections, opts->max_in_flight, opts->lock) < 0)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for %u connections", opts->connections);
    for (uint32_t i = 0; i < opts->connections; i++)
        gp_pool_add(&client->pool, 0);
    return 0;
}

static void destroy(struct gp_client *base);

static int create(struct gp_client **created, const struct gp_client_opts *opts, struct gp_error *err)
{
    struct core_client *client;

    if (start_grpc(err) < 0)
        return -1;
    client = calloc(1, sizeof *client);
    if (!client)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    client->base.transport = &gp_core_transport;
    client->pid = getpid();
    client->queue = grpc_completion_queue_create_for_next(NULL);
    gp_usage_join(&client->usage, opts->owner);
    if (core_opts_copy(client, opts, err) < 0 || build_storage(client, opts, err) < 0) {
        destroy(&client->base);
        return -1;
    }
    *created = &client->base;
    return 0;
}

/* --- channels ---------------------------------------------------------------------------------- */

static void watch(struct core_client *client, struct core_channel *channel)
{
    grpc_channel_watch_connectivity_state(channel->channel, channel->state, core_time(UINT64_MAX),
                                          client->queue, core_tag(channel, CORE_STEP_CHANNEL));
}

static void note_state(struct core_client *client, struct core_channel *channel,
                       grpc_connectivity_state state)
{
    client->ready += (state == GRPC_CHANNEL_READY) - (channel->state == GRPC_CHANNEL_READY);
    client->failing += (state > GRPC_CHANNEL_READY) - (channel->state > GRPC_CHANNEL_READY);
    if (state == GRPC_CHANNEL_READY && channel->lost)
        client->reconnects++;
    if (state == GRPC_CHANNEL_READY)
        channel->lost = false;
    else if (channel->state == GRPC_CHANNEL_READY)
        channel->lost = true;
    channel->state = state;
}

static void open_channel(struct core_client *client)
{
    struct core_channel *channel = &client->channels[client->opened++];

    channel->channel = grpc_channel_create(client->target, client->credentials, &client->args);
    channel->method = grpc_channel_register_call(channel->channel, client->method, NULL, NULL);
    channel->state = GRPC_CHANNEL_IDLE;
    note_state(client, channel, grpc_channel_check_connectivity_state(channel->channel, 1));
    if (channel->state != GRPC_CHANNEL_TRANSIENT_FAILURE) /* which it stays when gRPC made none */
        watch(client, channel);
}

/* Asking with try_to_connect is what makes a lost connection come back although no call wants it. */
static void channel_step(struct core_client *client, struct core_channel *channel)
{
    if (client->closing)
        return;
    note_state(client, channel, grpc_channel_check_connectivity_state(channel->channel, 1));
    watch(client, channel);
}

/* --- waiting ----------------------------------------------------------------------------------- */

/* Take one thing from the queue, waiting until then; false when there was none. */
static bool next_step(struct core_client *client, uint64_t until_ns, struct gp_event *event, bool *finished,
                      uint64_t *now_ns)
{
    grpc_event came = grpc_completion_queue_next(client->queue, core_time(until_ns), NULL);
    void *object = core_tag_object(came.tag);

    *finished = false;
    if (came.type != GRPC_OP_COMPLETE)
        return false;
    *now_ns = gp_clock_now_ns();
    gp_usage_active(&client->usage, *now_ns);
    if (core_tag_step(came.tag) == CORE_STEP_CHANNEL) {
        channel_step(client, object);
        return true;
    }
    *finished = core_call_step(client, object, core_tag_step(came.tag), came.success, *now_ns, event);
    if (*finished)
        event->id = (uint64_t)((struct core_call *)object - client->calls);
    return true;
}

/* Streams that rest go on when the queue has been found empty, or when enough of other things has happened.
 * To be found empty takes a real wait, be it short: a look without one leaves the sockets alone. */
static uint64_t patience_ns(const struct core_client *client, size_t count, uint64_t until_ns)
{
    if (count > 0)
        return 0;
    return client->resting_count > 0 ? gp_clock_now_ns() + RESTING_NS : until_ns;
}

static void let_rest(struct core_client *client, bool empty)
{
    client->steps_at_rest = empty ? RESTING_STEPS : client->steps_at_rest + 1;
    if (client->steps_at_rest < RESTING_STEPS)
        return;
    client->steps_at_rest = 0;
    core_call_wake(client);
}

/* What is there already is taken along, for that costs no waiting; but streams that step for ever must not
 * keep the caller beyond its time. */
static size_t take_events(struct gp_client *base, struct gp_event *events, size_t capacity, uint64_t until_ns)
{
    struct core_client *client = (struct core_client *)base;
    uint64_t now_ns = 0;
    size_t count = 0;
    bool finished;

    if (capacity > EVENTS_AT_ONCE)
        capacity = EVENTS_AT_ONCE;
    for (unsigned steps = 0; count < capacity && (now_ns < until_ns || steps < LATE_STEPS); steps++) {
        bool came =
            next_step(client, patience_ns(client, count, until_ns), &events[count], &finished, &now_ns);

        if (came)
            count += finished;
        if (client->resting_count > 0)
            let_rest(client, !came);
        else if (!came)
            break;
    }
    return count;
}

static void submit(struct gp_client *base, const uint64_t *ids, size_t count)
{
    struct core_client *client = (struct core_client *)base;

    for (size_t i = 0; i < count; i++) {
        assert(ids[i] < client->call_count);
        gp_pool_enter(&client->pool);
        core_call_start(client, &client->calls[ids[i]], &client->channels[gp_pool_take(&client->pool)]);
        gp_pool_leave(&client->pool);
    }
    gp_usage_active(&client->usage, gp_clock_now_ns());
}

/* --- connect ----------------------------------------------------------------------------------- */

/* C core tells only calls why it cannot connect. */
static int refuse(struct core_client *client, uint64_t waited_ns, struct gp_error *err)
{
    struct core_call *call = &client->calls[0];
    uint64_t now_ns = gp_clock_now_ns();
    struct gp_event event;
    bool finished = false;

    core_call_ask(client, call, &client->channels[0], now_ns + ASK_NS);
    while (!finished)
        next_step(client, UINT64_MAX, &event, &finished, &now_ns);
    return gp_error_set(err, GP_ERROR_CONNECT, "no connection to %s within %.3g s: %.*s", client->target,
                        (double)waited_ns / (double)GP_NS_PER_S, (int)GRPC_SLICE_LENGTH(call->details),
                        (const char *)GRPC_SLICE_START_PTR(call->details));
}

static bool all_failed(const struct core_client *client)
{
    return client->opened > 0 && client->failing == client->opened;
}

/* Open what may be opened; gRPC itself goes on trying channels that have failed. */
static void open_some(struct core_client *client)
{
    while (client->opened < client->channel_count && !all_failed(client) &&
           client->opened - client->ready - client->failing < CONNECTING_MAX)
        open_channel(client);
}

static int connect_all(struct gp_client *base, uint64_t timeout_ns, const atomic_int *stop,
                       struct gp_error *err)
{
    struct core_client *client = (struct core_client *)base;
    uint64_t start_ns = gp_clock_now_ns(), now_ns = start_ns;
    struct gp_event event;
    bool finished;

    gp_usage_poller(&client->usage);
    for (;;) {
        open_some(client);
        if (client->ready == client->channel_count || all_failed(client) || now_ns - start_ns >= timeout_ns)
            break;
        if (stop && atomic_load(stop))
            return gp_error_set(err, GP_ERROR_STOPPED, "stopped while connecting to %s", client->target);
        next_step(client, now_ns + STOP_LOOK_NS, &event, &finished, &now_ns);
        now_ns = gp_clock_now_ns();
    }
    client->connected = client->ready;
    if (client->ready == 0)
        return refuse(client, now_ns - start_ns, err);
    while (client->opened < client->channel_count)
        open_channel(client);
    return 0;
}

/* --- the rest of the seam ---------------------------------------------------------------------- */

static void end(struct gp_client *base)
{
    ((struct core_client *)base)->ending = true;
}

static void cancel_all(struct gp_client *base)
{
    struct core_client *client = (struct core_client *)base;

    for (uint32_t i = 0; i < client->call_count; i++)
        if (client->calls[i].call)
            core_call_cancel(client, &client->calls[i]);
}

static void stats(const struct gp_client *base, struct gp_client_stats *stats)
{
    const struct core_client *client = (const struct core_client *)base;

    *stats = (struct gp_client_stats){.connected = client->connected,
                                      .reconnects = client->reconnects,
                                      .alive = client->ready,
                                      .opened = (uint64_t)client->connected + client->reconnects,
                                      .messages_sent = client->messages_sent,
                                      .payload_sent = client->payload_sent,
                                      .messages_received = client->messages_received};
    gp_client_peer_init(&stats->peer);
}

static uint64_t cpu_ns(struct gp_client *base)
{
    struct core_client *client = (struct core_client *)base;

    gp_usage_poller(&client->usage);
    return gp_usage_claim(&client->usage);
}

static bool cpu_known(const struct gp_client *base, uint64_t since_ns)
{
    return gp_usage_alone(&((const struct core_client *)base)->usage, since_ns);
}

/* --- destroy ----------------------------------------------------------------------------------- */

/* Whether all came back from being cancelled. */
static bool finish_calls(struct core_client *client)
{
    struct gp_event event;
    uint64_t until_ns = gp_clock_now_ns() + FINISH_NS, now_ns = 0;
    bool finished;

    cancel_all(&client->base);
    while (client->in_flight > 0 && now_ns < until_ns)
        if (!next_step(client, until_ns, &event, &finished, &now_ns))
            break;
    return client->in_flight == 0;
}

static void close_channels(struct core_client *client)
{
    client->closing = true;
    for (uint32_t i = 0; i < client->opened; i++)
        grpc_channel_destroy(client->channels[i].channel);
    grpc_completion_queue_shutdown(client->queue);
    while (grpc_completion_queue_next(client->queue, core_time(UINT64_MAX), NULL).type != GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(client->queue);
}

/* Also of one that was only half created. In a forked child it is left as it is:
 * its threads are not there. */
static void destroy(struct gp_client *base)
{
    struct core_client *client = (struct core_client *)base;
    bool finished;

    if (client->pid != getpid())
        return;
    finished = finish_calls(client);
    gp_usage_leave(&client->usage);
    if (!finished)
        return; /* gRPC may still write into what a call has left: better a leak than that, or no end */
    close_channels(client);
    for (uint32_t i = 0; i < client->call_count; i++)
        core_call_fini(&client->calls[i]);
    core_opts_free(client);
    gp_pool_fini(&client->pool);
    free(client->channels);
    free(client->calls);
    free(client->resting);
    free(client);
}

const struct gp_transport gp_core_transport = {
    .name = "core",
    .create = create,
    .connect = connect_all,
    .submit = submit,
    .poll = take_events,
    .end = end,
    .cancel_all = cancel_all,
    .stats = stats,
    .cpu_ns = cpu_ns,
    .cpu_known = cpu_known,
    .destroy = destroy,
};
