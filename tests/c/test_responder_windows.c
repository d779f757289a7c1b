/* The responder in the eyes of nghttp2's client: streams without an end, windows of all sizes, header tables
 * of all sizes. */
#include "http2_oracle.h"

#define UNARY SERVICE "UnaryCall"
#define PING_PONG SERVICE "StreamingCall"
#define FROM_CLIENT SERVICE "StreamingFromClient"
#define FROM_SERVER SERVICE "StreamingFromServer"
#define BOTH_WAYS SERVICE "StreamingBothWays"

static const struct oracle_opts plain = {0};

static void check_counts(const struct oracle *oracle, uint64_t started, uint64_t cancelled)
{
    CHECK(oracle->counts.started == started && oracle->counts.finished == started);
    CHECK(oracle->counts.cancelled == cancelled && oracle->counts.running == 0);
}

/* --- streams without an end */

static void consume_all(struct oracle *oracle, struct call *call, uint64_t *consumed)
{
    if (call->bytes > *consumed && !call->closed)
        CHECK(nghttp2_session_consume(oracle->session, call->id, (size_t)(call->bytes - *consumed)) == 0);
    *consumed = call->bytes;
}

static void from_server_ends_when_cancelled(uint32_t size)
{
    struct oracle oracle;
    struct oracle_opts opts = {.manual_windows = true};
    uint64_t consumed = 0;

    oracle_init(&oracle, &opts);
    struct call *call = start(&oracle, FROM_SERVER, 1, size, 0, false);
    struct call *other = start(&oracle, PING_PONG, 0, 0, 0, true);
    exchange(&oracle);
    CHECK(call->bytes == 65535 && !call->ended); /* all that the first window allows, and no more */
    for (unsigned round = 0; round < 50; round++) {
        uint64_t before = call->bytes;
        consume_all(&oracle, call, &consumed);
        exchange(&oracle);
        CHECK(call->bytes > before + 20000);
    }
    CHECK(size > 65535 || call->messages > 10);
    CHECK(call->messages == 0 || call->last_body == size);
    cancel(&oracle, call);
    exchange(&oracle);
    CHECK(call->closed && oracle.counts.running == 1);
    end_side(&oracle, other);
    exchange(&oracle);
    check_ok(other, 0, 0);
    check_counts(&oracle, 2, 1);
    oracle_fini(&oracle);
}

static void both_ways_ends_with_the_client(uint32_t size)
{
    struct oracle oracle;
    struct oracle_opts opts = {.manual_windows = true};
    uint64_t consumed = 0;

    oracle_init(&oracle, &opts);
    struct call *silent = start(&oracle, BOTH_WAYS, 0, size, 0, false);
    struct call *call = start(&oracle, BOTH_WAYS, 1, size, 0, true);
    exchange(&oracle);
    check_ok(silent, 0, 0);
    CHECK(call->bytes == 65535 && !call->ended);
    send_more(&oracle, call, 7, false); /* from the next message on */
    exchange(&oracle);
    consume_all(&oracle, call, &consumed);
    exchange(&oracle);
    CHECK(call->last_body == 7);
    end_side(&oracle, call);
    exchange(&oracle);
    CHECK(!call->ended || call->have == 0); /* the message that is under way is sent to its end */
    consume_all(&oracle, call, &consumed);
    exchange(&oracle);
    CHECK(call->ended && call->closed && call->grpc_status == 0 && call->have == 0);
    check_counts(&oracle, 2, 0);
    oracle_fini(&oracle);
}

/* Nothing is written for whoever does not read: not more than a few hundred KiB, with windows of 2 GiB. */
static void output_is_bounded(uint32_t largest)
{
    struct oracle oracle;
    struct oracle_opts opts = {.window = 0x7fffffff};
    struct iovec pieces[4];

    oracle_init(&oracle, &opts);
    CHECK(nghttp2_submit_window_update(oracle.session, 0, 0, 0x7fffffff - 65535) == 0);
    for (unsigned i = 0; i < 20; i++)
        start(&oracle, i % 2 ? FROM_SERVER : BOTH_WAYS, 1,
              i < 4            ? largest
              : largest < 1000 ? i
                               : i * 1000,
              0, i % 2 == 0);
    while (ask_client(&oracle)) /* not a byte is read */
        ;
    for (unsigned i = 0; i < 100; i++)
        CHECK(gp_responder_gather(oracle.responder, pieces, 4) > 0);
    CHECK(gp_responder_pending(oracle.responder) < 1u << 20);
    for (unsigned i = 0; i < (largest < 1000 ? 60 : 3000); i++)
        ask_server(&oracle);
    CHECK(oracle.most_pending < 1u << 20);
    for (unsigned i = 0; i < 20; i++)
        CHECK(oracle.calls[i].bytes > 100000); /* all get their turn */
    oracle_fini(&oracle);
}

/* --- windows */

