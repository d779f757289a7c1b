/* park: calls held in flight on a real server, and every way they can end. */
#include "load/park.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "controlled_server.h"
#include "support.h"

#define MS GP_NS_PER_MS
#define SECOND GP_NS_PER_S

static const struct gp_metadata hold = {"grpcperf-hold", "1"};
static uint8_t request[TEST_REQUEST_MAX];
static size_t request_bytes;

static struct gp_park_opts opts_for(const char *target, uint32_t calls)
{
    return (struct gp_park_opts){
        .client = {.transport = "core",
                   .target = target,
                   .authority = "test",
                   .connections = 1,
                   .max_in_flight = calls,
                   .request = {.kind = GP_KIND_UNARY,
                               .method = TEST_UNARY,
                               .message = request,
                               .message_bytes = request_bytes,
                               .metadata = &hold,
                               .metadata_count = 1,
                               .parked = true}},
        .connect_timeout_ns = 5 * SECOND,
    };
}

static struct gp_park *started(const struct gp_park_opts *opts)
{
    struct gp_error err = {0};
    struct gp_park *park;

    CHECK(gp_park_create(&park, opts, &err) == 0 && gp_park_start(park, &err) == 0);
    gp_park_open(park, opts->client.max_in_flight);
    return park;
}

static struct gp_park_counts counts_of(struct gp_park *park)
{
    struct gp_park_counts counts;
    uint64_t classes = 0;

    gp_park_counts(park, &counts);
    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        classes += counts.classes[i];
    CHECK(classes == counts.finished && counts.finished <= counts.sent);
    return counts;
}

static void nap(uint64_t ns)
{
    struct timespec span = gp_clock_timespec(ns);

    nanosleep(&span, NULL);
}

static struct gp_park_counts wait_until_sent(struct gp_park *park, uint64_t calls)
{
    uint64_t until_ns = gp_clock_now_ns() + 20 * SECOND;

    while (counts_of(park).sent < calls && gp_clock_now_ns() < until_ns)
        nap(MS);
    CHECK(counts_of(park).sent == calls);
    return counts_of(park);
}

/* Every kind is held, stays held, and ends by being cancelled. */
static void test_every_kind_is_held(const struct test_server *server)
{
    static const struct {
        enum gp_kind kind;
        const char *method;
    } rows[] = {{GP_KIND_UNARY, TEST_UNARY},
                {GP_KIND_SERVER_STREAM, TEST_SERVER_STREAM},
                {GP_KIND_CLIENT_STREAM, TEST_CLIENT_STREAM},
                {GP_KIND_BIDI, TEST_BIDI},
                {GP_KIND_BIDI_FREE, TEST_BIDI_FREE}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gp_park_opts opts = opts_for(server->target, 600);
        struct gp_park_counts counts;
        struct gp_park *park;

        opts.client.request.kind = rows[i].kind;
        opts.client.request.method = rows[i].method;
        opts.client.connections = 3;
        park = started(&opts);
        counts = wait_until_sent(park, 600);
        CHECK(!counts.connecting && !counts.failed && counts.connected == 3 && counts.first_sent_ns > 0);
        nap(100 * MS);
        CHECK(counts_of(park).finished == 0 && !gp_park_wait_finished(park, 0));
        gp_park_cancel(park);
        CHECK(gp_park_wait_finished(park, 5 * SECOND));
        counts = counts_of(park);
        CHECK(counts.classes[GP_CLASS_CANCELLED] == 600 && counts.last_finished_ns > counts.first_sent_ns);
        gp_park_cancel(park); /* again: nothing left to do */
        gp_park_destroy(park);
    }
}

static void wait_until_running(struct controlled_server *server, uint64_t calls)
{
    uint64_t until_ns = gp_clock_now_ns() + 30 * SECOND;

    while (controlled_server_counters(server).running != calls && gp_clock_now_ns() < until_ns)
        nap(5 * MS);
    CHECK(controlled_server_counters(server).running == calls);
}

/* First the connections alone, then calls in stages, on the same connections. */
static void test_opened_in_stages(struct controlled_server *server, const char *transport)
{
    static const uint64_t stages[] = {0, 100, 100, 40, 700, 9999};
    struct gp_park_opts opts = opts_for(server->target, 1000);
    struct gp_error err = {0};
    struct gp_park *park;
    uint64_t most = 0, until_ns = gp_clock_now_ns() + 5 * SECOND;

    opts.client.transport = transport;
    opts.client.connections = 4;
    CHECK(gp_park_create(&park, &opts, &err) == 0 && gp_park_start(park, &err) == 0);
    while (counts_of(park).connecting && gp_clock_now_ns() < until_ns)
        nap(MS);
    CHECK(counts_of(park).connected == 4 && counts_of(park).sent == 0 && counts_of(park).first_sent_ns == 0);
    CHECK(gp_park_wait_finished(park, SECOND)); /* nothing is wanted yet */
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        gp_park_open(park, stages[i]);
        most = stages[i] > most ? stages[i] : most;
        most = most > 1000 ? 1000 : most;
        wait_until_sent(park, most);
        wait_until_running(server, most);
        CHECK(gp_park_wait_finished(park, 0) == (most == 0));
    }
    controlled_server_release(server);
    CHECK(gp_park_wait_finished(park, 5 * SECOND) && counts_of(park).classes[GP_CLASS_OK] == 1000);
    CHECK(counts_of(park).connected == 4);
    gp_park_cancel(park);
    gp_park_open(park, 1000); /* too late */
    CHECK(gp_park_wait_finished(park, SECOND) && counts_of(park).sent == 1000);
    gp_park_destroy(park);
}

