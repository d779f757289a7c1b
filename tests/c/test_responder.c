/* The responder in the eyes of nghttp2's client: every method, sizes, cuts, and how calls end. */
#include "http2_oracle.h"
#include "wire/responder_parts.h"

#define UNARY SERVICE "UnaryCall"
#define PING_PONG SERVICE "StreamingCall"
#define FROM_CLIENT SERVICE "StreamingFromClient"
#define FROM_SERVER SERVICE "StreamingFromServer"
#define BOTH_WAYS SERVICE "StreamingBothWays"

static const struct oracle_opts plain = {0};
static const struct oracle_opts together = {.together = true};

/* --- the five methods */

static void check_counts(const struct oracle *oracle, uint64_t started, uint64_t cancelled)
{
    CHECK(oracle->counts.started == started && oracle->counts.finished == started);
    CHECK(oracle->counts.cancelled == cancelled && oracle->counts.running == 0);
}

/* Returns how many bytes the client sent. */
static uint64_t all_methods(const struct oracle_opts *opts)
{
    struct oracle oracle;
    oracle_init(&oracle, opts);
    struct call *unary = start(&oracle, UNARY, 1, 16, 16, false);
    struct call *ping_pong = start(&oracle, PING_PONG, 5, 100, 0, false);
    struct call *from_client = start(&oracle, FROM_CLIENT, 7, 20, 3, false);
    struct call *nothing = start(&oracle, FROM_CLIENT, 0, 0, 0, false);
    struct call *silent = start(&oracle, PING_PONG, 0, 0, 0, false);
    struct call *again = start(&oracle, UNARY, 1, 16, 16, false);
    exchange(&oracle);
    check_ok(unary, 1, 16);
    check_ok(ping_pong, 5, 500);
    check_ok(from_client, 1, 20);
    check_ok(nothing, 1, 0);
    check_ok(silent, 0, 0);
    check_ok(again, 1, 16);
    check_counts(&oracle, 6, 0);
    CHECK(oracle.counts.peak_running >= 1 && oracle.counts.rejected == 0);
    uint64_t sent = oracle.to_server;
    oracle_fini(&oracle);
    return sent;
}

static void unary_of_all_sizes(const struct oracle_opts *opts)
{
    static const uint32_t sizes[] = {0,    1,     16,    127,   128,   1023,   1024,
                                     1025, 16350, 16384, 65535, 65536, 300000, 5u << 20};
    struct oracle oracle;
    struct call *calls[2][sizeof sizes / sizeof *sizes];

    oracle_init(&oracle, opts);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        calls[0][i] = start(&oracle, UNARY, 1, sizes[i], 0, false);
        calls[1][i] = start(&oracle, UNARY, 1, 5, sizes[i] < 1u << 20 ? sizes[i] : 1u << 20, false);
    }
    exchange(&oracle);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_ok(calls[0][i], 1, sizes[i]);
        check_ok(calls[1][i], 1, 5);
    }
    oracle_fini(&oracle);
}

/* A request for each of many streams in one piece: what the short way is for. */
static void thousands_of_unary_calls(const struct oracle_opts *opts)
{
    struct oracle oracle;

    oracle_init(&oracle, opts);
    for (unsigned round = 0; round < 4; round++) {
        uint32_t size = round == 2 ? 300 : 16; /* the answer prepared is made anew */
        for (unsigned i = 0; i < 1000; i++)
            start(&oracle, UNARY, 1, size, 16, false);
        exchange(&oracle);
        for (unsigned i = 0; i < 1000; i++)
            check_ok(&oracle.calls[round * 1000 + i], 1, size);
    }
    check_counts(&oracle, 4000, 0);
    oracle_fini(&oracle);
}

/* The short way is left wherever something is not as usual, and found again. */
static void other_calls_between(void)
{
    static const uint32_t sizes[] = {16, 16, 0, 16, 1024, 1025, 70000, 16, 16};
    struct oracle oracle;

    oracle_init(&oracle, &together);
    for (unsigned round = 0; round < 3; round++) {
        size_t before = oracle.count;
        for (unsigned i = 0; i < 9; i++) {
            start(&oracle, UNARY, 1, sizes[i], i == 7 ? 5000 : 16, false);
            start(&oracle, FROM_CLIENT, i % 2, 16, 16, false);
            start(&oracle, PING_PONG, i, 16, 16, false);
            start(&oracle, SERVICE "None", 1, 16, 16, false);
            start_bytes(&oracle, UNARY, (const uint8_t *)"\0\0\0\0\2\x10\1\0\0\0\0\2\x10\1", 14, false);
        }
        exchange(&oracle);
        for (unsigned i = 0; i < 9; i++) {
            const struct call *calls = &oracle.calls[before + 5 * i];
            check_ok(&calls[0], 1, sizes[i]);
            check_ok(&calls[1], 1, i % 2 ? 16 : 0);
            check_ok(&calls[2], i, 16 * i);
            check_failed(&calls[3], 12);
            check_failed(&calls[4], 12);
        }
    }
    check_counts(&oracle, 3 * 9 * 4, 0);
    oracle_fini(&oracle);
}

