/* The transport "wire" against the native server: kinds, ends, deadlines, parked calls, many connections,
 * times. What the two transports have in common is compared in test_transports. */
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire_fixture.h"

static struct test_server server;

static struct gp_client_opts wire_of(enum gp_kind kind)
{
    struct gp_client_opts opts = opts_of(&server, kind);

    opts.transport = "wire";
    return opts;
}

/* --- each kind, by count ----------------------------------------------------------------------- */

static void check_kind(enum gp_kind kind, uint64_t sent, uint64_t received)
{
    struct gp_client_opts opts = wire_of(kind);
    struct gp_client *client = connected(&opts);
    struct gp_client_stats stats;

    for (unsigned round = 1; round <= 3; round++) {
        struct tally tally = {0};

        start_calls(client, 64);
        collect_all(client, &tally, 64);
        CHECK(tally.classes[GP_CLASS_OK] == 64 && tally.messages_received == 64 * received);
        gp_client_stats(client, &stats);
        CHECK(stats.messages_sent == round * 64 * sent && stats.messages_received == round * 64 * received);
    }
    CHECK(stats.connected == 1 && stats.alive == 1 && stats.reconnects == 0 && stats.retried == 0);
    CHECK(stats.setups == 1 && stats.setup_min_ns > 0 && stats.setup_max_ns == stats.setup_sum_ns);
    CHECK(stats.peer.max_concurrent_streams > 64 && stats.polls > 0);
    gp_client_destroy(client);
}

static void kinds_have_their_messages(void)
{
    check_kind(GP_KIND_UNARY, 1, 1);
    check_kind(GP_KIND_SERVER_STREAM, 1, 5);
    check_kind(GP_KIND_CLIENT_STREAM, 5, 1);
    check_kind(GP_KIND_BIDI, 5, 5);
    check_kind(GP_KIND_BIDI_FREE, 5, 5);
}

static void unbounded_streams_go_on_until_the_end(enum gp_kind kind)
{
    struct gp_client_opts opts = wire_of(kind);
    struct gp_client_stats before, after;
    struct gp_client *client;
    struct tally tally = {0};
    uint64_t start_ns = gp_clock_now_ns();

    opts.request.messages = 0;
    client = connected(&opts);
    start_calls(client, 8);
    collect(client, &tally, 8, 50 * GP_NS_PER_MS);
    gp_client_stats(client, &before);
    do {
        collect(client, &tally, 8, 20 * GP_NS_PER_MS);
        gp_client_stats(client, &after);
    } while (after.messages_sent + after.messages_received <
                 before.messages_sent + before.messages_received + 200 &&
             gp_clock_now_ns() - start_ns < WAIT_NS);
    CHECK(tally.finished == 0 && gp_clock_now_ns() - start_ns < WAIT_NS);
    gp_client_end(client);
    collect_all(client, &tally, 8);
    CHECK(tally.classes[GP_CLASS_OK] == 8);
    gp_client_destroy(client);
}

static void large_messages_go_both_ways(void)
{
    static uint8_t message[TEST_REQUEST_MAX + (200u << 10)];
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    size_t size = test_request(message, 300u << 10);
    struct gp_client_stats stats;
    struct gp_client *client;
    struct tally tally = {0};

    message[size++] = 0x1a; /* field 3, payload: of one field 2, the body */
    message[size++] = 0x84, message[size++] = 0x80, message[size++] = 0x0c;
    message[size++] = 0x12;
    message[size++] = 0x80, message[size++] = 0x80, message[size++] = 0x0c; /* 3 << 16 bytes of it */
    opts.request.message = message;
    opts.request.message_bytes = size + (3u << 16);
    client = connected(&opts);
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_OK] == 64);
    gp_client_stats(client, &stats);
    CHECK(stats.messages_received == 64);
    gp_client_destroy(client);

    opts.window = 70000; /* less than a message: it comes in parts */
    opts.max_in_flight = 4;
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_OK] == 4);
    opts.window = 0;
    opts.max_message_bytes = 100u << 10;
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_RESOURCE_EXHAUSTED] == 4);
    opts.max_message_bytes = 0;
    opts.gzip = true;
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_OK] == 4);
}

/* --- how calls end ----------------------------------------------------------------------------- */

