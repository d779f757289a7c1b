/* feed: messages given one by one to a stream, as far as the peer takes them. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "client/client.h"
#include "support.h"
#include "wire/connection.h"

#define SECOND GP_NS_PER_S

static uint8_t request[TEST_REQUEST_MAX];
static size_t request_bytes;

static struct gp_client_opts opts_for(const char *target, const char *transport)
{
    return (struct gp_client_opts){
        .transport = transport,
        .target = target,
        .connections = 1,
        .max_in_flight = 1,
        .request = {.kind = GP_KIND_BIDI,
                    .method = TEST_BIDI,
                    .message = request,
                    .message_bytes = request_bytes,
                    .parked = true,
                    .fed = true},
    };
}

static struct gp_client *connected(const struct gp_client_opts *opts)
{
    struct gp_client *client;
    struct gp_error err;
    const uint64_t id = 0;

    CHECK(gp_client_create(&client, opts, &err) == 0);
    CHECK(gp_client_connect(client, 10 * SECOND, NULL, &err) == 0);
    CHECK(!gp_client_feeds(client, 0, request_bytes)); /* there is no stream yet */
    CHECK(!gp_client_feed(client, 0, request, request_bytes));
    gp_client_submit(client, &id, 1);
    return client;
}

static void wait_for_answers(struct gp_client *client, uint32_t count)
{
    uint64_t until_ns = gp_clock_now_ns() + 10 * SECOND;
    struct gp_event event;

    while (gp_client_answers(client, 0) < count && gp_clock_now_ns() < until_ns)
        CHECK(gp_client_poll(client, &event, 1, until_ns) == 0);
    CHECK(gp_client_answers(client, 0) == count);
}

static void test_ping_pong(const struct test_server *server)
{
    struct gp_client_opts opts = opts_for(server->target, "wire");
    struct gp_client *client = connected(&opts);
    struct gp_client_stats stats;
    struct gp_event event;

    for (uint32_t i = 0; i < 200; i++) {
        CHECK(gp_client_feeds(client, 0, request_bytes));
        CHECK(gp_client_feed(client, 0, request, request_bytes));
        wait_for_answers(client, i + 1);
    }
    gp_client_stats(client, &stats);
    CHECK(stats.messages_sent == 200 && stats.payload_sent == 200 * request_bytes);
    gp_client_cancel_all(client);
    CHECK(gp_client_poll(client, &event, 1, gp_clock_now_ns() + SECOND) == 1);
    CHECK(event.class == GP_CLASS_CANCELLED && event.messages_received == 200);
    CHECK(gp_client_answers(client, 0) == 0 && !gp_client_feed(client, 0, request, request_bytes));
    gp_client_destroy(client);
}

/* A server that is slow to read: its window fills, and opens again. */
static void test_window(const struct test_server *server)
{
    static const struct gp_metadata slow = {"grpcperf-message-delay-us", "3000"};
    static uint8_t large[GP_CLIENT_FEED_BYTES]; /* a SimpleRequest: an empty one, and unknown fields */
    struct gp_client_opts opts = opts_for(server->target, "wire");
    uint32_t fed = 0;
    uint64_t began_ns = gp_clock_now_ns();
    struct gp_client *client;
    struct gp_event event;

    large[0] = 0x7a; /* field 15, length-delimited, of all the rest */
    large[1] = (uint8_t)((sizeof large - 3) | 0x80);
    large[2] = (uint8_t)((sizeof large - 3) >> 7);
    opts.request.metadata = &slow;
    opts.request.metadata_count = 1;
    client = connected(&opts);
    while (fed < 4000 && gp_client_feed(client, 0, large, sizeof large))
        fed++;
    CHECK(fed >= 3 && fed < 4000 && !gp_client_feeds(client, 0, sizeof large));
    wait_for_answers(client, 3);
    CHECK(gp_clock_now_ns() - began_ns >= 3 * 3 * GP_NS_PER_MS); /* each answer waits */
    for (int i = 0; i < 100 && !gp_client_feed(client, 0, large, sizeof large); i++)
        gp_client_poll(client, &event, 1, gp_clock_now_ns() + 50 * GP_NS_PER_MS);
    wait_for_answers(client, fed + 1); /* it did, in the end */
    gp_client_destroy(client);
}