/* Requests of one size that ask for different things. */
static void requests_are_told_apart(void)
{
    struct oracle oracle;

    oracle_init(&oracle, &together);
    for (uint32_t i = 0; i < 500; i++) {
        start(&oracle, UNARY, 1, 1 + i * 7 % 100, 16, false);
        if (i < 3) /* the header blocks come to rest */
            exchange(&oracle);
    }
    exchange(&oracle);
    for (uint32_t i = 0; i < 500; i++)
        check_ok(&oracle.calls[i], 1, 1 + i * 7 % 100);
    oracle_fini(&oracle);
}

static void calls_on_the_short_way_are_counted(void)
{
    struct oracle oracle;

    oracle_init(&oracle, &together);
    for (unsigned i = 0; i < 3; i++) { /* the header blocks come to rest */
        start(&oracle, UNARY, 1, 16, 16, false);
        exchange(&oracle);
    }
    struct call *stays = start(&oracle, PING_PONG, 0, 0, 0, true);
    exchange(&oracle);
    oracle.counts.peak_running = 1;
    for (unsigned i = 0; i < 5; i++)
        start(&oracle, UNARY, 1, 16, 16, false);
    exchange(&oracle);
    CHECK(oracle.counts.peak_running == 2 && oracle.counts.running == 1 && oracle.counts.started == 9);
    end_side(&oracle, stays);
    exchange(&oracle);
    check_counts(&oracle, 9, 0);
    oracle_fini(&oracle);
}

static void ping_pong_goes_on_message_by_message(void)
{
    struct oracle oracle;
    oracle_init(&oracle, &plain);
    struct call *call = start(&oracle, PING_PONG, 1, 3, 0, true);

    exchange(&oracle);
    CHECK(call->messages == 1 && call->last_body == 3 && !call->ended);
    CHECK(oracle.counts.running == 1);
    for (uint32_t size = 0; size < 2000; size += 99) {
        uint64_t before = call->messages;
        send_more(&oracle, call, size, false);
        exchange(&oracle);
        CHECK(call->messages == before + 1 && call->last_body == size);
    }
    send_more(&oracle, call, 70000, true);
    exchange(&oracle);
    CHECK(call->last_body == 70000 && call->closed && call->grpc_status == 0);
    check_counts(&oracle, 1, 0);
    oracle_fini(&oracle);
}

/* --- how calls fail */

static void failures(const struct oracle_opts *opts)
{
    static const struct {
        const char *path;
        const char *request;
        size_t size;
        int status;
    } cases[] = {
        {SERVICE "None", "", 0, 12},
        {"/", "", 0, 12},
        {UNARY, "", 0, 12},
        {FROM_SERVER, "", 0, 12},
        {UNARY, "\0\0\0\0\2\x10\1\0\0\0\0\2\x10\1", 14, 12}, /* two messages */
        {UNARY, "\0\0\0\0\2\x10", 6, 13},                    /* ends inside one */
        {PING_PONG, "\0\0\0", 3, 13},                        /* or inside a prefix */
        {UNARY, "\0\0\0\0\1\x10", 6, 13},                    /* no SimpleRequest */
        {FROM_CLIENT, "\0\0\0\0\2\x1a\5", 7, 13},            /* longer than its message */
        {BOTH_WAYS, "\0\0\0\0\1\x0b", 6, 13},                /* a group */
        {UNARY, "\1\0\0\0\2\x10\1", 7, 13},                  /* compressed, which nobody announced */
        {UNARY, "\2\0\0\0\2\x10\1", 7, 13},                  /* no such flag */
        {UNARY, "\0\0\0\0\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 16, 3}, /* response_size -1 */
        {PING_PONG, "\0\0\0\0\6\x10\x81\x80\x80\x80\4", 11, 3},                   /* 1 GiB and a byte */
    };
    struct oracle oracle;
    size_t count = sizeof cases / sizeof *cases;

    oracle_init(&oracle, opts);
    for (size_t i = 0; i < 2 * count; i++) /* with the client's side ended, and open */
        start_bytes(&oracle, cases[i % count].path, (const uint8_t *)cases[i % count].request,
                    cases[i % count].size, false);
    exchange(&oracle);
    for (size_t i = 0; i < 2 * count; i++)
        check_failed(&oracle.calls[i], cases[i % count].status);
    CHECK(oracle.counts.rejected == 4 && oracle.counts.running == 0);
    oracle_fini(&oracle);
}

/* A failure before the client has ended its side: the response is whole, and the rest is not wanted. */
static void failure_while_the_client_sends(void)
{
    struct oracle oracle;
    oracle_init(&oracle, &plain);
    struct call *wrong = start(&oracle, SERVICE "None", 3, 1, 1000, true);
    struct call *broken = start_bytes(&oracle, PING_PONG, (const uint8_t *)"\0\0\0\0\2\x10\1\7", 8, true);
    exchange(&oracle);
    check_failed(wrong, 12);
    check_failed(broken, 13); /* it may or may not have had its first answer */
    struct call *good = start(&oracle, UNARY, 1, 16, 16, false);
    exchange(&oracle);
    check_ok(good, 1, 16);
    oracle_fini(&oracle);
}

static void compressed_messages_are_refused(void)
{
    struct oracle oracle;
    oracle_init(&oracle, &plain);
    struct call *call = &oracle.calls[oracle.count++];
    nghttp2_nv fields[] = {field(":method", "POST"), field(":scheme", "http"), field(":path", UNARY),
                           field(":authority", "x"), field("grpc-encoding", "gzip")};
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = give_request};

    *call = (struct call){.grpc_status = -1, .request_size = 7, .request = malloc(7)};
    memcpy(call->request, "\1\0\0\0\2\x10\1", 7);
    call->id = nghttp2_submit_request(oracle.session, NULL, fields, 5, &provider, call);
    exchange(&oracle);
    check_failed(call, 12);
    oracle_fini(&oracle);
}

