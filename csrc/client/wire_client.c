/* wire_client: the transport "wire", our own lean client on wire/ and net/, in the thread that polls and no
 * other. Here: the seam and waiting.
 *
 * A poll writes what has come together since the last one, one system call for each connection, sleeps, and
 * takes in what it is woken for; what finishes by that is returned before anything is written again, so that
 * the caller's next calls go out together with it. */
#include "client/wire.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define STOP_LOOK_NS (20 * GP_NS_PER_MS)

static void destroy(struct gp_client *base);

static struct wire_client *of(struct gp_client *base)
{
    return (struct wire_client *)base;
}

static int create(struct gp_client **created, const struct gp_client_opts *opts, struct gp_error *err)
{
    struct wire_client *client = calloc(1, sizeof *client);

    *created = NULL;
    if (!client)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    client->base.transport = &gp_wire_transport;
    client->pid = getpid();
    client->poller.epoll = client->poller.timer = -1;
    client->now_ns = gp_clock_now_ns();
    gp_causes_init(&client->causes);
    if (wire_opts_copy(client, opts, err) < 0 || gp_poller_init(&client->poller, opts->busy_poll, err) < 0)
        goto fail;
    client->buffer = malloc(WIRE_READ_BYTES);
    if (!client->buffer || wire_slots_create(client, opts) < 0) {
        gp_error_set(err, GP_ERROR_ENGINE, "out of memory for %u connections", opts->connections);
        goto fail;
    }
    *created = &client->base;
    return 0;
fail:
    destroy(&client->base);
    return -1;
}

/* --- waiting ----------------------------------------------------------------------------------- */

static void flush_dirty(struct wire_client *client)
{
    while (client->dirty) {
        struct wire_link *link = client->dirty;

        client->dirty = link->next_dirty;
        link->dirty = false;
        if (link->state != WIRE_CLOSED)
            wire_link_flush(client, link);
    }
}