/* Windows of `window` bytes, given back a few bytes at a time. */
static void tiny_windows(uint32_t window, size_t step, bool stand_together)
{
    struct oracle oracle;
    struct oracle_opts opts = {.window = window, .manual_windows = true, .together = stand_together};
    static const uint32_t sizes[] = {0, 1, 10, 50, 333, 2000};
    uint64_t consumed[6] = {0};
    bool all;

    oracle_init(&oracle, &opts);
    for (unsigned i = 0; i < 6; i++)
        start(&oracle, i % 2 ? PING_PONG : UNARY, i % 2 ? 2 : 1, sizes[i], 10, false);
    do {
        exchange(&oracle);
        all = true;
        for (unsigned i = 0; i < 6; i++) {
            struct call *call = &oracle.calls[i];
            uint64_t part = call->bytes - consumed[i] < step ? call->bytes - consumed[i] : step;
            all = all && call->closed;
            CHECK(call->closed || (part > 0 && part <= window));
            if (call->closed)
                continue;
            CHECK(nghttp2_session_consume_connection(oracle.session, part) == 0);
            CHECK(nghttp2_submit_window_update(oracle.session, 0, call->id, (int32_t)part) == 0);
            consumed[i] += part;
        }
    } while (!all);
    for (unsigned i = 0; i < 6; i++)
        check_ok(&oracle.calls[i], 1 + i % 2, sizes[i] * (uint64_t)(1 + i % 2));
    oracle_fini(&oracle);
}

/* The connection's window is used up by one stream; others wait for it, but not those that need none. */
static void connection_window(void)
{
    struct oracle oracle;
    struct oracle_opts opts = {.window = 1u << 20, .manual_windows = true};

    oracle_init(&oracle, &opts);
    struct call *large = start(&oracle, UNARY, 1, 500000, 0, false);
    exchange(&oracle);
    CHECK(large->bytes == 65535);
    struct call *small = start(&oracle, UNARY, 1, 16, 16, false);
    struct call *silent = start(&oracle, PING_PONG, 0, 0, 0, false);
    struct call *wrong = start(&oracle, SERVICE "None", 0, 0, 0, false);
    exchange(&oracle);
    CHECK(small->bytes == 0 && !small->ended);
    check_ok(silent, 0, 0);
    check_failed(wrong, 12);
    for (unsigned i = 0; i < 20; i++) {
        CHECK(nghttp2_session_consume_connection(oracle.session, 50000) == 0 || i > 8);
        exchange(&oracle);
    }
    CHECK(nghttp2_submit_window_update(oracle.session, 0, 0, 100000) == 0);
    exchange(&oracle);
    check_ok(large, 1, 500000);
    check_ok(small, 1, 16);
    oracle_fini(&oracle);
}

/* Answers so small that they are copied keep to the windows no less: of the connection, then of streams. */
static void small_answers_use_the_windows_up(void)
{
    struct oracle oracle;
    struct oracle_opts opts = {.manual_windows = true, .together = true};
    uint64_t bytes = 0;

    oracle_init(&oracle, &opts);
    for (unsigned i = 0; i < 4000; i++)
        start(&oracle, UNARY, 1, 16, 16, false);
    exchange(&oracle);
    for (unsigned i = 0; i < 4000; i++)
        bytes += oracle.calls[i].bytes;
    CHECK(bytes == 65535);
    CHECK(nghttp2_submit_window_update(oracle.session, 0, 0, 1 << 20) == 0);
    exchange(&oracle);
    for (unsigned i = 0; i < 4000; i++)
        check_ok(&oracle.calls[i], 1, 16);
    oracle_settings(&oracle, &(struct oracle_opts){.window = 20});
    exchange(&oracle);
    struct call *call = start(&oracle, UNARY, 1, 16, 16, false);
    exchange(&oracle);
    CHECK(call->bytes == 20 && !call->ended);
    oracle_fini(&oracle);
}

/* SETTINGS that change INITIAL_WINDOW_SIZE while streams wait: to nothing, below what was sent, and up. */
static void initial_window_changes(void)
{
    struct oracle oracle;
    struct oracle_opts opts = {.window = 1000, .manual_windows = true};

    oracle_init(&oracle, &opts);
    struct call *call = start(&oracle, UNARY, 1, 5000, 0, false);
    exchange(&oracle);
    CHECK(call->bytes == 1000);
    oracle_settings(&oracle, &(struct oracle_opts){.window = 10}); /* 990 less than nothing */
    exchange(&oracle);
    CHECK(nghttp2_submit_window_update(oracle.session, 0, call->id, 900) == 0);
    exchange(&oracle);
    CHECK(call->bytes == 1000);
    oracle_settings(&oracle, &(struct oracle_opts){.window = 200});
    exchange(&oracle);
    CHECK(call->bytes == 1100);
    oracle_settings(&oracle, &(struct oracle_opts){.window = 60000});
    exchange(&oracle);
    check_ok(call, 1, 5000);
    oracle_fini(&oracle);
}

