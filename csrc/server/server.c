/* The whole server. */
#include "server/server.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <grpc/grpc_security.h>

#include "base/error.h"
#include "net/listener.h"
#include "server/credentials.h"
#include "server/keepalive.h"
#include "server/models.h"
#include "server/service.h"

/* C core says only that it could not bind: ask the kernel again for the reason. */
static int bind_error(const char *text, bool tls, struct gp_error *err)
{
    struct gp_listener listener;

    if (gp_listener_open(&listener, text, err) < 0)
        return -1;
    gp_listener_close(&listener);
    return gp_listener_refused(
        text, tls ? "gRPC refused the address, or the certificate and its key" : "gRPC refused the address",
        err);
}

/* C core would take a Unix path away from whoever listens there, without a word. */
static int listen_on(struct gp_server *server, const char *text, struct gp_error *err)
{
    if (gp_listener_in_use(text))
        return gp_listener_refused(text, strerror(EADDRINUSE), err);
    grpc_server_credentials *credentials = gp_credentials_create(server->options, err);
    if (!credentials)
        return -1;
    int port = grpc_server_add_http2_port(server->core, text, credentials);
    grpc_server_credentials_release(credentials);
    if (port <= 0)
        return bind_error(text, server->options->tls_cert != NULL, err);
    server->port = strncmp(text, "unix:", 5) == 0 ? 0 : port;
    return 0;
}

/* A number as C core takes it. Its quota is an object with a size, here of memory in bytes. */
static void set_number(grpc_arg *out, int number)
{
    out->type = GRPC_ARG_INTEGER;
    out->value.integer = number;
    if (strcmp(out->key, GRPC_ARG_RESOURCE_QUOTA) != 0)
        return;
    grpc_resource_quota *quota = grpc_resource_quota_create("server"); /* as long as the process */
    grpc_resource_quota_resize(quota, (size_t)number);
    out->type = GRPC_ARG_POINTER;
    out->value.pointer.p = quota;
    out->value.pointer.vtable = grpc_resource_quota_arg_vtable();
}

static grpc_server *create_core(const struct gp_options *options)
{
    grpc_arg args[GP_OPTIONS_MAX_ARGS + 1];
    size_t count = 0;
    for (; count < options->arg_count; count++) {
        const struct gp_channel_arg *arg = &options->args[count];
        args[count] = (grpc_arg){.key = (char *)arg->key};
        if (arg->text) {
            args[count].type = GRPC_ARG_STRING;
            args[count].value.string = (char *)arg->text;
        } else {
            set_number(&args[count], arg->number);
        }
    }
    /* Two servers on one port would share the connections between them. Who wants that says so: of two
     * arguments with one name gRPC takes the first. */
    args[count++] =
        (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_ALLOW_REUSEPORT, .value.integer = 0};
    grpc_channel_args all = {.num_args = count, .args = args};
    return grpc_server_create(&all, NULL);
}

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

static int create_queues(struct gp_server *server, struct gp_error *err)
{
    server->queue_count = server->options->threads ? server->options->threads : usable_cpus();
    server->queues = aligned_alloc(_Alignof(struct gp_queue), server->queue_count * sizeof(*server->queues));
    if (!server->queues)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    for (unsigned i = 0; i < server->queue_count; i++) {
        gp_queue_init(&server->queues[i], server);
        grpc_server_register_completion_queue(server->core, server->queues[i].core, NULL);
    }
    for (unsigned i = 0; i < GP_METHOD_COUNT; i++)
        server->methods[i] = grpc_server_register_method(
            server->core, gp_methods[i].path, NULL,
            gp_methods[i].reads_first ? GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER : GRPC_SRM_PAYLOAD_NONE, 0);
    return 0;
}

static int start_threads(struct gp_server *server, struct gp_error *err)
{
    int error = server->model->start(server);
    for (unsigned i = 0; i < server->queue_count && !error; i++)
        error = gp_stacks_thread(&server->stacks, gp_queue_run, &server->queues[i]);
    if (error)
        return gp_error_set(err, GP_ERROR_ENGINE, "cannot start the server's threads: %s", strerror(error));
    return 0;
}

int gp_server_start(struct gp_server *server, const struct gp_options *options, struct gp_error *err)
{
    memset(server, 0, sizeof(*server));
    server->options = options;
    server->model = gp_model(options->model);
    gp_stacks_init(&server->stacks);
    gp_limits_init(&server->limits, options);
    if (gp_arguments_use_cpus(&options->common, err) < 0)
        return -1;
    gp_arguments_raise_fd_limit();       /* at the limit C core's listener stops accepting for good */
    setenv("GRPC_VERBOSITY", "NONE", 0); /* what matters reaches stderr in our own words */
    grpc_init();
    if (gp_forward_start(&server->forward, options, err) < 0)
        return -1;
    server->core = create_core(options);
    if (create_queues(server, err) < 0 || listen_on(server, options->common.listen, err) < 0 ||
        gp_keepalive_start(options, err) < 0)
        return -1;
    grpc_server_start(server->core);
    return start_threads(server, err);
}

void gp_server_counts(const struct gp_server *server, struct gp_counts *counts)
{
    gp_counters_read(&server->counters, counts);
    for (unsigned i = 0; i < server->queue_count; i++)
        gp_counts_add(counts, &server->queues[i].tally);
}

void gp_server_release(struct gp_server *server)
{
    for (unsigned i = 0; i < server->queue_count; i++)
        gp_queue_release(&server->queues[i]);
}
