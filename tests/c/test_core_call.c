/* The calls of the core transport against a real server: what each kind is, and how calls end. */
#include "core_fixture.h"

#include "base/message_times.h"

static struct test_server server;

/* --- each kind, by count --------------------------------------------------------------------- */

static void check_kind(enum gp_kind kind, uint64_t sent, uint64_t received)
{
    struct gp_client_opts opts = opts_of(&server, kind);
    struct gp_client *client = connected(&opts);
    struct gp_client_stats stats;

    for (unsigned round = 1; round <= 3; round++) { /* the storage of a call is used again */
        struct tally tally = {0};

        start_calls(client, 64);
        collect_all(client, &tally, 64);
        CHECK(tally.classes[GP_CLASS_OK] == 64);
        CHECK(tally.messages_received == 64 * received);
        gp_client_stats(client, &stats);
        CHECK(stats.messages_sent == round * 64 * sent);
        CHECK(stats.messages_received == round * 64 * received);
    }
    CHECK(stats.connected == 1 && stats.reconnects == 0);
    gp_client_destroy(client);
}

static void kinds_have_their_messages(void)
{
    check_kind(GP_KIND_UNARY, 1, 1);
    check_kind(GP_KIND_SERVER_STREAM, 1, 5);
    check_kind(GP_KIND_CLIENT_STREAM, 5, 1);
    check_kind(GP_KIND_BIDI, 5, 5);
}

/* Each side on its own: more may come than was asked for, while the last messages are still being sent. */
static void free_streams_have_at_least_theirs(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_BIDI_FREE);
    struct gp_client *client = connected(&opts);
    struct gp_client_stats stats;
    struct tally tally = {0};

    start_calls(client, 64);
    collect_all(client, &tally, 64);
    gp_client_stats(client, &stats);
    CHECK(tally.classes[GP_CLASS_OK] == 64);
    CHECK(stats.messages_sent == 64 * 5);
    CHECK(tally.messages_received >= 64 * 5 && stats.messages_received == tally.messages_received);
    gp_client_destroy(client);
}

static void unbounded_streams_go_on_until_the_end(enum gp_kind kind)
{
    struct gp_client_opts opts = opts_of(&server, kind);
    struct gp_client_stats before, after;
    struct gp_client *client;
    struct tally tally = {0};

    opts.request.messages = 0;
    client = connected(&opts);
    start_calls(client, 8);
    collect(client, &tally, 8, 100 * GP_NS_PER_MS);
    gp_client_stats(client, &before);
    collect(client, &tally, 8, 100 * GP_NS_PER_MS);
    gp_client_stats(client, &after);
    CHECK(tally.finished == 0);
    CHECK(after.messages_sent + after.messages_received >
          before.messages_sent + before.messages_received + 100);
    gp_client_end(client);
    collect_all(client, &tally, 8);
    CHECK(tally.classes[GP_CLASS_OK] == 8);
    gp_client_stats(client, &after);
    if (kind == GP_KIND_BIDI)
        CHECK(after.messages_sent == after.messages_received);
    gp_client_destroy(client);
}

/* Every message that came is in exactly one histogram of those its kind has (the first in two, for bidi). */
static void messages_are_timed(enum gp_kind kind)
{
    struct gp_client_opts opts = opts_of(&server, kind);
    struct gp_message_times times;
    struct tally tally;

    CHECK(gp_message_times_init(&times, kind, 64) == 0);
    times.on = true;
    opts.times = &times;
    tally = run_calls(&opts, 64);
    CHECK(tally.classes[GP_CLASS_OK] == 64);
    CHECK(times.first.count == 64 && times.first.min_ns > 0 && times.first.max_ns <= tally.longest_ns);
    CHECK(times.round_trip.count == (kind == GP_KIND_BIDI ? tally.messages_received : 0));
    CHECK(times.gap.count == (kind == GP_KIND_BIDI ? 0 : tally.messages_received - 64));
    CHECK(times.gap.sum_ns + times.round_trip.sum_ns <= 64 * tally.longest_ns);
    gp_message_times_fini(&times);
}

static void poll_keeps_its_time_while_streams_run(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_BIDI);
    struct gp_client *client;
    struct gp_event event;
    uint64_t start_ns;

    opts.request.messages = 0;
    client = connected(&opts);
    start_calls(client, 64);
    start_ns = gp_clock_now_ns();
    CHECK(gp_client_poll(client, &event, 1, start_ns + 50 * GP_NS_PER_MS) == 0);
    CHECK(gp_clock_now_ns() - start_ns >= 50 * GP_NS_PER_MS);
    CHECK(gp_clock_now_ns() - start_ns < 500 * GP_NS_PER_MS);
    gp_client_destroy(client); /* with calls in flight */
}

/* --- how calls end --------------------------------------------------------------------------- */

static void a_deadline_expires_in_time(void)
{
    struct gp_metadata delay = {"grpcperf-delay-us", "3000000"};
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    struct tally tally;

    opts.request.metadata = &delay;
    opts.request.metadata_count = 1;
    opts.request.deadline_ns = 20 * GP_NS_PER_MS;
    tally = run_calls(&opts, 10);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 10);
    CHECK(tally.shortest_ns >= 19 * GP_NS_PER_MS && tally.shortest_ns < 40 * GP_NS_PER_MS);
    CHECK(tally.longest_ns < 2 * GP_NS_PER_S); /* long before the handler is done */
}