static void a_deadline_expires_in_time(void)
{
    struct gp_metadata delay = {"grpcperf-delay-us", "3000000"};
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct tally tally;

    opts.request.metadata = &delay;
    opts.request.metadata_count = 1;
    opts.request.deadline_ns = 20 * GP_NS_PER_MS;
    tally = run_calls(&opts, 10);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 10);
    CHECK(tally.shortest_ns >= 19 * GP_NS_PER_MS && tally.shortest_ns < 40 * GP_NS_PER_MS);
    CHECK(tally.longest_ns < GP_NS_PER_S);
}

/* Queued behind the peer's limit a call has its deadline from the moment it was submitted, and the others are
 * not kept from theirs. */
static void a_queued_call_keeps_its_deadline(void)
{
    struct gp_metadata delay = {"grpcperf-delay-us", "10000000"};
    struct test_server narrow;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally = {0};
    uint64_t start_ns;

    test_server_start(&narrow, (const char *[]){"--max-concurrent-streams", "2", NULL});
    opts = wire_of(GP_KIND_UNARY);
    opts.target = narrow.target;
    opts.request.metadata = &delay;
    opts.request.metadata_count = 1;
    opts.request.deadline_ns = 100 * GP_NS_PER_MS;
    client = connected(&opts);
    start_ns = gp_clock_now_ns();
    start_calls(client, 10);
    collect_all(client, &tally, 10);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 10);
    CHECK(gp_clock_now_ns() - start_ns >= 99 * GP_NS_PER_MS && gp_clock_now_ns() - start_ns < GP_NS_PER_S);
    gp_client_stats(client, &stats);
    CHECK(stats.peer.max_concurrent_streams == 2);
    gp_client_destroy(client);
    test_server_stop(&narrow);
}

/* Stopped, the server's kernel still takes what is sent: nothing but the clock ends calls. */
static void a_vanished_peer_ends_no_call_late(void)
{
    struct test_server frozen;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct tally tally = {0};
    uint64_t start_ns;

    test_server_start(&frozen, NULL);
    opts = wire_of(GP_KIND_UNARY);
    opts.target = frozen.target;
    opts.request.deadline_ns = 200 * GP_NS_PER_MS;
    client = connected(&opts);
    kill(frozen.pid, SIGSTOP);
    CHECK(waitpid(frozen.pid, NULL, WUNTRACED) == frozen.pid); /* it stops when it comes to it */
    start_ns = gp_clock_now_ns();
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 64);
    CHECK(gp_clock_now_ns() - start_ns < 200 * GP_NS_PER_MS + GP_NS_PER_S);
    gp_client_destroy(client);

    opts.request.deadline_ns = 0; /* and without one, the drain's cancelling */
    kill(frozen.pid, SIGCONT);
    client = connected(&opts);
    kill(frozen.pid, SIGSTOP);
    tally = (struct tally){0};
    start_calls(client, 64);
    collect(client, &tally, 64, 50 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    gp_client_cancel_all(client);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_CANCELLED] == 64);
    gp_client_destroy(client);
    kill(frozen.pid, SIGCONT);
    test_server_stop(&frozen);
}

static void parked_calls_stay_until_cancelled(enum gp_kind kind)
{
    struct gp_metadata hold = {"grpcperf-hold", "1"};
    struct gp_client_opts opts = wire_of(kind);
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally = {0};

    opts.max_in_flight = 200;
    opts.request.metadata = &hold;
    opts.request.metadata_count = 1;
    opts.request.parked = true;
    opts.request.messages = 0;
    client = connected(&opts);
    start_calls(client, 200);
    collect(client, &tally, 200, 100 * GP_NS_PER_MS);
    gp_client_end(client); /* parked calls do not mind */
    collect(client, &tally, 200, 30 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    gp_client_stats(client, &stats);
    CHECK(stats.messages_sent == (kind == GP_KIND_UNARY || kind == GP_KIND_SERVER_STREAM ? 200 : 0));
    gp_client_cancel_all(client);
    collect_all(client, &tally, 200);
    CHECK(tally.classes[GP_CLASS_CANCELLED] == 200);
    gp_client_destroy(client);
}

static void causes_are_the_servers_words(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct gp_client *client;
    struct tally tally = {0};

    opts.request.method = "/grpc.testing.BenchmarkService/Nothing";
    client = connected(&opts);
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_UNIMPLEMENTED] == 64);
    CHECK(cause_count(client, GP_CLASS_UNIMPLEMENTED, "grpc-status 12") == 64);
    gp_client_destroy(client);
}

