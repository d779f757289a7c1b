/* wire_opts: what a client was asked for, copied and checked. Connections are made from it for as long as the
 * client lives. */
#include "client/wire.h"

#include <stdlib.h>
#include <string.h>

#include "net/tls.h"

static int no_memory(struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
}

/* With a NUL behind them. */
static void *copy_bytes(const void *bytes, size_t size)
{
    char *copy = calloc(1, size + 1);

    return copy && size > 0 ? memcpy(copy, bytes, size) : copy;
}

static int copy_metadata(struct gp_request *request, const struct gp_request *from)
{
    struct gp_metadata *metadata = calloc(from->metadata_count + 1, sizeof *metadata);

    request->metadata = metadata;
    request->metadata_count = 0;
    if (!metadata)
        return -1;
    for (size_t i = 0; i < from->metadata_count; i++) {
        size_t bytes = gp_metadata_value_bytes(&from->metadata[i]);

        metadata[i].key = strdup(from->metadata[i].key);
        metadata[i].value = copy_bytes(from->metadata[i].value, bytes);
        metadata[i].value_bytes = bytes;
        request->metadata_count++;
        if (!metadata[i].key || !metadata[i].value)
            return -1;
    }
    return 0;
}

static int copy_request(struct wire_client *client, const struct gp_request *from, struct gp_error *err)
{
    struct gp_request *request = &client->request;

    *request = *from;
    request->message = NULL; /* framed in client->calls, as is the pool */
    request->pool = NULL;
    request->metadata = NULL;
    request->method = strdup(from->method);
    return request->method && copy_metadata(request, from) == 0 ? 0 : no_memory(err);
}

/* What a connection would refuse is refused now: by making one. */
static int check_connection(const struct wire_client *client, struct gp_error *err)
{
    const struct gp_wire_opts opts = {
        .calls = client->calls,
        .request = &client->request,
        .scheme = "http",
        .authority = client->authority,
        .stream_window = client->window,
        .connection_window = client->window,
    };
    struct gp_wire *wire;

    if (gp_wire_create(&wire, &opts, err) < 0)
        return -1;
    gp_wire_destroy(wire);
    return 0;
}

static int make_calls(struct wire_client *client, const struct gp_client_opts *opts, struct gp_error *err)
{
    const struct gp_calls_opts calls = {
        .max_in_flight = opts->max_in_flight,
        .request = &opts->request,
        .gzip = opts->gzip,
        .times = opts->times,
    };

    if (gp_calls_create(&client->calls, &calls, err) < 0)
        return -1;
    if (gp_waits_init(&client->waits, opts->max_in_flight, opts->request.deadline_ns) < 0)
        return no_memory(err);
    return 0;
}

int wire_opts_copy(struct wire_client *client, const struct gp_client_opts *opts, struct gp_error *err)
{
    client->window = opts->window;
    client->max_message_bytes = opts->max_message_bytes;
    client->calls_per_connection = opts->calls_per_connection ? opts->calls_per_connection : UINT64_MAX;
    client->keepalive = opts->keepalive;
    client->keepalive_ns = UINT64_MAX;
    client->target = strdup(opts->target);
    client->authority = strdup(opts->authority ? opts->authority : "localhost");
    if (!client->target || !client->authority)
        return no_memory(err);
    if (opts->arg_count > 0)
        return gp_error_set(err, GP_ERROR_INVALID,
                            "channel argument %s: these are C core's own; use transport \"core\" for them",
                            opts->args[0].key);
    if (gp_endpoint_parse(client->target, &client->endpoint, err) < 0 ||
        copy_request(client, &opts->request, err) < 0 || make_calls(client, opts, err) < 0)
        return -1;
    if (client->keepalive.tcp.on && client->endpoint.address.ss_family == AF_UNIX)
        return gp_error_set(err, GP_ERROR_INVALID, "TCP's keepalive: %s is a Unix socket", client->target);
    if (opts->tls && gp_tls_create(&client->tls, opts->tls, client->authority, err) < 0)
        return -1;
    return check_connection(client, err);
}

void wire_opts_free(struct wire_client *client)
{
    struct gp_request *request = &client->request;

    for (size_t i = 0; request->metadata && i < request->metadata_count; i++) {
        free((void *)request->metadata[i].key);
        free((void *)request->metadata[i].value);
    }
    free((void *)request->metadata);
    free((void *)request->method);
    gp_waits_fini(&client->waits);
    gp_calls_destroy(client->calls);
    gp_tls_destroy(client->tls);
    free(client->target);
    free(client->authority);
}
