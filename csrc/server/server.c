/* The whole server. */
#include "server/server.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <grpc/grpc_security.h>

#include "base/error.h"
#include "server/models.h"
#include "server/service.h"

static int cannot_listen(const char *listen, const char *reason, struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_ENGINE, "cannot listen on %s: %c%s", listen, tolower(*reason),
                        reason + 1);
}

/* A socket and the address of a Unix path; -1 with errno. */
static int unix_socket(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address->sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address->sun_path, path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Whether somebody answers at a Unix socket: C core would take the path away from them without a word. */
static bool unix_in_use(const char *path)
{
    struct sockaddr_un address;
    int fd = unix_socket(path, &address);
    if (fd < 0)
        return false;
    bool in_use = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN;
    close(fd);
    return in_use;
}

/* C core says only that it could not bind; ask the kernel again for the reason. NULL: now it can be bound. */
static const char *unix_bind_error(const char *path)
{
    struct sockaddr_un address;
    int fd = unix_socket(path, &address);
    if (fd < 0)
        return strerror(errno);
    int error = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
    close(fd);
    if (error)
        return strerror(error);
    unlink(path);
    return NULL;
}

static int bind_error(const struct addrinfo *address)
{
    int error = 0, on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) < 0)
        error = errno;
    close(fd);
    return error;
}

static const char *tcp_bind_error(const char *listen)
{
    char host[256];
    const char *colon = strrchr(listen, ':');
    size_t length = (size_t)(colon - listen);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    if (length >= sizeof(host))
        return strerror(ENAMETOOLONG);
    bool brackets = length > 2 && listen[0] == '[' && listen[length - 1] == ']';
    memcpy(host, listen + brackets, length - 2 * brackets);
    host[length - 2 * brackets] = 0;
    int unknown = getaddrinfo(host, colon + 1, &hints, &found);
    if (unknown)
        return gai_strerror(unknown);
    int error = 0;
    for (const struct addrinfo *each = found; each && !error; each = each->ai_next)
        error = bind_error(each);
    freeaddrinfo(found);
    return error ? strerror(error) : NULL;
}

static int listen_on(struct gp_server *server, const char *listen, struct gp_error *err)
{
    const char *path = strncmp(listen, "unix:", 5) == 0 ? listen + 5 : NULL;
    if (path && unix_in_use(path))
        return cannot_listen(listen, strerror(EADDRINUSE), err);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server->core, listen, credentials);
    grpc_server_credentials_release(credentials);
    if (port <= 0) {
        const char *reason = path ? unix_bind_error(path) : tcp_bind_error(listen);
        return cannot_listen(listen, reason ? reason : "gRPC refused the address", err);
    }
    server->port = path ? 0 : port;
    return 0;
}

static grpc_server *create_core(const struct gp_options *options)
{
    /* Two servers on one port would share the connections between them. */
    grpc_arg args[GP_OPTIONS_MAX_ARGS + 1] = {
        {.type = GRPC_ARG_INTEGER, .key = (char *)"grpc.so_reuseport", .value.integer = 0}};
    for (size_t i = 0; i < options->arg_count; i++) {
        const struct gp_channel_arg *arg = &options->args[i];
        grpc_arg *out = &args[i + 1];
        out->key = (char *)arg->key;
        out->type = arg->text ? GRPC_ARG_STRING : GRPC_ARG_INTEGER;
        if (arg->text)
            out->value.string = (char *)arg->text;
        else
            out->value.integer = arg->number;
    }
    grpc_channel_args all = {.num_args = options->arg_count + 1, .args = args};
    return grpc_server_create(&all, NULL);
}

static int use_cpus(const struct gp_options *options, struct gp_error *err)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < options->cpu_count; i++)
        CPU_SET(options->cpus[i], &set);
    if (options->cpu_count && sched_setaffinity(0, sizeof(set), &set) < 0)
        return gp_error_errno(err, "cannot run on the CPUs given by --cpus");
    return 0;
}

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

/* Each connection takes a descriptor, and at the limit C core's listener stops accepting for good. */
static void raise_fd_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
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
    if (use_cpus(options, err) < 0)
        return -1;
    raise_fd_limit();
    setenv("GRPC_VERBOSITY", "NONE", 0); /* what matters reaches stderr in our own words */
    grpc_init();
    server->core = create_core(options);
    if (create_queues(server, err) < 0 || listen_on(server, options->listen, err) < 0)
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
