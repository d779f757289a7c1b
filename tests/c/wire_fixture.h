/* What the tests of the transport "wire" share: options for a scripted peer, and a load that goes on for a
 * while. */
#ifndef GP_TESTS_WIRE_FIXTURE_H
#define GP_TESTS_WIRE_FIXTURE_H

#include "core_fixture.h"
#include "http2_peer.h"

static inline struct gp_client_opts wire_opts(const char *target)
{
    return (struct gp_client_opts){
        .transport = "wire",
        .target = target,
        .authority = "localhost",
        .connections = 1,
        .max_in_flight = 64,
        .request = {.method = TEST_UNARY, .message = "\x10\x02", .message_bytes = 2},
    };
}

/* Calls sent again as they come back, until `calls` have been sent; all of them back. */
static inline struct tally keep_calling(struct gp_client *client, uint32_t in_flight, uint64_t calls)
{
    uint64_t ids[CALLS_MAX], sent = in_flight, until_ns = gp_clock_now_ns() + WAIT_NS;
    struct gp_event events[64];
    struct tally tally = {0};

    start_calls(client, in_flight);
    while (tally.finished < calls && gp_clock_now_ns() < until_ns) {
        size_t came = gp_client_poll(client, events, 64, until_ns), again = 0;

        for (size_t i = 0; i < came; i++) {
            CHECK(events[i].id < in_flight);
            CHECK(events[i].done_ns >= events[i].sent_ns && events[i].done_ns <= gp_clock_now_ns());
            tally.classes[events[i].class]++;
            tally.finished++;
            if (sent < calls)
                ids[again++] = events[i].id;
            sent += sent < calls;
        }
        gp_client_submit(client, ids, again);
    }
    CHECK(tally.finished == calls);
    return tally;
}

/* Poll for so long; what comes back is counted. */
static inline void wait_a_while(struct gp_client *client, struct tally *tally, uint64_t span_ns)
{
    uint64_t until_ns = gp_clock_now_ns() + span_ns;
    struct gp_event events[64];

    while (gp_clock_now_ns() < until_ns) {
        size_t came = gp_client_poll(client, events, 64, until_ns);

        for (size_t i = 0; i < came; i++) {
            tally->classes[events[i].class]++;
            tally->finished++;
        }
    }
}

static inline uint64_t cause_count(struct gp_client *client, enum gp_class class, const char *words)
{
    struct gp_client_cause causes[GP_CLIENT_CAUSES];
    size_t count = gp_client_causes(client, causes);
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        if (causes[i].class == class && strstr(causes[i].text, words))
            sum += causes[i].calls;
    return sum;
}

static inline void show_causes(struct gp_client *client)
{
    struct gp_client_cause causes[GP_CLIENT_CAUSES];
    size_t count = gp_client_causes(client, causes);

    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s %llu: %s\n", gp_class_name(causes[i].class), (unsigned long long)causes[i].calls,
                causes[i].text);
}

static inline void check_refused(const struct gp_client_opts *opts, uint64_t timeout_ns, const char *word)
{
    uint64_t start_ns = gp_clock_now_ns();
    struct gp_client *client;
    struct gp_error err = {0};

    CHECK(gp_client_create(&client, opts, &err) == 0);
    CHECK(gp_client_connect(client, timeout_ns, NULL, &err) == -1);
    if (!strstr(err.message, word))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", word, err.message);
    CHECK(err.code == GP_ERROR_CONNECT && strstr(err.message, word) && strstr(err.message, opts->target));
    CHECK(gp_clock_now_ns() - start_ns < timeout_ns + GP_NS_PER_S);
    gp_client_destroy(client);
}

#endif
