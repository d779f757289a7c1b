/* The connections of the core transport, what it costs, and what it refuses. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_fixture.h"

static struct test_server server;

/* --- connections ----------------------------------------------------------------------------- */

/* Descriptors of this process that are connected to the server's port. gRPC makes IPv6 sockets for IPv4
 * addresses too where it can; the port lies in the same place in both. */
static unsigned sockets_to(const struct test_server *to)
{
    unsigned count = 0;

    for (int fd = 0; fd < 4096; fd++) {
        struct sockaddr_in6 peer = {0};
        socklen_t size = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            (peer.sin6_family == AF_INET || peer.sin6_family == AF_INET6) &&
            ntohs(peer.sin6_port) == to->port)
            count++;
    }
    return count;
}

static void a_connection_is_a_socket(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally = {0};

    CHECK(sockets_to(&server) == 0);
    opts.connections = 64;
    client = connected(&opts);
    CHECK(sockets_to(&server) == 64);
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_OK] == 64 && sockets_to(&server) == 64);
    gp_client_stats(client, &stats);
    CHECK(stats.connected == 64);
    gp_client_destroy(client);
    CHECK(sockets_to(&server) == 0);
}

/* Killed with calls in flight: each comes back once. Started again: the connection returns by itself. */
static void a_lost_server_is_unavailable_and_found_again(void)
{
    struct gp_metadata hold = {"grpcperf-hold", "1"};
    struct gp_client_arg backoff = {"grpc.initial_reconnect_backoff_ms", NULL, 100};
    struct test_server other;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct gp_client_stats stats = {0};
    struct tally tally = {0};
    char listen[64];

    test_server_start(&other, NULL);
    opts = opts_of(&other, GP_KIND_BIDI);
    opts.connections = 2;
    opts.max_in_flight = 100;
    opts.request.metadata = &hold;
    opts.request.metadata_count = 1;
    opts.request.parked = true;
    opts.args = &backoff;
    opts.arg_count = 1;
    client = connected(&opts);
    start_calls(client, 100);
    collect(client, &tally, 100, 100 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    test_server_kill(&other);
    collect_all(client, &tally, 100);
    CHECK(tally.classes[GP_CLASS_UNAVAILABLE] == 100);

    tally = (struct tally){0}; /* gRPC knows by now: what is sent fails at once */
    collect(client, &tally, 100, 50 * GP_NS_PER_MS);
    start_calls(client, 100);
    collect_all(client, &tally, 100);
    CHECK(tally.classes[GP_CLASS_UNAVAILABLE] == 100 && tally.longest_ns < GP_NS_PER_S);

    snprintf(listen, sizeof listen, "127.0.0.1:%u", other.port);
    test_server_start(&other, (const char *[]){"--listen", listen, NULL});
    tally = (struct tally){0};
    for (unsigned i = 0; i < 200 && stats.reconnects < 2; i++) {
        collect(client, &tally, 1, 50 * GP_NS_PER_MS);
        gp_client_stats(client, &stats);
    }
    CHECK(stats.reconnects == 2 && stats.connected == 2 && stats.alive == 2);
    gp_client_destroy(client);
    test_server_stop(&other);
}

static void refused_connection(struct gp_client_opts *opts, uint64_t timeout_ns, enum gp_error_code code,
                               const char *word)
{
    uint64_t start_ns = gp_clock_now_ns();
    struct gp_client *client;
    struct gp_error err = {0};

    CHECK(gp_client_create(&client, opts, &err) == 0);
    CHECK(gp_client_connect(client, timeout_ns, NULL, &err) == -1);
    CHECK(err.code == code && strstr(err.message, word));
    CHECK(gp_clock_now_ns() - start_ns < timeout_ns + 2 * GP_NS_PER_S);
    gp_client_destroy(client);
}

/* A port where nobody listens, and one where somebody does and never speaks. */
static void no_connection_is_an_error(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof address;
    struct test_server silent;

    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(silent.target, sizeof silent.target, "ipv4:127.0.0.1:%u", ntohs(address.sin_port));
    opts.target = silent.target;
    refused_connection(&opts, 10 * GP_NS_PER_S, GP_ERROR_CONNECT, "Connection refused");
    CHECK(listen(listener, 100) == 0);
    opts.connections = 5;
    refused_connection(&opts, 300 * GP_NS_PER_MS, GP_ERROR_CONNECT, "no connection to ipv4:127.0.0.1:");
    close(listener);
}

/* gRPC makes one all the same, which fails for ever. */
static void a_channel_that_cannot_be_made_is_an_error(void)
{
    struct gp_client_arg nonsense = {"grpc.service_config", "{nonsense", 0};
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    uint64_t begin_ns = gp_clock_now_ns();

    opts.args = &nonsense;
    opts.arg_count = 1;
    refused_connection(&opts, 10 * GP_NS_PER_S, GP_ERROR_CONNECT, "Failed to create");
    CHECK(gp_clock_now_ns() - begin_ns < 5 * GP_NS_PER_S);
}

static void connecting_can_be_stopped(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    struct gp_error err = {0};
    struct gp_client *client;
    atomic_int stop = 1;

    CHECK(gp_client_create(&client, &opts, &err) == 0);
    CHECK(gp_client_connect(client, WAIT_NS, &stop, &err) == -1 && err.code == GP_ERROR_STOPPED);
    gp_client_destroy(client);
}

/* --- CPU ------------------------------------------------------------------------------------- */

/* Here the process does nothing else, so that its own clock is the second way to know. */
static void cpu_is_the_clients(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    struct gp_client *client = connected(&opts), *other;
    uint64_t start_ns = gp_clock_now_ns(), process_ns, cpu_ns;

    cpu_ns = gp_client_cpu_ns(client);
    process_ns = gp_clock_process_cpu_ns();
    for (unsigned round = 0; round < 50; round++) {
        struct tally tally = {0};

        start_calls(client, 64);
        collect_all(client, &tally, 64);
    }
    cpu_ns = gp_client_cpu_ns(client) - cpu_ns;
    process_ns = gp_clock_process_cpu_ns() - process_ns;
    CHECK(cpu_ns > 20 * GP_NS_PER_MS && cpu_ns > process_ns * 9 / 10 && cpu_ns < process_ns * 11 / 10);
    CHECK(gp_client_cpu_known(client, start_ns));
    other = connected(&opts);
    CHECK(!gp_client_cpu_known(client, start_ns));
    start_ns = gp_clock_now_ns(); /* the other is there, but does nothing */
    CHECK(gp_client_cpu_known(client, start_ns));
    gp_client_destroy(other);
    gp_client_destroy(client);
}

/* --- what is refused ------------------------------------------------------------------------- */

static void refused_create(const struct gp_client_opts *opts, enum gp_error_code code, const char *word)
{
    struct gp_client *client;
    struct gp_error err = {0};

    CHECK(gp_client_create(&client, opts, &err) == -1);
    CHECK(client == NULL && err.code == code && strstr(err.message, word));
}

static void nonsense_is_refused(void)
{
    struct gp_metadata metadata = {"Upper", "x"};
    struct gp_client_arg arg = {"grpc.http2.max_frame_size", NULL, INT64_C(1) << 40};
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);

    opts.request.metadata = &metadata;
    opts.request.metadata_count = 1;
    refused_create(&opts, GP_ERROR_INVALID, "Upper");
    metadata = (struct gp_metadata){":path", "/other"};
    refused_create(&opts, GP_ERROR_INVALID, ":path");
    metadata = (struct gp_metadata){"lower", "a\nb"};
    refused_create(&opts, GP_ERROR_INVALID, "lower");
    opts.request.metadata_count = 0;
    opts.args = &arg;
    opts.arg_count = 1;
    refused_create(&opts, GP_ERROR_INVALID, "grpc.http2.max_frame_size");
}

/* The one fork here: the child may not use what the parent started, is told so, and
 * gets away without a hang. */
static void a_forked_child_is_refused(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    struct gp_client *parents = connected(&opts);
    struct tally tally = {0};
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        alarm(10);
        refused_create(&opts, GP_ERROR_ENGINE, "use spawn instead of fork");
        gp_client_destroy(parents);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    start_calls(parents, 8);
    collect_all(parents, &tally, 8);
    CHECK(tally.classes[GP_CLASS_OK] == 8);
    gp_client_destroy(parents);
}

int main(void)
{
    test_server_start(&server, NULL);
    a_connection_is_a_socket();
    a_lost_server_is_unavailable_and_found_again();
    no_connection_is_an_error();
    a_channel_that_cannot_be_made_is_an_error();
    connecting_can_be_stopped();
    cpu_is_the_clients();
    nonsense_is_refused();
    a_forked_child_is_refused();
    test_server_stop(&server);
    return 0;
}