/* 64 MiB in, far beyond what the windows allow at once: they are given back while it comes. */
static void long_uploads(void)
{
    struct oracle oracle;
    uint32_t payload = 1u << 20;

    oracle_init(&oracle, &plain);
    struct call *stream = start(&oracle, FROM_CLIENT, 32, 8, payload, false);
    struct call *unary = start(&oracle, UNARY, 1, 8, 20 * payload, false);
    struct call *echo = start(&oracle, PING_PONG, 12, 100000, payload, false);
    exchange(&oracle);
    check_ok(stream, 1, 8);
    check_ok(unary, 1, 8);
    check_ok(echo, 12, 1200000);
    oracle_fini(&oracle);
}

/* Who asks and asks, and does not read, is not allowed to ask more: the stream's window stays used up. */
static void unread_answers_hold_the_requests_back(void)
{
    struct oracle oracle;
    struct oracle_opts opts = {.manual_windows = true};

    oracle_init(&oracle, &opts);
    struct call *call = start(&oracle, PING_PONG, 700, 1000, 10000, false);
    exchange(&oracle);
    CHECK(call->bytes == 65535);
    CHECK(call->request_sent <= 4u << 20 && call->request_size > 4u << 20);
    for (unsigned i = 0; i < 100; i++) {
        CHECK(nghttp2_submit_window_update(oracle.session, 0, 0, 65535) == 0);
        if (!call->closed)
            CHECK(nghttp2_submit_window_update(oracle.session, 0, call->id, 65535) == 0);
        exchange(&oracle);
    }
    check_ok(call, 700, 700000);
    oracle_fini(&oracle);
}

/* Each answer of another size: they are kept one by one, up to a limit. */
static void answers_of_changing_sizes(unsigned messages, bool refused)
{
    struct oracle oracle;
    struct oracle_opts opts = {.manual_windows = true};
    uint8_t *request = malloc(messages * 64 + 64);
    size_t size = put_request(request, 70000, 0);
    uint64_t sum = 70000;

    for (unsigned i = 1; i < messages; i++) {
        size += put_request(request + size, i % 97, 0);
        sum += i % 97;
    }
    oracle_init(&oracle, &opts);
    struct call *call = start_bytes(&oracle, PING_PONG, request, size, false);
    exchange(&oracle);
    free(request);
    if (refused) {
        CHECK(call->closed && call->error_code == NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
        CHECK(nghttp2_submit_window_update(oracle.session, 0, 0, 1u << 20) == 0);
        CHECK(nghttp2_submit_window_update(oracle.session, 0, call->id, 1u << 20) == 0);
        exchange(&oracle);
        check_ok(call, messages, sum);
    }
    oracle_fini(&oracle);
}

/* --- header tables */

static void table_sizes(uint32_t first, uint32_t second, bool stand_together)
{
    struct oracle oracle;
    struct oracle_opts opts = {.table_size = first, .has_table_size = true, .together = stand_together};
    struct oracle_opts then = {.table_size = second, .has_table_size = true};

    oracle_init(&oracle, &opts);
    struct call *waiting = start(&oracle, PING_PONG, 1, 1, 0, true); /* its trailers come after the change */
    for (unsigned i = 0; i < 3; i++)
        start(&oracle, i == 1 ? SERVICE "None" : UNARY, 1, 16, 16, false);
    exchange(&oracle);
    oracle_settings(&oracle, &then);
    exchange(&oracle);
    end_side(&oracle, waiting);
    for (unsigned i = 0; i < 3; i++)
        start(&oracle, i == 0 ? SERVICE "None" : UNARY, 1, 16, 16, false);
    exchange(&oracle);
    check_ok(waiting, 1, 1);
    for (unsigned i = 1; i <= 6; i++)
        if (i == 2 || i == 4)
            check_failed(&oracle.calls[i], 12);
        else
            check_ok(&oracle.calls[i], 1, 16);
    oracle_fini(&oracle);
}

int main(void)
{
    from_server_ends_when_cancelled(0);
    from_server_ends_when_cancelled(16);
    from_server_ends_when_cancelled(100000);
    both_ways_ends_with_the_client(16);
    both_ways_ends_with_the_client(65600);
    output_is_bounded(1u << 30);
    output_is_bounded(16);
    for (int stand_together = 0; stand_together < 2; stand_together++) {
        tiny_windows(1, 1, stand_together);
        tiny_windows(7, 3, stand_together);
        tiny_windows(100, 100, stand_together);
    }
    small_answers_use_the_windows_up();
    connection_window();
    initial_window_changes();
    long_uploads();
    unread_answers_hold_the_requests_back();
    answers_of_changing_sizes(250, false);
    answers_of_changing_sizes(400, true);
    for (unsigned i = 0; i < 16; i++) {
        static const uint32_t sizes[] = {0, 127, 128, 4096};
        table_sizes(sizes[i % 4], sizes[i / 4], false);
        table_sizes(sizes[i % 4], sizes[i / 4], true);
    }
    return 0;
}
