/* core_opts: what a client was asked for, copied into the forms of gRPC: channel arguments, metadata, the
 * message. */
#include "client/core.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/tls.h"

#define OWN_ARGS 7u

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void add_number(grpc_channel_args *args, const char *key, int number)
{
    args->args[args->num_args++] =
        (grpc_arg){.type = GRPC_ARG_INTEGER, .key = copy_text(key), .value.integer = number};
}

static void add_text(grpc_channel_args *args, const char *key, const char *text)
{
    args->args[args->num_args++] =
        (grpc_arg){.type = GRPC_ARG_STRING, .key = copy_text(key), .value.string = copy_text(text)};
}

/* Of a pointer the channel makes a copy of its own, and so does not the one who frees our args. */
static void add_sessions(grpc_channel_args *args, grpc_ssl_session_cache *sessions)
{
    grpc_arg arg = grpc_ssl_session_cache_create_channel_arg(sessions);

    arg.key = copy_text(arg.key);
    args->args[args->num_args++] = arg;
}

/* What we want otherwise than gRPC's default. Left out when the user says it: of two with one name gRPC takes
 * the first. */
static void add_default(grpc_channel_args *args, const struct gp_client_opts *opts, const char *key,
                        int number)
{
    for (size_t i = 0; i < opts->arg_count; i++)
        if (strcmp(opts->args[i].key, key) == 0)
            return;
    add_number(args, key, number);
}

/* A proxy named in the environment is left aside, as the probe of the address
 * does: the connection measured must be the one asked for. Everything else stays gRPC's own default. */
static int copy_args(struct core_client *client, const struct gp_client_opts *opts, struct gp_error *err)
{
    grpc_channel_args *args = &client->args;

    args->args = calloc(OWN_ARGS + opts->arg_count, sizeof *args->args);
    if (!args->args)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    add_default(args, opts, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    add_default(args, opts, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    add_default(args, opts, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    /* In C core 1.51 retries end the process when a response closes without a grpc-status, and a call that is
     * cancelled while messages keep coming never gives its status. Who wants to see what they cost can ask
     * for them. */
    add_default(args, opts, GRPC_ARG_ENABLE_RETRIES, 0);
    if (opts->authority)
        add_text(args, GRPC_ARG_DEFAULT_AUTHORITY, opts->authority);
    if (opts->tls && opts->tls->server_name)
        add_text(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, opts->tls->server_name);
    if (client->sessions)
        add_sessions(args, client->sessions);
    for (size_t i = 0; i < opts->arg_count; i++) {
        const struct gp_client_arg *arg = &opts->args[i];

        if (arg->text)
            add_text(args, arg->key, arg->text);
        else if (arg->number < INT32_MIN || arg->number > INT32_MAX)
            return gp_error_set(err, GP_ERROR_INVALID, "channel argument %s: %lld does not fit in 32 bits",
                                arg->key, (long long)arg->number);
        else
            add_number(args, arg->key, (int)arg->number);
    }
    for (size_t i = 0; i < args->num_args; i++)
        if (!args->args[i].key || (args->args[i].type == GRPC_ARG_STRING && !args->args[i].value.string))
            return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    return 0;
}

static int copy_metadata(struct core_client *client, const struct gp_request *request, struct gp_error *err)
{
    client->metadata = calloc(request->metadata_count + 1, sizeof *client->metadata);
    if (!client->metadata)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    for (size_t i = 0; i < request->metadata_count; i++) {
        const struct gp_metadata *wanted = &request->metadata[i];
        grpc_metadata *made = &client->metadata[client->metadata_count++];

        made->key = grpc_slice_from_copied_string(wanted->key);
        made->value = grpc_slice_from_copied_buffer(wanted->value, gp_metadata_value_bytes(wanted));
        if (!grpc_header_key_is_legal(made->key) || wanted->key[0] == ':')
            return gp_error_set(err, GP_ERROR_INVALID,
                                "metadata key \"%s\" must be of a-z, 0-9, '-', '_' and '.'", wanted->key);
        if (!grpc_is_binary_header(made->key) && !grpc_header_nonbin_value_is_legal(made->value))
            return gp_error_set(err, GP_ERROR_INVALID, "metadata %s: its value must be printable ASCII",
                                wanted->key);
    }
    return 0;
}

static int copy_messages(struct core_client *client, const struct gp_request *request)
{
    const struct gp_payload one = {request->message, request->message_bytes};
    const struct gp_payload *given = request->pool_count > 0 ? request->pool : &one;
    uint32_t count = request->pool_count > 0 ? request->pool_count : 1;

    client->payloads = calloc(count, sizeof *client->payloads);
    if (!client->payloads)
        return -1;
    for (; client->payload_count < count; client->payload_count++) {
        const struct gp_payload *payload = &given[client->payload_count];

        client->payloads[client->payload_count] =
            grpc_slice_from_copied_buffer(payload->bytes, payload->size);
    }
    return 0;
}

int core_opts_copy(struct core_client *client, const struct gp_client_opts *opts, struct gp_error *err)
{
    const struct gp_request *request = &opts->request;

    if (opts->calls_per_connection > 0)
        return gp_error_set(err, GP_ERROR_INVALID,
                            "a number of calls per connection: C core's channels keep theirs; use transport "
                            "\"wire\" for it");
    client->kind = request->kind;
    client->deadline_ns = request->deadline_ns;
    client->messages = request->messages;
    client->parked = request->parked;
    client->times = opts->times;
    client->seed = request->seed;
    client->target = copy_text(opts->target);
    client->method = copy_text(request->method);
    if (!client->target || !client->method || copy_messages(client, request) < 0)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    client->credentials = core_credentials(opts->tls, err);
    client->sessions = core_sessions(opts->tls);
    if (!client->credentials || copy_args(client, opts, err) < 0)
        return -1;
    return copy_metadata(client, request, err);
}

static void free_args(grpc_channel_args *args)
{
    for (size_t i = 0; i < args->num_args; i++) {
        free(args->args[i].key);
        if (args->args[i].type == GRPC_ARG_STRING)
            free(args->args[i].value.string);
    }
    free(args->args);
}

void core_opts_free(struct core_client *client)
{
    for (size_t i = 0; i < client->metadata_count; i++) {
        grpc_slice_unref(client->metadata[i].key);
        grpc_slice_unref(client->metadata[i].value);
    }
    for (uint32_t i = 0; i < client->payload_count; i++)
        grpc_slice_unref(client->payloads[i]);
    free(client->payloads);
    free_args(&client->args);
    grpc_channel_credentials_release(client->credentials); /* also of NULL */
    if (client->sessions)
        grpc_ssl_session_cache_destroy(client->sessions);
    free(client->metadata);
    free(client->target);
    free(client->method);
}