/* --- connections ------------------------------------------------------------------------------- */

static void connections_are_set_up_and_timed(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally = {0};

    opts.connections = 300; /* more than are set up at a time */
    opts.max_in_flight = 600;
    client = connected(&opts);
    gp_client_stats(client, &stats);
    CHECK(stats.connected == 300 && stats.setups == 300 && stats.reconnects == 0);
    CHECK(stats.setup_min_ns > 0 && stats.setup_min_ns <= stats.setup_max_ns &&
          stats.setup_sum_ns >= 300 * stats.setup_min_ns && stats.setup_sum_ns <= 300 * stats.setup_max_ns);
    start_calls(client, 600);
    collect_all(client, &tally, 600);
    CHECK(tally.classes[GP_CLASS_OK] == 600);
    gp_client_destroy(client);
}

static void connecting_can_be_stopped(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct gp_error err = {0};
    struct gp_client *client;
    atomic_int stop = 1;

    CHECK(gp_client_create(&client, &opts, &err) == 0);
    CHECK(gp_client_connect(client, WAIT_NS, &stop, &err) == -1 && err.code == GP_ERROR_STOPPED);
    gp_client_destroy(client);
}

static void a_killed_server_is_found_again(void)
{
    struct gp_metadata hold = {"grpcperf-hold", "1"};
    struct test_server other;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct gp_client_stats stats = {0};
    struct tally tally = {0};
    char listen[64];

    test_server_start(&other, NULL);
    opts = wire_of(GP_KIND_BIDI);
    opts.target = other.target;
    opts.connections = 2;
    opts.max_in_flight = 100;
    opts.request.metadata = &hold;
    opts.request.metadata_count = 1;
    opts.request.parked = true;
    client = connected(&opts);
    start_calls(client, 100);
    collect(client, &tally, 100, 100 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    test_server_kill(&other);
    collect_all(client, &tally, 100);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] == 100);
    CHECK(cause_count(client, GP_CLASS_TRANSPORT, "the peer") == 100);

    wait_a_while(client, &tally, 50 * GP_NS_PER_MS);
    tally = (struct tally){0}; /* nobody listens: what is sent fails soon, and says why */
    start_calls(client, 100);
    collect_all(client, &tally, 100);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] == 100 && tally.longest_ns < GP_NS_PER_S);
    CHECK(cause_count(client, GP_CLASS_TRANSPORT, "no connection takes calls: connection refused") == 100);

    snprintf(listen, sizeof listen, "127.0.0.1:%u", other.port);
    test_server_start(&other, (const char *[]){"--listen", listen, NULL});
    for (unsigned i = 0; i < 200 && stats.reconnects < 2; i++) {
        wait_a_while(client, &tally, 20 * GP_NS_PER_MS);
        gp_client_stats(client, &stats);
    }
    CHECK(stats.reconnects == 2 && stats.connected == 2);
    gp_client_destroy(client);
    test_server_stop(&other);
}

/* --- time and CPU ------------------------------------------------------------------------------ */

static void poll_keeps_its_time(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_BIDI);
    struct gp_client *client;
    struct gp_event event;
    unsigned near = 0;

    opts.request.messages = 0;
    client = connected(&opts);
    for (unsigned i = 0; i < 20; i++) { /* idle: to the fraction of a millisecond, most of the time */
        uint64_t until_ns = gp_clock_now_ns() + 1700 * GP_NS_PER_US;

        CHECK(gp_client_poll(client, &event, 1, until_ns) == 0);
        CHECK(gp_clock_now_ns() >= until_ns);
        near += gp_clock_now_ns() - until_ns < GP_NS_PER_MS;
    }
    CHECK(near >= 10);
    start_calls(client, 64); /* and busy */
    for (unsigned i = 0; i < 5; i++) {
        uint64_t start_ns = gp_clock_now_ns();

        CHECK(gp_client_poll(client, &event, 1, start_ns + 20 * GP_NS_PER_MS) == 0);
        CHECK(gp_clock_now_ns() - start_ns >= 20 * GP_NS_PER_MS);
        CHECK(gp_clock_now_ns() - start_ns < 500 * GP_NS_PER_MS);
    }
    gp_client_destroy(client); /* with calls in flight */
}

