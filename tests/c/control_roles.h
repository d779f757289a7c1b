/* Both roles of a test of the control channel: the child, well or badly played, and the parent that asks. */
#ifndef GP_TESTS_CONTROL_ROLES_H
#define GP_TESTS_CONTROL_ROLES_H

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "process/child.h"
#include "process/control.h"

#define FD GP_CHILD_CONTROL_FD
#define FREE(reply) grpcperf__control__from_child__free_unpacked(reply, NULL)
#define ASK(what) GRPCPERF__CONTROL__TO_CHILD__WHAT_##what
#define ANSWER(what) GRPCPERF__CONTROL__FROM_CHILD__WHAT_##what
#define SETTLE_MS 300
#define VERSIONS_BYTES 300000 /* more than a socket takes at once */

typedef Grpcperf__Control__FromChild from_child;
typedef Grpcperf__Control__ToChild to_child;

/* ---- the child's parts ---- */

static void say(from_child message)
{
    CHECK(gp_control_send(FD, &message) == 0);
}

static void say_plain(Grpcperf__Control__FromChild__WhatCase what)
{
    Grpcperf__Control__Done done = GRPCPERF__CONTROL__DONE__INIT;
    Grpcperf__Control__Bye bye = GRPCPERF__CONTROL__BYE__INIT;
    from_child message = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    message.what_case = what;
    if (what == ANSWER(DONE))
        message.done = &done;
    else
        message.bye = &bye;
    say(message);
}

static void say_failure(const char *text)
{
    Grpcperf__Control__Failure failure = GRPCPERF__CONTROL__FAILURE__INIT;
    from_child message = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    failure.message = (char *)text;
    message.what_case = ANSWER(FAILURE);
    message.failure = &failure;
    say(message);
}

static void say_ready(char *versions)
{
    Grpcperf__Control__Ready ready = GRPCPERF__CONTROL__READY__INIT;
    from_child message = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    ready.port = 4242;
    ready.pid = getpid();
    ready.versions = versions;
    message.what_case = ANSWER(READY);
    message.ready = &ready;
    say(message);
}

/* heap_alloc numbers the samples, so that a late answer can be told from the right one. */
static void say_memstats(uint64_t number)
{
    Grpcperf__Control__MemStats memstats = GRPCPERF__CONTROL__MEM_STATS__INIT;
    from_child message = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    memstats.heap_alloc = number;
    message.what_case = ANSWER(MEMSTATS);
    message.memstats = &memstats;
    say(message);
}

static void say_counters(uint64_t started)
{
    Grpcperf__Control__Counters counters = GRPCPERF__CONTROL__COUNTERS__INIT;
    from_child message = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    counters.started = started;
    message.what_case = ANSWER(COUNTERS);
    message.counters = &counters;
    say(message);
}

static bool obey(const to_child *request, uint64_t number)
{
    switch (request->what_case) {
    case ASK(SAMPLE):
        if (request->sample->settle)
            usleep(SETTLE_MS * 1000);
        say_memstats(number);
        return true;
    case ASK(RELEASE):
        say_plain(ANSWER(DONE));
        return true;
    case ASK(RESET_PEAKS):
        say_failure("no peaks here");
        return true;
    case ASK(GET_COUNTERS):
        say_counters(number);
        return true;
    default:
        say_plain(ANSWER(BYE));
        return false;
    }
}

static int serve(void)
{
    to_child *request;
    bool more = true;
    for (uint64_t number = 1; more && (request = gp_control_receive(FD)); number++) {
        more = obey(request, number);
        grpcperf__control__to_child__free_unpacked(request, NULL);
    }
    return more ? 9 : 0; /* 9: end of file */
}

static int serve_with_long_ready(void)
{
    char *versions = malloc(VERSIONS_BYTES + 1);
    memset(versions, 'v', VERSIONS_BYTES);
    versions[VERSIONS_BYTES] = '\0';
    say_ready(versions);
    free(versions);
    return serve();
}

static void send_raw(const void *data, size_t size, unsigned pause_us)
{
    for (size_t i = 0; i < size; i++) {
        CHECK(send(FD, (const char *)data + i, 1, 0) == 1);
        usleep(pause_us);
    }
}