/* --- by hand: a peer that is nothing but frames
 * ------------------------------------------------------------ */

static void receive(struct gp_wire *wire, enum gp_frame_type type, uint32_t stream_id, const uint8_t *payload,
                    uint32_t length)
{
    uint8_t bytes[GP_FRAME_HEADER_BYTES + 16];

    gp_frame_write(bytes, (struct gp_frame){.type = type, .stream_id = stream_id, .length = length});
    if (length > 0)
        memcpy(bytes + GP_FRAME_HEADER_BYTES, payload, length);
    CHECK(gp_wire_receive(wire, bytes, GP_FRAME_HEADER_BYTES + length, 1) == 0);
}

static uint32_t feed_all(struct gp_wire *wire)
{
    static const uint8_t message[995]; /* with its prefix 1,000 bytes */
    uint32_t fed = 0;

    while (gp_wire_feeds(wire, 0, sizeof message)) {
        CHECK(fed++ < 1000 && gp_wire_feed(wire, 0, message, sizeof message));
    }
    CHECK(!gp_wire_feed(wire, 0, message, sizeof message));
    return fed;
}

/* How many messages of 1,000 bytes go into a stream's window and the connection's 65,535 bytes, and again
 * after both were opened by 3,000. */
static void test_two_windows(uint32_t stream_window, uint32_t wanted)
{
    const struct gp_client_opts opts = opts_for("", "wire");
    const struct gp_calls_opts calls_opts = {.max_in_flight = 1, .request = &opts.request};
    struct gp_wire_opts wire_opts = {.request = &opts.request, .scheme = "http", .authority = "localhost"};
    uint8_t setting[6] = {0, 4}, more[4] = {0, 0, 3000 >> 8, 3000 & 0xff};
    struct gp_calls *calls;
    struct gp_wire *wire;
    struct gp_error err;

    CHECK(gp_calls_create(&calls, &calls_opts, &err) == 0);
    wire_opts.calls = calls;
    CHECK(gp_wire_create(&wire, &wire_opts, &err) == 0);
    gp_wire_submit(wire, 0, 1);
    CHECK(feed_all(wire) == 0); /* queued: the peer's SETTINGS are not there */
    gp_put_u32(setting + 2, stream_window);
    receive(wire, GP_FRAME_SETTINGS, 0, setting, sizeof setting);
    CHECK(feed_all(wire) == wanted);
    receive(wire, GP_FRAME_WINDOW_UPDATE, 0, more, sizeof more);
    CHECK(feed_all(wire) == (stream_window > 65535 ? 3 : 0));
    receive(wire, GP_FRAME_WINDOW_UPDATE, 1, more, sizeof more);
    CHECK(feed_all(wire) == (stream_window > 65535 ? 0 : 3));
    gp_wire_destroy(wire);
    gp_calls_destroy(calls);
}

static void test_refused(const struct test_server *server)
{
    struct gp_client_opts opts = opts_for(server->target, "core");
    struct gp_client *client;
    struct gp_error err;

    CHECK(gp_client_create(&client, &opts, &err) < 0 && err.code == GP_ERROR_INVALID);
    opts = opts_for(server->target, "wire");
    opts.request.kind = GP_KIND_BIDI_FREE;
    CHECK(gp_client_create(&client, &opts, &err) < 0 && err.code == GP_ERROR_INVALID);
    opts = opts_for(server->target, "wire");
    opts.request.parked = false;
    CHECK(gp_client_create(&client, &opts, &err) < 0 && err.code == GP_ERROR_INVALID);
}

int main(void)
{
    static const char *const models[] = {"async", "thread"};
    struct test_server server;

    request_bytes = test_request(request, 16);
    test_two_windows(2999, 2);
    test_two_windows(3000, 3);
    test_two_windows(1u << 20, 65);
    for (int i = 0; i < 2; i++) {
        test_server_start(&server, (const char *[]){"--model", models[i], NULL});
        test_ping_pong(&server);
        test_window(&server);
        test_refused(&server);
        test_server_stop(&server);
    }
    return 0;
}