static void cpu_is_the_threads(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct gp_client *client = connected(&opts);
    uint64_t cpu_ns = gp_client_cpu_ns(client), thread_ns = gp_clock_thread_cpu_ns();
    struct tally tally = keep_calling(client, 64, 4000);

    cpu_ns = gp_client_cpu_ns(client) - cpu_ns;
    thread_ns = gp_clock_thread_cpu_ns() - thread_ns;
    CHECK(tally.classes[GP_CLASS_OK] == 4000);
    CHECK(cpu_ns > thread_ns * 9 / 10 && cpu_ns < thread_ns * 11 / 10);
    CHECK(gp_client_cpu_known(client, 0));
    gp_client_destroy(client);
}

static void busy_polling_does_not_sleep(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct gp_client_stats before, after;
    struct gp_client *client;
    struct tally tally = {0};

    opts.busy_poll = true;
    client = connected(&opts);
    CHECK(keep_calling(client, 8, 2000).classes[GP_CLASS_OK] == 2000);
    gp_client_stats(client, &before);
    wait_a_while(client, &tally, 20 * GP_NS_PER_MS);
    gp_client_stats(client, &after);
    CHECK(after.polls - before.polls > 20);
    CHECK(after.idle_polls - before.idle_polls > (after.polls - before.polls) / 2);
    gp_client_destroy(client);
}

/* --- what is refused --------------------------------------------------------------------------- */

static void refused_create(const struct gp_client_opts *opts, const char *word)
{
    struct gp_client *client;
    struct gp_error err = {0};

    CHECK(gp_client_create(&client, opts, &err) == -1);
    CHECK(client == NULL && err.code == GP_ERROR_INVALID && strstr(err.message, word));
}

static void nonsense_is_refused(void)
{
    struct gp_metadata metadata = {"Upper", "x"};
    struct gp_client_arg arg = {"grpc.http2.max_frame_size", NULL, 16384};
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);

    opts.request.metadata = &metadata;
    opts.request.metadata_count = 1;
    refused_create(&opts, "Upper");
    metadata = (struct gp_metadata){":path", "/other"};
    refused_create(&opts, ":path");
    metadata = (struct gp_metadata){"lower", "a\nb"};
    refused_create(&opts, "lower");
    opts.request.metadata_count = 0;
    opts.args = &arg;
    opts.arg_count = 1;
    refused_create(&opts, "grpc.http2.max_frame_size");
    opts.arg_count = 0;
    opts.target = "127.0.0.1:80";
    refused_create(&opts, "127.0.0.1:80");
    opts = wire_of(GP_KIND_UNARY);
    opts.window = UINT32_MAX;
    refused_create(&opts, "windows of");
}

/* A child that was forked leaves the parent's connections alone. */
static void a_forked_child_does_no_harm(void)
{
    struct gp_client_opts opts = wire_of(GP_KIND_UNARY);
    struct gp_client *client = connected(&opts);
    struct tally tally = {0};
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        alarm(10);
        gp_client_destroy(client);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    start_calls(client, 8);
    collect_all(client, &tally, 8);
    CHECK(tally.classes[GP_CLASS_OK] == 8);
    gp_client_destroy(client);
}

int main(void)
{
    test_server_start(&server, NULL);
    kinds_have_their_messages();
    unbounded_streams_go_on_until_the_end(GP_KIND_SERVER_STREAM);
    unbounded_streams_go_on_until_the_end(GP_KIND_CLIENT_STREAM);
    unbounded_streams_go_on_until_the_end(GP_KIND_BIDI);
    unbounded_streams_go_on_until_the_end(GP_KIND_BIDI_FREE);
    large_messages_go_both_ways();
    a_deadline_expires_in_time();
    a_queued_call_keeps_its_deadline();
    a_vanished_peer_ends_no_call_late();
    for (int kind = GP_KIND_UNARY; kind <= GP_KIND_BIDI_FREE; kind++)
        parked_calls_stay_until_cancelled((enum gp_kind)kind);
    causes_are_the_servers_words();
    connections_are_set_up_and_timed();
    connecting_can_be_stopped();
    a_killed_server_is_found_again();
    poll_keeps_its_time();
    cpu_is_the_threads();
    busy_polling_does_not_sleep();
    nonsense_is_refused();
    a_forked_child_does_no_harm();
    test_server_stop(&server);
    return 0;
}
