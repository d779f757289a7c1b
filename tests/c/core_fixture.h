/* What the tests of the core transport share: a client on a server, and calls that are counted as they come
 * back. */
#ifndef GP_TESTS_CORE_FIXTURE_H
#define GP_TESTS_CORE_FIXTURE_H

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "client/client.h"
#include "support.h"

#define CALLS_MAX 4096
#define WAIT_NS (30 * GP_NS_PER_S)

struct tally {
    uint64_t classes[GP_CLASS_COUNT];
    uint64_t finished, messages_received;
    uint64_t shortest_ns, longest_ns;
    bool back[CALLS_MAX];
};

static inline struct gp_client_opts opts_of(const struct test_server *server, enum gp_kind kind)
{
    static const char *const methods[] = {TEST_UNARY, TEST_SERVER_STREAM, TEST_CLIENT_STREAM, TEST_BIDI,
                                          TEST_BIDI_FREE};
    static uint8_t message[TEST_REQUEST_MAX];

    return (struct gp_client_opts){
        .transport = "core",
        .target = server->target,
        .connections = 1,
        .max_in_flight = 64,
        .request = {.kind = kind,
                    .method = methods[kind],
                    .message = message,
                    .message_bytes = test_request(message, 16),
                    .messages = kind == GP_KIND_UNARY ? 0 : 5},
    };
}

static inline struct gp_client *connected(const struct gp_client_opts *opts)
{
    struct gp_client *client;
    struct gp_error err = {0};

    if (gp_client_create(&client, opts, &err) != 0 || gp_client_connect(client, WAIT_NS, NULL, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        CHECK(!"connected");
    }
    return client;
}

static inline void start_calls(struct gp_client *client, uint64_t count)
{
    uint64_t ids[CALLS_MAX];

    CHECK(count <= CALLS_MAX);
    for (uint64_t id = 0; id < count; id++)
        ids[id] = id;
    gp_client_submit(client, ids, count);
}

static inline void count_event(struct tally *tally, const struct gp_event *event, uint64_t count)
{
    uint64_t took_ns = event->done_ns - event->sent_ns;

    CHECK(event->id < count && !tally->back[event->id]);
    CHECK(event->sent_ns > 0 && event->done_ns >= event->sent_ns && event->done_ns <= gp_clock_now_ns());
    tally->back[event->id] = true;
    tally->classes[event->class]++;
    tally->messages_received += event->messages_received;
    if (tally->finished++ == 0 || took_ns < tally->shortest_ns)
        tally->shortest_ns = took_ns;
    if (took_ns > tally->longest_ns)
        tally->longest_ns = took_ns;
}

/* Take in what comes until all of `count` calls are back (each once) or the time has passed. */
static inline void collect(struct gp_client *client, struct tally *tally, uint64_t count, uint64_t timeout_ns)
{
    uint64_t until_ns = gp_clock_now_ns() + timeout_ns;
    struct gp_event events[16];

    while (tally->finished < count && gp_clock_now_ns() < until_ns) {
        size_t came = gp_client_poll(client, events, 16, until_ns);

        for (size_t i = 0; i < came; i++)
            count_event(tally, &events[i], count);
    }
}

static inline void collect_all(struct gp_client *client, struct tally *tally, uint64_t count)
{
    collect(client, tally, count, WAIT_NS);
    CHECK(tally->finished == count);
}

/* A fresh client, one round of calls, all of them back. */
static inline struct tally run_calls(const struct gp_client_opts *opts, uint64_t count)
{
    struct gp_client *client = connected(opts);
    struct tally tally = {0};

    start_calls(client, count);
    collect_all(client, &tally, count);
    gp_client_destroy(client);
    return tally;
}

#endif