static double seconds_since(uint64_t began_ns)
{
    return (double)(gp_clock_now_ns() - began_ns) / (double)GP_NS_PER_S;
}

/* Held all at once, by the server's own count, and then let go by the server or cancelled from here. */
static void test_by_the_servers_count(void)
{
    struct controlled_server server;

    controlled_server_start(&server);
    test_opened_in_stages(&server, "wire");
    test_opened_in_stages(&server, "core");
    for (int round = 0; round < 2; round++) {
        struct gp_park_opts opts = opts_for(server.target, 10000);
        uint64_t began_ns = gp_clock_now_ns();
        struct gp_park *park = started(&opts);

        wait_until_running(&server, 10000);
        fprintf(stderr, "10,000 calls parked in %.2f s\n", seconds_since(began_ns));
        CHECK(counts_of(park).sent == 10000 && counts_of(park).finished == 0);
        began_ns = gp_clock_now_ns();
        if (round == 0)
            controlled_server_release(&server);
        else
            gp_park_cancel(park);
        CHECK(gp_park_wait_finished(park, 30 * SECOND));
        fprintf(stderr, "%s in %.2f s\n", round ? "cancelled" : "released", seconds_since(began_ns));
        CHECK(counts_of(park).classes[round ? GP_CLASS_CANCELLED : GP_CLASS_OK] == 10000);
        wait_until_running(&server, 0);
        gp_park_destroy(park);
    }
    controlled_server_stop(&server);
}

/* Calls that the server ends end as what it says. */
static void test_server_lets_them_go(const struct test_server *server)
{
    static const struct gp_metadata delay = {"grpcperf-delay-us", "300000"},
                                    status = {"grpcperf-status", "8"};
    struct gp_park_opts opts = opts_for(server->target, 300);
    struct gp_park *park;

    opts.client.request.metadata = &delay;
    park = started(&opts);
    wait_until_sent(park, 300);
    CHECK(counts_of(park).finished == 0);
    CHECK(gp_park_wait_finished(park, 10 * SECOND));
    CHECK(counts_of(park).classes[GP_CLASS_OK] == 300);
    gp_park_destroy(park);

    opts.client.request.metadata = &status; /* refused at once: seen, and not sent again */
    park = started(&opts);
    CHECK(gp_park_wait_finished(park, 10 * SECOND));
    CHECK(counts_of(park).sent == 300 && counts_of(park).classes[GP_CLASS_RESOURCE_EXHAUSTED] == 300);
    gp_park_destroy(park);
}

static void test_server_dies(void)
{
    struct gp_park_opts opts;
    struct test_server server;
    struct gp_park *park;

    test_server_start(&server, NULL);
    opts = opts_for(server.target, 300);
    park = started(&opts);
    wait_until_sent(park, 300);
    test_server_kill(&server);
    CHECK(gp_park_wait_finished(park, 2 * SECOND));
    CHECK(counts_of(park).classes[GP_CLASS_UNAVAILABLE] == 300);
    gp_park_destroy(park);
}

static int deaf_socket(char *target, size_t size, bool silent)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0);
    CHECK(!silent || listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    snprintf(target, size, "ipv4:127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static void test_no_connection(void)
{
    char target[64];
    int fd = deaf_socket(target, sizeof target, false);
    struct gp_park_opts opts = opts_for(target, 10);
    struct gp_park *park = started(&opts);
    struct gp_error err = {0};

    CHECK(gp_park_wait_finished(park, 10 * SECOND));
    CHECK(counts_of(park).failed && !counts_of(park).connecting && counts_of(park).sent == 0);
    CHECK(gp_park_error(park, &err) == -1 && err.code == GP_ERROR_CONNECT && strstr(err.message, target));
    gp_park_destroy(park);
    close(fd);
}

static void test_cancel_and_destroy_while_connecting(void)
{
    for (int how = 0; how < 2; how++) {
        char target[64];
        int fd = deaf_socket(target, sizeof target, true);
        struct gp_park_opts opts = opts_for(target, 10);
        struct gp_park *park = started(&opts);
        struct gp_error err = {0};
        uint64_t began_ns;

        nap(50 * MS);
        CHECK(counts_of(park).connecting && gp_park_error(park, &err) == 0);
        began_ns = gp_clock_now_ns();
        if (how == 0) {
            gp_park_cancel(park);
            CHECK(gp_park_wait_finished(park, 5 * SECOND));
            CHECK(gp_park_error(park, &err) == -1 && err.code == GP_ERROR_STOPPED);
        }
        gp_park_destroy(park);
        CHECK(gp_clock_now_ns() - began_ns < SECOND);
        close(fd);
    }
}

static void test_destroy_cancels(const struct test_server *server)
{
    static const uint64_t after_ms[] = {0, 5, 100};
    struct gp_park_opts opts = opts_for(server->target, 3000);
    struct gp_error err;
    struct gp_park *park;

    for (size_t i = 0; i < 3; i++) {
        uint64_t began_ns;

        park = started(&opts);
        nap(after_ms[i] * MS);
        began_ns = gp_clock_now_ns();
        gp_park_destroy(park);
        CHECK(gp_clock_now_ns() - began_ns < 5 * SECOND);
    }
    CHECK(gp_park_create(&park, &opts, &err) == 0);
    gp_park_destroy(park); /* never started */
    gp_park_destroy(NULL);
}

int main(void)
{
    struct test_server server;

    request_bytes = test_request(request, 16);
    test_server_start(&server, NULL);
    test_every_kind_is_held(&server);
    test_by_the_servers_count();
    test_server_lets_them_go(&server);
    test_server_dies();
    test_no_connection();
    test_cancel_and_destroy_while_connecting();
    test_destroy_cancels(&server);
    test_server_stop(&server);
    return 0;
}
