/* The same load through both transports: the same counts in the same classes, but for a connection's death,
 * which core can only call UNAVAILABLE. */
#include "wire_fixture.h"

static struct test_server server;

static struct tally run_on(const char *transport, struct gp_client_opts opts, uint64_t calls)
{
    opts.transport = transport;
    return run_calls(&opts, calls);
}

/* What both have given; the same, or it ends here. */
static struct tally both(struct gp_client_opts opts, uint64_t calls)
{
    struct tally core = run_on("core", opts, calls), wire = run_on("wire", opts, calls);

    for (int class = 0; class < GP_CLASS_COUNT; class ++) {
        if (core.classes[class] != wire.classes[class])
            fprintf(stderr, "kind %d %s: core %llu, wire %llu\n", (int)opts.request.kind,
                    gp_class_name((enum gp_class) class), (unsigned long long)core.classes[class],
                    (unsigned long long)wire.classes[class]);
        CHECK(core.classes[class] == wire.classes[class]);
    }
    if (opts.request.kind != GP_KIND_BIDI_FREE) /* there more may come than was asked for */
        CHECK(core.messages_received == wire.messages_received);
    return wire;
}

static struct gp_client_opts with(enum gp_kind kind, const struct gp_metadata *metadata)
{
    struct gp_client_opts opts = opts_of(&server, kind);

    opts.request.metadata = metadata;
    opts.request.metadata_count = 1;
    return opts;
}

static void good_calls(enum gp_kind kind)
{
    struct gp_client_opts opts = opts_of(&server, kind);

    for (uint32_t messages = 1; messages <= 100; messages *= 10) {
        opts.request.messages = kind == GP_KIND_UNARY ? 0 : messages;
        opts.connections = messages == 10 ? 3 : 1;
        CHECK(both(opts, 64).classes[GP_CLASS_OK] == 64);
    }
}

static void statuses(enum gp_kind kind)
{
    static const char *const texts[] = {"1", "2",  "3",  "4",  "5",  "6",  "7",  "8",
                                        "9", "10", "11", "12", "13", "14", "15", "16"};

    for (int status = 1; status <= 16; status++) {
        const struct gp_metadata metadata = {"grpcperf-status", texts[status - 1]};

        CHECK(both(with(kind, &metadata), 8).classes[status] == 8);
    }
}

static void deadlines(enum gp_kind kind)
{
    const struct gp_metadata metadata = {"grpcperf-delay-us", "5000000"};
    struct gp_client_opts opts = with(kind, &metadata);
    struct tally tally;

    opts.request.deadline_ns = 30 * GP_NS_PER_MS;
    tally = both(opts, 16);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 16 && tally.longest_ns < GP_NS_PER_S);
}

static void parked_and_deadline(enum gp_kind kind)
{
    const struct gp_metadata metadata = {"grpcperf-hold", "1"};
    struct gp_client_opts opts = with(kind, &metadata);

    opts.request.parked = true;
    opts.request.messages = 0;
    opts.request.deadline_ns = 50 * GP_NS_PER_MS;
    CHECK(both(opts, 32).classes[GP_CLASS_DEADLINE_EXCEEDED] == 32);
}

static void unknown_methods(enum gp_kind kind)
{
    struct gp_client_opts opts = opts_of(&server, kind);

    opts.request.method = "/grpc.testing.BenchmarkService/Nothing";
    CHECK(both(opts, 8).classes[GP_CLASS_UNIMPLEMENTED] == 8);
}

/* A method of another kind than the client takes it for. The one pair left out goes on for ever. */
static void wrong_kinds(enum gp_kind kind)
{
    static const char *const methods[] = {TEST_UNARY, TEST_CLIENT_STREAM, TEST_BIDI};

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct gp_client_opts opts = opts_of(&server, kind);

        opts.request.method = methods[i];
        opts.request.messages = kind == GP_KIND_UNARY ? 0 : 1;
        opts.request.deadline_ns = 300 * GP_NS_PER_MS; /* for those that wait for each other */
        both(opts, 4);
    }
}

static void large_replies(void)
{
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    uint8_t message[TEST_REQUEST_MAX];

    opts.request.message = message;
    opts.request.message_bytes = test_request(message, (4u << 20) - 100);
    CHECK(both(opts, 4).classes[GP_CLASS_OK] == 4);
    opts.request.message_bytes = test_request(message, (4u << 20) + 100);
    CHECK(both(opts, 4).classes[GP_CLASS_RESOURCE_EXHAUSTED] == 4);
}

static void cancelled_calls(enum gp_kind kind)
{
    const struct gp_metadata metadata = {"grpcperf-hold", "1"};
    static const char *const transports[] = {"core", "wire"};

    for (size_t i = 0; i < 2; i++) {
        struct gp_client_opts opts = with(kind, &metadata);
        struct gp_client *client;
        struct tally tally = {0};

        opts.transport = transports[i];
        opts.request.parked = true;
        opts.request.messages = 0;
        client = connected(&opts);
        start_calls(client, 32);
        collect(client, &tally, 32, 30 * GP_NS_PER_MS);
        gp_client_cancel_all(client);
        collect_all(client, &tally, 32);
        for (int class = 0; class < GP_CLASS_COUNT; class ++)
            if (tally.classes[class] > 0 && class != GP_CLASS_CANCELLED)
                fprintf(stderr, "%s kind %d %s: %llu\n", transports[i], (int)kind,
                        gp_class_name((enum gp_class) class), (unsigned long long)tally.classes[class]);
        CHECK(tally.classes[GP_CLASS_CANCELLED] == 32);
        gp_client_destroy(client);
    }
}

