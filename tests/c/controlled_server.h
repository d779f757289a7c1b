/* A server of the test's own that can be asked: what has arrived there, and to let parked calls go. */
#ifndef GP_TESTS_CONTROLLED_SERVER_H
#define GP_TESTS_CONTROLLED_SERVER_H

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"
#include "check.h"
#include "process/child.h"
#include "process/control.h"

struct controlled_server {
    struct gp_child *child;
    struct gp_control *control;
    char target[64];
};

static const struct gp_wait controlled_wait = {.timeout_ns = 20 * GP_NS_PER_S};

static inline void controlled_server_start(struct controlled_server *server)
{
    const char *argv[] = {getenv("GP_SERVER"), "--control", "3", NULL};
    struct gp_child_opts opts = {.argv = argv};
    Grpcperf__Control__FromChild *ready;
    struct gp_error err = {0};

    CHECK(argv[0] != NULL);
    CHECK(gp_child_create(&server->child, &opts, &err) == 0);
    CHECK(gp_control_create(&server->control, server->child, &err) == 0);
    CHECK(gp_control_ready(server->control, &controlled_wait, &ready, &err) == 0);
    snprintf(server->target, sizeof server->target, "ipv4:127.0.0.1:%u", ready->ready->port);
    grpcperf__control__from_child__free_unpacked(ready, NULL);
}

static inline void controlled_server_stop(struct controlled_server *server)
{
    gp_control_destroy(server->control);
    gp_child_destroy(server->child);
}

/* The caller frees the reply. */
static inline Grpcperf__Control__FromChild *controlled_server_ask(struct controlled_server *server,
                                                                  const Grpcperf__Control__ToChild *question)
{
    Grpcperf__Control__FromChild *reply;
    struct gp_error err = {0};

    CHECK(gp_control_request(server->control, question, &controlled_wait, &reply, &err) == 0);
    return reply;
}

struct controlled_counters {
    uint64_t running, started, finished;
};

static inline struct controlled_counters controlled_server_counters(struct controlled_server *server)
{
    Grpcperf__Control__GetCounters get = GRPCPERF__CONTROL__GET_COUNTERS__INIT;
    Grpcperf__Control__ToChild question = GRPCPERF__CONTROL__TO_CHILD__INIT;
    Grpcperf__Control__FromChild *reply;
    struct controlled_counters counters;

    question.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_GET_COUNTERS;
    question.get_counters = &get;
    reply = controlled_server_ask(server, &question);
    counters = (struct controlled_counters){.running = reply->counters->running,
                                            .started = reply->counters->started,
                                            .finished = reply->counters->finished};
    grpcperf__control__from_child__free_unpacked(reply, NULL);
    return counters;
}

static inline void controlled_server_release(struct controlled_server *server)
{
    Grpcperf__Control__Release release = GRPCPERF__CONTROL__RELEASE__INIT;
    Grpcperf__Control__ToChild question = GRPCPERF__CONTROL__TO_CHILD__INIT;

    question.what_case = GRPCPERF__CONTROL__TO_CHILD__WHAT_RELEASE;
    question.release = &release;
    grpcperf__control__from_child__free_unpacked(controlled_server_ask(server, &question), NULL);
}

#endif
