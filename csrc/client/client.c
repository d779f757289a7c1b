/* client: which transport stands behind a client, and the names of classes. What transports have in common is
 * checked here; how they work is theirs. */
#include "client/client.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "client/transport.h"

static const struct gp_transport *const transports[] = {&gp_core_transport, &gp_wire_transport};

#define TRANSPORTS (sizeof transports / sizeof transports[0])

static const struct gp_transport *find_transport(const char *name, struct gp_error *err)
{
    for (size_t i = 0; i < TRANSPORTS; i++)
        if (strcmp(transports[i]->name, name) == 0)
            return transports[i];
    gp_error_set(err, GP_ERROR_INVALID, "transport \"%s\" is not known: use \"core\" or \"wire\"", name);
    return NULL;
}

static int check_opts(const struct gp_transport *transport, const struct gp_client_opts *opts,
                      struct gp_error *err)
{
    const char *method = opts->request.method;

    if (opts->connections == 0 || opts->max_in_flight == 0)
        return gp_error_set(err, GP_ERROR_INVALID,
                            "%u connections and %u calls in flight: both must be at least 1",
                            opts->connections, opts->max_in_flight);
    if (method == NULL || method[0] != '/' || strchr(method + 1, '/') == NULL)
        return gp_error_set(err, GP_ERROR_INVALID, "method \"%s\" must be spelled /package.Service/Method",
                            method ? method : "");
    if (opts->request.fed && (!transport->feed || !opts->request.parked || opts->request.messages > 0 ||
                              opts->request.kind != GP_KIND_BIDI))
        return gp_error_set(err, GP_ERROR_INVALID,
                            "messages can be given one by one to a parked bidi stream of \"wire\" alone");
    return 0;
}

int gp_client_create(struct gp_client **client, const struct gp_client_opts *opts, struct gp_error *err)
{
    const struct gp_transport *transport = find_transport(opts->transport, err);

    *client = NULL;
    if (!transport || check_opts(transport, opts, err) < 0)
        return -1;
    return transport->create(client, opts, err);
}

int gp_client_connect(struct gp_client *client, uint64_t timeout_ns, const atomic_int *stop,
                      struct gp_error *err)
{
    return client->transport->connect(client, timeout_ns, stop, err);
}

void gp_client_submit(struct gp_client *client, const uint64_t *ids, size_t count)
{
    client->transport->submit(client, ids, count);
}

size_t gp_client_poll(struct gp_client *client, struct gp_event *events, size_t capacity, uint64_t until_ns)
{
    assert(capacity > 0);
    return client->transport->poll(client, events, capacity, until_ns);
}

bool gp_client_feeds(const struct gp_client *client, uint64_t id, size_t size)
{
    return client->transport->feeds(client, id, size);
}

bool gp_client_feed(struct gp_client *client, uint64_t id, const void *message, size_t size)
{
    assert(size <= GP_CLIENT_FEED_BYTES);
    return client->transport->feed(client, id, message, size);
}

uint32_t gp_client_answers(const struct gp_client *client, uint64_t id)
{
    return client->transport->answers(client, id);
}

void gp_client_end(struct gp_client *client)
{
    client->transport->end(client);
}

void gp_client_cancel_all(struct gp_client *client)
{
    client->transport->cancel_all(client);
}

void gp_client_stats(const struct gp_client *client, struct gp_client_stats *stats)
{
    client->transport->stats(client, stats);
}

void gp_client_peer_init(struct gp_client_peer *peer)
{
    memset(peer, 0xff, sizeof *peer);
}

static void take_least(uint32_t *into, uint32_t other)
{
    if (other < *into)
        *into = other;
}

void gp_client_peer_least(struct gp_client_peer *into, const struct gp_client_peer *other)
{
    take_least(&into->max_concurrent_streams, other->max_concurrent_streams);
    take_least(&into->initial_window_size, other->initial_window_size);
    take_least(&into->max_frame_size, other->max_frame_size);
    take_least(&into->max_header_list_size, other->max_header_list_size);
}

size_t gp_client_causes(const struct gp_client *client, struct gp_client_cause causes[GP_CLIENT_CAUSES])
{
    return client->transport->causes ? client->transport->causes(client, causes) : 0;
}

uint64_t gp_client_cpu_ns(struct gp_client *client)
{
    return client->transport->cpu_ns(client);
}

bool gp_client_cpu_known(const struct gp_client *client, uint64_t since_ns)
{
    return client->transport->cpu_known(client, since_ns);
}

void gp_client_destroy(struct gp_client *client)
{
    if (client)
        client->transport->destroy(client);
}