/* The server never reads what comes. */
static void endless_client_streams_on_a_server_that_does_not_read(void)
{
    const struct gp_metadata metadata = {"grpcperf-hold", "1"};
    static const char *const transports[] = {"core", "wire"};

    for (size_t i = 0; i < 2; i++) {
        struct gp_client_opts opts = with(GP_KIND_CLIENT_STREAM, &metadata);
        struct gp_event events[8];
        struct gp_client *client;
        struct tally tally = {0};
        size_t came = 0;

        opts.transport = transports[i];
        opts.request.messages = 0;
        client = connected(&opts);
        start_calls(client, 8);
        collect(client, &tally, 8, 50 * GP_NS_PER_MS);
        gp_client_end(client);
        collect(client, &tally, 8, 50 * GP_NS_PER_MS);
        CHECK(tally.finished == 0);
        gp_client_cancel_all(client);
        while (came < 8) {
            size_t more = gp_client_poll(client, events, 8 - came, gp_clock_now_ns() + WAIT_NS);

            for (size_t e = 0; e < more; e++)
                CHECK(events[e].class == GP_CLASS_OK && events[e].ahead && events[e].messages_received == 0);
            CHECK(more > 0);
            came += more;
        }
        gp_client_destroy(client);
    }
}

/* Both send the payloads that the seed draws, on each of two connections; the responses are of all sizes. */
static void pools(enum gp_kind kind)
{
    static const char *const transports[] = {"core", "wire"};
    uint8_t small[TEST_REQUEST_MAX], large[TEST_REQUEST_MAX];
    const struct gp_payload pool[] = {
        {small, test_request(small, 10)}, {large, test_request(large, 30000)}, {"", 0}};
    uint64_t bytes[2];

    for (size_t i = 0; i < 2; i++) {
        struct gp_client_opts opts = opts_of(&server, kind);
        struct gp_client_stats stats;
        struct gp_client *client;
        struct tally tally = {0};
        uint32_t messages =
            kind == GP_KIND_UNARY || kind == GP_KIND_SERVER_STREAM ? 1 : opts.request.messages;
        uint64_t wanted = 0;

        opts.transport = transports[i];
        opts.connections = 2;
        opts.request.pool = pool;
        opts.request.pool_count = 3;
        opts.request.seed = 11;
        client = connected(&opts);
        start_calls(client, 32);
        collect_all(client, &tally, 32);
        CHECK(tally.classes[GP_CLASS_OK] == 32);
        gp_client_stats(client, &stats);
        for (uint32_t call = 0; call < 32; call++)
            for (uint32_t m = 0; m < messages; m++)
                wanted += pool[gp_call_draw(11, call % 2, call / 2, m, 3)].size;
        CHECK(stats.payload_sent == wanted && stats.messages_sent == 32 * messages);
        bytes[i] = stats.payload_sent;
        gp_client_destroy(client);
    }
    CHECK(bytes[0] == bytes[1] && bytes[0] > 0);
}

static void a_death(void)
{
    static const char *const transports[] = {"core", "wire"};
    static const enum gp_class classes[] = {GP_CLASS_UNAVAILABLE, GP_CLASS_TRANSPORT};
    const struct gp_metadata metadata = {"grpcperf-hold", "1"};

    for (size_t i = 0; i < 2; i++) {
        struct gp_client_opts opts = with(GP_KIND_UNARY, &metadata);
        struct test_server victim;
        struct gp_client *client;
        struct tally tally = {0};

        test_server_start(&victim, NULL);
        opts.target = victim.target;
        opts.transport = transports[i];
        client = connected(&opts);
        start_calls(client, 32);
        collect(client, &tally, 32, 30 * GP_NS_PER_MS);
        test_server_kill(&victim);
        collect_all(client, &tally, 32);
        CHECK(tally.classes[classes[i]] == 32);
        gp_client_destroy(client);
    }
}

int main(void)
{
    test_server_start(&server, NULL);
    for (int kind = GP_KIND_UNARY; kind <= GP_KIND_BIDI_FREE; kind++) {
        good_calls((enum gp_kind)kind);
        statuses((enum gp_kind)kind);
        deadlines((enum gp_kind)kind);
        parked_and_deadline((enum gp_kind)kind);
        unknown_methods((enum gp_kind)kind);
        cancelled_calls((enum gp_kind)kind);
        pools((enum gp_kind)kind);
    }
    wrong_kinds(GP_KIND_CLIENT_STREAM);
    wrong_kinds(GP_KIND_SERVER_STREAM);
    wrong_kinds(GP_KIND_BIDI);
    large_replies();
    endless_client_streams_on_a_server_that_does_not_read();
    a_death();
    test_server_stop(&server);
    return 0;
}
