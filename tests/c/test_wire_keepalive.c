/* wire_keepalive: connections to a server that stands still (SIGSTOP), with calls and without. */
#include <signal.h>

#include "wire_fixture.h"

#define TIME_NS (100 * GP_NS_PER_MS)
#define TIMEOUT_NS (150 * GP_NS_PER_MS)

static struct test_server server;
static const struct gp_metadata hold = {"grpcperf-hold", "1"};

static struct gp_client *held_client(struct gp_client_keepalive keepalive)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);

    opts.transport = "wire";
    opts.keepalive = keepalive;
    opts.request.metadata = &hold;
    opts.request.metadata_count = 1;
    return connected(&opts);
}

static uint64_t setups(struct gp_client *client)
{
    struct gp_client_stats stats;

    gp_client_stats(client, &stats);
    return stats.setups;
}

/* Kept for as long as it answers; given up when it does not, with the cause. */
static void test_with_calls(void)
{
    struct gp_client *client = held_client((struct gp_client_keepalive){TIME_NS, TIMEOUT_NS});
    struct tally tally = {0};
    uint64_t stopped_ns, took_ns;

    start_calls(client, 3);
    wait_a_while(client, &tally, 4 * TIME_NS + TIMEOUT_NS);
    CHECK(tally.finished == 0);
    kill(server.pid, SIGSTOP);
    stopped_ns = gp_clock_now_ns();
    collect(client, &tally, 3, WAIT_NS);
    took_ns = gp_clock_now_ns() - stopped_ns;
    kill(server.pid, SIGCONT);
    CHECK(tally.finished == 3 && tally.classes[GP_CLASS_TRANSPORT] == 3);
    CHECK(cause_count(client, GP_CLASS_TRANSPORT, "keepalive: no answer to a PING within 0.15 s") == 3);
    CHECK(took_ns >= TIMEOUT_NS && took_ns < 2 * GP_NS_PER_S);
    gp_client_destroy(client);
}

/* `without_calls`: also a connection that has none is asked, and set up again. */
static void test_without_calls(bool without_calls)
{
    struct gp_client *client = held_client((struct gp_client_keepalive){TIME_NS, TIMEOUT_NS, without_calls});
    struct tally tally = {0};

    CHECK(setups(client) == 1);
    kill(server.pid, SIGSTOP);
    wait_a_while(client, &tally, 3 * (TIME_NS + TIMEOUT_NS));
    kill(server.pid, SIGCONT);
    wait_a_while(client, &tally, 2 * TIME_NS);
    CHECK((setups(client) > 1) == without_calls);
    gp_client_destroy(client);
}

static void test_not_asked_for(void)
{
    struct gp_client *client = held_client((struct gp_client_keepalive){0});
    struct tally tally = {0};

    start_calls(client, 3);
    kill(server.pid, SIGSTOP);
    wait_a_while(client, &tally, 3 * TIME_NS);
    kill(server.pid, SIGCONT);
    CHECK(tally.finished == 0);
    gp_client_destroy(client);
}

static void test_tcp_on_a_unix_socket(void)
{
    struct gp_client_opts opts = wire_opts("unix:/nowhere");
    struct gp_client *client;
    struct gp_error err;

    opts.keepalive.tcp.on = true;
    CHECK(gp_client_create(&client, &opts, &err) < 0 && err.code == GP_ERROR_INVALID);
    CHECK(strstr(err.message, "unix:/nowhere"));
}

int main(void)
{
    /* A server that bears PINGs without end. */
    test_server_start(&server, (const char *[]){"--channel-arg", "grpc.http2.max_ping_strikes=0", NULL});
    test_with_calls();
    test_without_calls(true);
    test_without_calls(false);
    test_not_asked_for();
    test_tcp_on_a_unix_socket();
    test_server_stop(&server);
    return 0;
}
