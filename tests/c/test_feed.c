/* feed: messages given one by one to a stream, as far as the peer takes them. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "client/client.h"
#include "support.h"

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
    for (int i = 0; i < 2; i++) {
        test_server_start(&server, (const char *[]){"--model", models[i], NULL});
        test_ping_pong(&server);
        test_window(&server);
        test_refused(&server);
        test_server_stop(&server);
    }
    return 0;
}