/* Those that were cut short in reading and of which the poller may not know that they have more. */
static void read_more(struct wire_client *client, struct wire_link *more)
{
    while (more) {
        struct wire_link *link = more;

        more = link->next_more;
        link->more = false;
        if (link->state != WIRE_CLOSED)
            wire_link_read(client, link);
    }
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* Sleep until something happens or is due, and see to it. */
static void work(struct wire_client *client, uint64_t until_ns)
{
    struct wire_link *more = client->more;
    uint64_t due_ns = earlier(earlier(until_ns, client->keepalive_ns),
                              earlier(wire_calls_due_ns(client), wire_slots_due_ns(client)));
    size_t count;

    count = gp_poller_wait(&client->poller, more || due_ns <= client->now_ns ? 0 : due_ns, &client->now_ns);
    client->more = NULL;
    read_more(client, more);
    for (size_t i = 0; i < count; i++)
        wire_link_ready(client, client->poller.ready[i].owner, &client->poller.ready[i]);
    wire_calls_expire(client);
    wire_keepalive_tend(client);
    wire_slots_tend(client);
    wire_calls_tend_held(client);
    wire_link_bury(client);
}

static size_t poll(struct gp_client *base, struct gp_event *events, size_t capacity, uint64_t until_ns)
{
    struct wire_client *client = of(base);
    size_t count;

    flush_dirty(client);
    wire_calls_tend_held(client);
    count = wire_calls_take(client, events, capacity);
    if (count > 0)
        return count;
    do {
        work(client, until_ns);
        count = wire_calls_take(client, events, capacity);
        if (count > 0)
            return count;
        flush_dirty(client);
    } while (client->now_ns < until_ns && !client->request.fed);
    return 0;
}

static struct wire_link *feeding(const struct wire_client *client, uint64_t id)
{
    uint32_t owner = gp_calls_owner(client->calls, id);
    struct wire_link *link = owner == WIRE_NONE ? NULL : client->links[owner];

    return link && !link->blocked ? link : NULL;
}

static bool feeds(const struct gp_client *base, uint64_t id, size_t size)
{
    const struct wire_link *link = feeding((const struct wire_client *)base, id);

    return link && gp_wire_feeds(link->wire, id, (uint32_t)size);
}

static bool feed(struct gp_client *base, uint64_t id, const void *message, size_t size)
{
    struct wire_client *client = of(base);
    struct wire_link *link = feeding(client, id);

    if (!link || !gp_wire_feed(link->wire, id, message, (uint32_t)size))
        return false;
    wire_link_mark_dirty(client, link);
    return true;
}

static uint32_t answers(const struct gp_client *base, uint64_t id)
{
    return gp_calls_received(((const struct wire_client *)base)->calls, id);
}

_Static_assert(GP_CLIENT_FEED_BYTES == GP_WIRE_FEED_BYTES, "as client.h says");

static void submit(struct gp_client *base, const uint64_t *ids, size_t count)
{
    struct wire_client *client = of(base);

    client->now_ns = gp_clock_now_ns();
    for (size_t i = 0; i < count; i++) {
        uint32_t id = (uint32_t)ids[i];

        gp_waits_begin(&client->waits, id, client->now_ns);
        if (gp_waits_any_held(&client->waits) || !wire_calls_place(client, id)) {
            gp_waits_hold(&client->waits, id, client->now_ns);
            client->eventful++;
        }
    }
}

/* --- connect ----------------------------------------------------------------------------------- */

/* What the first connection still waits for. */
static const char *pending_cause(const struct wire_client *client)
{
    static const char *const causes[] = {
        [WIRE_CONNECTING] = "no answer to the attempt to connect",
        [WIRE_HANDSHAKE] = "it accepted the connection, and did not answer in TLS",
        [WIRE_GREETING] = "it accepted the connection, and did not answer in HTTP/2",
    };

    for (uint32_t slot = 0; slot < client->slot_count; slot++) {
        const struct wire_link *link = client->slots[slot].link;

        if (link && link->state <= WIRE_GREETING)
            return causes[link->state];
    }
    return client->failure;
}

static int refuse(const struct wire_client *client, uint64_t waited_ns, struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_CONNECT, "no connection to %s within %.3g s: %s", client->target,
                        (double)waited_ns / (double)GP_NS_PER_S,
                        client->failure[0] ? client->failure : pending_cause(client));
}

static int connect_all(struct gp_client *base, uint64_t timeout_ns, const atomic_int *stop,
                       struct gp_error *err)
{
    struct wire_client *client = of(base);
    uint64_t start_ns = gp_clock_now_ns(), until_ns = start_ns + timeout_ns;

    if (until_ns < start_ns)
        until_ns = UINT64_MAX;
    client->now_ns = start_ns;
    wire_slots_tend(client);
    while (client->pool.connections < client->slot_count && client->now_ns < until_ns) {
        if (client->pool.connections + client->setting_up == 0 && wire_slots_due_ns(client) > 0)
            break; /* the first of them have failed, all of them */
        if (stop && atomic_load(stop))
            return gp_error_set(err, GP_ERROR_STOPPED, "stopped while connecting to %s", client->target);
        work(client, earlier(client->now_ns + STOP_LOOK_NS, until_ns));
        flush_dirty(client);
    }
    client->connected = client->pool.connections;
    return client->connected > 0 ? 0 : refuse(client, client->now_ns - start_ns, err);
}

/* --- the rest of the seam ---------------------------------------------------------------------- */

static bool has_calls(const struct wire_link *link)
{
    return link && link->wire && link->state != WIRE_CLOSED;
}

static void end(struct gp_client *base)
{
    struct wire_client *client = of(base);

    client->ending = true;
    client->now_ns = gp_clock_now_ns();
    for (uint32_t index = 0; index < client->link_count; index++) {
        struct wire_link *link = client->links[index];

        if (!has_calls(link))
            continue;
        gp_wire_end(link->wire, client->now_ns);
        wire_link_account(client, link);
        wire_link_mark_dirty(client, link);
    }
}