static void a_status_is_the_class(void)
{
    static const char *const statuses[] = {"1", "2", "5", "8", "13", "14", "16"};
    static const int numbers[] = {1, 2, 5, 8, 13, 14, 16};

    for (int kind = GP_KIND_UNARY; kind <= GP_KIND_BIDI_FREE; kind++)
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            struct gp_metadata status = {"grpcperf-status", statuses[i]};
            struct gp_client_opts opts = opts_of(&server, (enum gp_kind)kind);

            opts.request.metadata = &status;
            opts.request.metadata_count = 1;
            CHECK(run_calls(&opts, 4).classes[numbers[i]] == 4);
        }
}

static void an_unknown_method_is_unimplemented(void)
{
    for (int kind = GP_KIND_UNARY; kind <= GP_KIND_BIDI_FREE; kind++) {
        struct gp_client_opts opts = opts_of(&server, (enum gp_kind)kind);

        opts.request.method = "/grpc.testing.BenchmarkService/Nothing";
        CHECK(run_calls(&opts, 4).classes[GP_CLASS_UNIMPLEMENTED] == 4);
    }
}

/* As many messages as its kind demands, although it was not the client that ended it. */
static void the_server_may_end_a_stream(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_BIDI);

    opts.request.method = TEST_CLIENT_STREAM; /* one response, when the client's side is closed */
    opts.request.messages = 1;
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_OK] == 4);
    opts = opts_of(&server, GP_KIND_SERVER_STREAM);
    opts.request.method = TEST_BIDI; /* an answer to the one request */
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_OK] == 4);
}

/* Status OK, but fewer messages than were to come: a server answering a unary call ends after one. */
static void a_short_stream_is_not_ok(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_BIDI);

    opts.request.method = TEST_UNARY;
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_UNKNOWN] == 4);
    opts = opts_of(&server, GP_KIND_BIDI_FREE);
    opts.request.method = TEST_UNARY;
    CHECK(run_calls(&opts, 4).classes[GP_CLASS_UNKNOWN] == 4);
}

/* More responses than the kind has: never OK, and never for ever. */
static void a_second_response_is_not_ok(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    struct tally tally;

    opts.request.method = TEST_SERVER_STREAM;
    opts.request.deadline_ns = 300 * GP_NS_PER_MS;
    tally = run_calls(&opts, 4);
    CHECK(tally.classes[GP_CLASS_OK] == 0);
    CHECK(tally.longest_ns < 2 * GP_NS_PER_S);
}

static void a_large_reply_is_honest(void)
{
    struct gp_client_arg unlimited = {"grpc.max_receive_message_length", NULL, -1};
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    uint8_t message[TEST_REQUEST_MAX];
    struct tally tally;

    opts.request.message = message;
    opts.request.message_bytes = test_request(message, (4u << 20) + 1000);
    CHECK(run_calls(&opts, 3).classes[GP_CLASS_RESOURCE_EXHAUSTED] == 3);
    opts.args = &unlimited;
    opts.arg_count = 1;
    tally = run_calls(&opts, 3);
    CHECK(tally.classes[GP_CLASS_OK] == 3 && tally.messages_received == 3);
}

/* --- parked calls ---------------------------------------------------------------------------- */

static void parked_calls_stay_until_cancelled(enum gp_kind kind)
{
    struct gp_metadata hold = {"grpcperf-hold", "1"};
    struct gp_client_opts opts = opts_of(&server, kind);
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
    CHECK(tally.finished == 0);
    gp_client_end(client); /* parked calls do not mind */
    collect(client, &tally, 200, 30 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    gp_client_stats(client, &stats);
    CHECK(stats.messages_sent == (kind == GP_KIND_UNARY || kind == GP_KIND_SERVER_STREAM ? 200 : 0));
    CHECK(stats.messages_received == 0);
    gp_client_cancel_all(client);
    collect_all(client, &tally, 200);
    CHECK(tally.classes[GP_CLASS_CANCELLED] == 200);
    gp_client_destroy(client);
}

/* Parked by the client alone, with a first message: the server goes on answering, nothing ends. */
static void a_parked_stream_takes_what_comes(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_BIDI);
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally = {0};

    opts.request.parked = true;
    opts.request.messages = 2;
    client = connected(&opts);
    start_calls(client, 10);
    collect(client, &tally, 10, 200 * GP_NS_PER_MS);
    gp_client_stats(client, &stats);
    CHECK(tally.finished == 0 && stats.messages_sent == 20 && stats.messages_received == 20);
    gp_client_destroy(client);
}

int main(void)
{
    test_server_start(&server, NULL);
    kinds_have_their_messages();
    free_streams_have_at_least_theirs();
    for (int kind = GP_KIND_SERVER_STREAM; kind <= GP_KIND_BIDI_FREE; kind++)
        unbounded_streams_go_on_until_the_end((enum gp_kind)kind);
    messages_are_timed(GP_KIND_SERVER_STREAM);
    messages_are_timed(GP_KIND_BIDI);
    messages_are_timed(GP_KIND_BIDI_FREE);
    poll_keeps_its_time_while_streams_run();
    a_deadline_expires_in_time();
    a_status_is_the_class();
    an_unknown_method_is_unimplemented();
    the_server_may_end_a_stream();
    a_short_stream_is_not_ok();
    a_second_response_is_not_ok();
    a_large_reply_is_honest();
    for (int kind = GP_KIND_UNARY; kind <= GP_KIND_BIDI_FREE; kind++)
        parked_calls_stay_until_cancelled((enum gp_kind)kind);
    a_parked_stream_takes_what_comes();
    test_server_stop(&server);
    return 0;
}