/* --- many at once */

/* One stream stays while thousands pass by, in and out of order. */
static void a_stream_stays(void)
{
    struct oracle oracle;
    oracle_init(&oracle, &plain);
    struct call *stays = start(&oracle, PING_PONG, 1, 9, 0, true);

    for (unsigned round = 0; round < 20; round++) {
        size_t before = oracle.count;
        for (unsigned i = 0; i < 100; i++)
            start(&oracle, PING_PONG, i % 3, 10, 0, i % 2 == 0);
        exchange(&oracle);
        for (size_t i = before + 98; i + 2 > before; i -= 2) { /* the last opened ends first */
            end_side(&oracle, &oracle.calls[i]);
            exchange(&oracle);
            if (i == before)
                break;
        }
        for (unsigned i = 0; i < 100; i++)
            check_ok(&oracle.calls[before + i], i % 3, 10 * (i % 3));
    }
    send_more(&oracle, stays, 9, true);
    exchange(&oracle);
    check_ok(stays, 2, 18);
    check_counts(&oracle, 2001, 0);
    CHECK(oracle.counts.peak_running >= 51 && oracle.counts.peak_running <= 101);
    oracle_fini(&oracle);
}

/* Cancelled in the very moment, while they wait for their turn to be answered: nothing of them stays. */
static void calls_are_cancelled_at_once(void)
{
    struct oracle oracle;

    oracle_init(&oracle, &together);
    for (unsigned i = 0; i < 1000; i++) {
        struct call *call = start(&oracle, i % 2 ? PING_PONG : FROM_SERVER, 1, 16, 16, i % 2);
        cancel(&oracle, call);
        if (i % 10 == 9)
            exchange(&oracle);
    }
    start(&oracle, UNARY, 1, 16, 16, false);
    exchange(&oracle);
    check_ok(&oracle.calls[1000], 1, 16);
    check_counts(&oracle, 1001, 1000);
    CHECK(oracle.responder->streams.used < 64);
    oracle_fini(&oracle);
}

static void calls_in_flight_are_cancelled_with_the_connection(void)
{
    struct gp_responder_counts after;
    struct oracle oracle;

    oracle_init(&oracle, &plain);
    for (unsigned i = 0; i < 10; i++)
        start(&oracle, PING_PONG, 1, 1, 0, true);
    exchange(&oracle);
    CHECK(oracle.counts.running == 10);
    gp_responder_destroy(oracle.responder);
    oracle.responder = NULL;
    after = oracle.counts;
    CHECK(after.running == 0 && after.cancelled == 10 && after.finished == 10 && after.peak_running == 10);
    oracle_fini(&oracle);
}

int main(void)
{
    struct oracle_opts bytewise = {.cut = 1};
    uint64_t sent = all_methods(&plain);

    CHECK(sent > 500);
    all_methods(&bytewise);
    all_methods(&together);
    for (size_t cut_at = 1; cut_at < sent; cut_at++)
        all_methods(&(struct oracle_opts){.cut_at = cut_at, .together = cut_at % 2});
    unary_of_all_sizes(&plain);
    unary_of_all_sizes(&together);
    unary_of_all_sizes(&(struct oracle_opts){.cut = 1000});
    unary_of_all_sizes(&(struct oracle_opts){.window = 1u << 30});
    thousands_of_unary_calls(&plain);
    thousands_of_unary_calls(&together);
    other_calls_between();
    requests_are_told_apart();
    calls_on_the_short_way_are_counted();
    ping_pong_goes_on_message_by_message();
    failures(&plain);
    failures(&bytewise);
    failures(&together);
    failure_while_the_client_sends();
    compressed_messages_are_refused();
    a_stream_stays();
    calls_are_cancelled_at_once();
    calls_in_flight_are_cancelled_with_the_connection();
    return 0;
}
