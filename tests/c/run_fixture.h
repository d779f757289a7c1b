/* What the tests of whole runs share: options, a run to its end, and what holds for every result. */
#ifndef GP_TESTS_RUN_FIXTURE_H
#define GP_TESTS_RUN_FIXTURE_H

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "load/run.h"
#include "support.h"

#define MS GP_NS_PER_MS
#define SECOND GP_NS_PER_S

static uint8_t request[TEST_REQUEST_MAX];
static size_t request_bytes;

/* 8 unary calls in flight on one connection for 0.3 s, without a warm-up. */
static inline struct gp_run_opts opts_for(const char *target)
{
    return (struct gp_run_opts){
        .client = {.transport = "core",
                   .target = target,
                   .authority = "test",
                   .connections = 1,
                   .max_in_flight = 8,
                   .request = {.kind = GP_KIND_UNARY,
                               .method = TEST_UNARY,
                               .message = request,
                               .message_bytes = request_bytes}},
        .threads = 1,
        .concurrency = 8,
        .connect_timeout_ns = 5 * SECOND,
        .duration_ns = 300 * MS,
        .drain_ns = SECOND,
        .server_pidfd = -1,
    };
}

static inline uint64_t sum_of_classes(const struct gp_run_result *result)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        sum += result->classes[i];
    return sum;
}

/* What holds for every result. */
static inline void check_result(const struct gp_run_result *r)
{
    uint64_t ok = 0, all = 0, covered_ns = 0;

    for (size_t i = 0; i < r->windows.count; i++) {
        const struct gp_window *window = gp_windows_at(&r->windows, i);

        CHECK(window->start_ns == covered_ns && window->length_ns > 0);
        covered_ns += window->length_ns;
        ok += window->ok;
        all += window->ok + window->failed;
    }
    CHECK(covered_ns == r->window_ns && ok == r->ok_in_window && all == r->all_in_window);
    CHECK(r->latency.count == r->classes[GP_CLASS_OK] && r->idle_polls <= r->polls);
    CHECK(sum_of_classes(r) == r->latency.count + r->errors.count + r->classes[GP_CLASS_IN_FLIGHT_AT_END]);
}

static inline struct gp_run *started(const struct gp_run_opts *opts)
{
    struct gp_error err = {0};
    struct gp_run *run;

    if (gp_run_create(&run, opts, &err) != 0 || gp_run_start(run, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        CHECK(!"started");
    }
    return run;
}

static inline const struct gp_run_result *result_of(struct gp_run *run)
{
    const struct gp_run_result *result;
    struct gp_error err = {0};

    CHECK(gp_run_wait(run, 60 * SECOND));
    if (gp_run_result(run, &result, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        CHECK(!"measured");
    }
    check_result(result);
    return result;
}

#endif