static void cancel_all(struct gp_client *base)
{
    struct wire_client *client = of(base);

    client->cancelled = true;
    client->now_ns = gp_clock_now_ns();
    for (uint32_t index = 0; index < client->link_count; index++) {
        struct wire_link *link = client->links[index];

        if (!has_calls(link))
            continue;
        gp_wire_abort_all(link->wire, GP_CLASS_CANCELLED, client->now_ns);
        wire_link_account(client, link);
        wire_link_mark_dirty(client, link);
    }
    wire_calls_fail_held(client, GP_CLASS_CANCELLED);
}

static struct gp_client_peer peer_of(const struct gp_settings *settings)
{
    return (struct gp_client_peer){
        .max_concurrent_streams = settings->max_concurrent_streams,
        .initial_window_size = settings->initial_window_size,
        .max_frame_size = settings->max_frame_size,
        .max_header_list_size = settings->max_header_list_size,
    };
}

static void add_live(const struct wire_client *client, struct gp_client_stats *stats)
{
    gp_client_peer_init(&stats->peer);
    for (uint32_t index = 0; index < client->link_count; index++) {
        const struct wire_link *link = client->links[index];
        struct gp_wire_stats of_link;
        struct gp_client_peer peer;

        if (!link || !link->wire)
            continue;
        gp_wire_stats(link->wire, &of_link);
        stats->messages_sent += of_link.messages_sent;
        stats->payload_sent += of_link.payload_sent;
        stats->messages_received += of_link.messages_received;
        peer = peer_of(gp_wire_settings(link->wire));
        if (!gp_wire_ready(link->wire))
            continue;
        stats->alive++;
        gp_client_peer_least(&stats->peer, &peer);
    }
}

static void stats(const struct gp_client *base, struct gp_client_stats *stats)
{
    const struct wire_client *client = (const struct wire_client *)base;

    *stats = (struct gp_client_stats){
        .connected = client->connected,
        .reconnects = client->reconnects,
        .opened = client->setups.count,
        .messages_sent = client->messages_sent,
        .payload_sent = client->payload_sent,
        .messages_received = client->messages_received,
        .retried = client->retried,
        .polls = client->poller.looks,
        .idle_polls = client->poller.idle_looks,
        .setups = client->setups.count,
        .setup_min_ns = client->setups.min_ns,
        .setup_max_ns = client->setups.max_ns,
        .setup_sum_ns = client->setups.sum_ns,
        .tls_resumed = client->tls_resumed,
    };
    add_live(client, stats);
}

static size_t causes(const struct gp_client *base, struct gp_client_cause causes[GP_CLIENT_CAUSES])
{
    const struct gp_causes *known = &((const struct wire_client *)base)->causes;
    size_t count = 0;

    for (uint32_t i = 0; i < known->count; i++)
        if (known->known[i].calls > 0)
            causes[count++] = known->known[i];
    return count;
}

/* There is no thread but the one that polls. */
static uint64_t cpu_ns(struct gp_client *base)
{
    return gp_clock_thread_cpu_ns();
}

static bool cpu_known(const struct gp_client *base, uint64_t since_ns)
{
    return true;
}

/* Also of one that was only half created. In a forked child it is left as it is: the sockets and what waits
 * for them are the parent's too. */
static void destroy(struct gp_client *base)
{
    struct wire_client *client = of(base);

    if (client->pid != getpid())
        return;
    flush_dirty(client); /* what a peer is told about the last calls: as much as goes without waiting */
    wire_slots_destroy(client);
    gp_poller_fini(&client->poller);
    wire_opts_free(client);
    gp_causes_fini(&client->causes);
    free(client->buffer);
    free(client);
}

const struct gp_transport gp_wire_transport = {
    .name = "wire",
    .create = create,
    .connect = connect_all,
    .submit = submit,
    .poll = poll,
    .feeds = feeds,
    .feed = feed,
    .answers = answers,
    .end = end,
    .cancel_all = cancel_all,
    .stats = stats,
    .causes = causes,
    .cpu_ns = cpu_ns,
    .cpu_known = cpu_known,
    .destroy = destroy,
};