/* Each waits for one request first, then does something else than to answer it. */
static int misbehave(const char *how)
{
    say_ready("");
    grpcperf__control__to_child__free_unpacked(gp_control_receive(FD), NULL);
    if (strcmp(how, "crash") == 0)
        raise(SIGKILL);
    if (strcmp(how, "complain") == 0)
        return fprintf(stderr, "out of luck\n"), 3;
    if (strcmp(how, "say-and-leave") == 0)
        return say_memstats(1), 4;
    if (strcmp(how, "half") == 0)
        return send_raw("\0\0\0\x05\x12", 5, 0), 5;
    if (strcmp(how, "drip") == 0)
        send_raw("\0\0\0\x04\x12\x02\x08\x07", 8, 5000); /* MemStats{heap_alloc: 7} */
    if (strcmp(how, "huge") == 0)
        send_raw("\0\x10\0\x01", 4, 0); /* 1 MiB + 1 */
    if (strcmp(how, "garbage") == 0)
        send_raw("\0\0\0\x02\xff\xff", 6, 0);
    if (strcmp(how, "empty") == 0)
        send_raw("\0\0\0\0", 4, 0);
    if (strcmp(how, "mistaken") == 0)
        say_plain(ANSWER(DONE));
    if (strcmp(how, "hang-up") == 0)
        close(FD);
    pause(); /* also "mute" */
    return 1;
}

static int play(const char *part)
{
    alarm(60);
    if (strcmp(part, "serve") == 0)
        return say_ready("test 1"), serve();
    if (strcmp(part, "slow-start") == 0)
        return usleep(SETTLE_MS * 1000), say_ready(""), serve();
    if (strcmp(part, "long-ready") == 0)
        return serve_with_long_ready();
    if (strcmp(part, "cannot-start") == 0)
        return say_failure("cannot listen on port 80"), 1;
    if (strcmp(part, "breaks-down") == 0)
        return fprintf(stderr, "no memory\n"), 1;
    return misbehave(part);
}

/* ---- the parent's side of the tests ---- */

struct pair {
    struct gp_child *child;
    struct gp_control *control;
};

static struct pair open_pair(const char *part)
{
    const char *argv[] = {"/proc/self/exe", part, NULL};
    struct pair pair;
    struct gp_error err;
    CHECK(gp_child_create(&pair.child, &(struct gp_child_opts){.argv = argv}, &err) == 0);
    CHECK(gp_control_create(&pair.control, pair.child, &err) == 0);
    return pair;
}

static void close_pair(struct pair pair)
{
    gp_control_destroy(pair.control);
    gp_child_destroy(pair.child);
}

static const struct gp_wait patient = {.timeout_ns = 20 * GP_NS_PER_S};

static struct pair open_ready(const char *part)
{
    struct pair pair = open_pair(part);
    struct gp_error err;
    from_child *reply;
    CHECK(gp_control_ready(pair.control, &patient, &reply, &err) == 0);
    CHECK(reply->what_case == ANSWER(READY) && reply->ready->port == 4242);
    CHECK(reply->ready->pid == gp_child_pid(pair.child));
    FREE(reply);
    return pair;
}

/* The number in the answer; UINT64_MAX when there is none. */
static uint64_t ask(struct pair pair, Grpcperf__Control__ToChild__WhatCase what, bool settle,
                    const struct gp_wait *wait, struct gp_error *err)
{
    Grpcperf__Control__Sample sample = GRPCPERF__CONTROL__SAMPLE__INIT;
    Grpcperf__Control__GetCounters plain = GRPCPERF__CONTROL__GET_COUNTERS__INIT;
    to_child request = GRPCPERF__CONTROL__TO_CHILD__INIT;
    from_child *reply;
    uint64_t number = 0;
    sample.settle = settle;
    request.what_case = what;
    if (what == ASK(SAMPLE))
        request.sample = &sample;
    else
        request.get_counters = &plain; /* as empty as the others */
    if (gp_control_request(pair.control, &request, wait, &reply, err) < 0)
        return UINT64_MAX;
    if (reply->what_case == ANSWER(MEMSTATS))
        number = reply->memstats->heap_alloc;
    if (reply->what_case == ANSWER(COUNTERS))
        number = reply->counters->started;
    FREE(reply);
    return number;
}

static bool fails(struct pair pair, const struct gp_wait *wait, enum gp_error_code code, const char *format)
{
    struct gp_error err = {0};
    char expected[1024];
    snprintf(expected, sizeof expected, format, (int)gp_child_pid(pair.child));
    CHECK(ask(pair, ASK(SAMPLE), false, wait, &err) == UINT64_MAX);
    if (err.code != code || strcmp(err.message, expected) != 0)
        fprintf(stderr, "code %d: %s\nand not %s\n", err.code, err.message, expected);
    return err.code == code && strcmp(err.message, expected) == 0;
}

static uint64_t since_ms(uint64_t begin_ns)
{
    return (gp_clock_now_ns() - begin_ns) / GP_NS_PER_MS;
}

#endif
