/* merge: what several threads have recorded is one result. */
#include "run_fixture.h"

static void test_threads_share_the_work(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    struct gp_run *run;
    const struct gp_run_result *r;

    opts.threads = 3;
    opts.client.connections = 5;
    opts.concurrency = 7;
    opts.warmup_ns = 50 * MS;
    run = started(&opts);
    r = result_of(run);
    CHECK(r->connected == 5 && r->window_ns == 300 * MS);
    CHECK(r->classes[GP_CLASS_OK] > 100 && r->classes[GP_CLASS_OK] == sum_of_classes(r));
    CHECK(r->client_cpu_known);
    gp_run_destroy(run);
}

/* What three threads send and leave out is the one schedule, Poisson and in two steps. */
static void test_threads_share_a_schedule(const struct test_server *server)
{
    static const struct gp_rate_step steps[] = {{1000, 1000, 150 * MS}, {300, 3000, 150 * MS}};
    struct gp_schedule_opts whole = {GP_ARRIVAL_POISSON, steps, 2, 4, 0, 1};
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    struct gp_schedule schedule;
    uint64_t intended = 0;
    struct gp_run *run;

    gp_schedule_init(&schedule, &whole);
    while (gp_schedule_next_ns(&schedule) < 300 * MS)
        intended++;
    opts.threads = opts.client.connections = 3;
    opts.concurrency = 300;
    opts.warmup_ns = 50 * MS;
    opts.steps = steps;
    opts.step_count = 2;
    opts.arrival = GP_ARRIVAL_POISSON;
    opts.seed = 4;
    opts.catch_up = GP_CATCH_UP_FULL;
    run = started(&opts);
    r = result_of(run);
    CHECK(r->window_ns == 300 * MS && intended > 300);
    CHECK(sum_of_classes(r) + r->not_sent == intended);
    CHECK(r->service.count == r->latency.count && r->service.sum_ns <= r->latency.sum_ns);
    CHECK(r->lag.count + r->queued.count == sum_of_classes(r));
    CHECK(r->burst_calls + r->queued.count >= r->gap.count && r->bursts <= r->burst_calls);
    gp_run_destroy(run);
}

/* What it costs to look at the machine is known, and the shares make sense. */
static void test_disturbance_is_told(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    struct gp_run *run = started(&opts);

    r = result_of(run);
    CHECK(r->steal_known && r->steal >= 0 && r->steal <= 1);
    CHECK(!r->pressure_known || (r->pressure >= 0 && r->pressure <= 1));
    gp_run_destroy(run);
}

/* Ping-pong streams that last as long as the run, from two threads. */
static void test_messages_of_all_threads_are_timed(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    struct gp_run *run;

    opts.client.request.kind = GP_KIND_BIDI;
    opts.client.request.method = TEST_BIDI;
    opts.threads = opts.client.connections = 2;
    opts.warmup_ns = 50 * MS;
    run = started(&opts);
    r = result_of(run);
    /* First messages came in the warm-up. The window's edges are read a little before and after. */
    CHECK(r->first_message.count == 0 && r->message_gap.count == 0);
    CHECK(r->round_trip.count > 100 && r->round_trip.count <= r->messages_received + 16);
    CHECK(r->round_trip.count + 16 >= r->messages_received && r->round_trip.min_ns > 0);
    gp_run_destroy(run);
}

int main(void)
{
    struct test_server server;

    request_bytes = test_request(request, 16);
    test_server_start(&server, NULL);
    test_threads_share_the_work(&server);
    test_threads_share_a_schedule(&server);
    test_disturbance_is_told(&server);
    test_messages_of_all_threads_are_timed(&server);
    test_server_stop(&server);
    return 0;
}
