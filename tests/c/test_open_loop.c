/* open_loop: every intended call is sent at its time or accounted for, whatever server and client do, on a
 * clock that only the test moves. */
#include "fake_client.h"

#include "base/random.h"
#include "load/loop.h"
#include "load/timeline.h"

#define MS GP_NS_PER_MS
#define MOST 100000u

struct bench {
    struct gp_client client;
    struct gp_timeline timeline;
    struct gp_recorder recorder;
    struct gp_generator_opts opts;
    struct gp_generator generator;
    struct gp_rate_step steps[3];
};

/* What was sent when, in order. */
static uint64_t sent_ns[MOST];
static size_t sent_count;

static void (*serve_then)(struct gp_client *client, uint64_t id, struct fake_call *call);

static void log_and_serve(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    CHECK(sent_count < MOST);
    sent_ns[sent_count++] = call->sent_ns;
    if (serve_then)
        serve_then(client, id, call);
}

/* 1,000 calls/s, evenly spaced, 100 ms, a service of 1 ms, no warm-up. */
static void setup(struct bench *b)
{
    *b = (struct bench){.steps = {{1000, 1000, 1000 * MS}}};
    fake_reset(&b->client);
    b->client.serve = log_and_serve;
    serve_then = NULL;
    sent_count = 0;
    gp_timeline_init(&b->timeline);
    b->timeline.threads = 1;
    b->timeline.duration_ns = 100 * MS;
    b->opts = (struct gp_generator_opts){.loop = &gp_open_loop,
                                         .client = &b->client,
                                         .timeline = &b->timeline,
                                         .recorder = &b->recorder,
                                         .concurrency = FAKE_SLOTS,
                                         .calls = UINT64_MAX,
                                         .drain_ns = 1000 * MS,
                                         .schedule = {.arrival = GP_ARRIVAL_CONSTANT,
                                                      .steps = b->steps,
                                                      .step_count = 1,
                                                      .seed = 9,
                                                      .parts = 1},
                                         .catch_up = GP_CATCH_UP_BOUNDED};
}

static uint64_t calls_of(const struct bench *b)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        sum += b->recorder.classes[i];
    return sum;
}

/* What the schedule itself has in a measured window of that length. */
static uint64_t intended_within(const struct bench *b, uint64_t length_ns)
{
    struct gp_schedule schedule;
    uint64_t count = 0;

    gp_schedule_init(&schedule, &b->opts.schedule);
    while (count < b->opts.calls && gp_schedule_next_ns(&schedule) < length_ns)
        count++;
    return count;
}

static uint64_t window_of(const struct bench *b)
{
    return b->recorder.end_ns - b->recorder.start_ns;
}

static void run(struct bench *b)
{
    const struct gp_recorder *r = &b->recorder;

    CHECK(gp_recorder_init(&b->recorder, gp_recorder_window_ns(b->timeline.duration_ns), true) == 0);
    CHECK(gp_generator_init(&b->generator, &b->opts) == 0);
    gp_generator_run(&b->generator);

    CHECK(b->generator.in_flight == 0 && b->client.max_in_flight <= b->opts.concurrency);
    if (b->opts.calls == UINT64_MAX)
        CHECK(intended_within(b, window_of(b)) == calls_of(b) + r->not_sent);
    CHECK(calls_of(b) == r->latency.count + r->errors.count + r->classes[GP_CLASS_IN_FLIGHT_AT_END]);
    CHECK(r->service.count == r->latency.count && r->service.sum_ns <= r->latency.sum_ns);
    CHECK(b->generator.finished == calls_of(b) && b->generator.sent == calls_of(b));
    CHECK(atomic_load(&b->generator.progress.sent) == calls_of(b));
    CHECK(atomic_load(&b->generator.progress.not_sent) == r->not_sent);
}

static void teardown(struct bench *b)
{
    gp_generator_fini(&b->generator);
    gp_recorder_fini(&b->recorder);
}

/* --- the schedule is kept --- */

static void test_calls_leave_at_their_times(void)
{
    for (int arrival = GP_ARRIVAL_CONSTANT; arrival <= GP_ARRIVAL_UNIFORM; arrival++) {
        struct gp_schedule schedule;
        struct bench b;

        setup(&b);
        b.opts.schedule.arrival = (enum gp_arrival)arrival;
        b.opts.schedule.step_count = 2;
        b.steps[0] = (struct gp_rate_step){500, 3000, 50 * MS};
        b.steps[1] = (struct gp_rate_step){700, 700, 50 * MS};
        run(&b);
        gp_schedule_init(&schedule, &b.opts.schedule);
        CHECK(sent_count > 50 && sent_count == b.recorder.latency.count && b.recorder.not_sent == 0);
        for (size_t i = 0; i < sent_count; i++)
            CHECK(sent_ns[i] == FAKE_BEGIN + gp_schedule_next_ns(&schedule));
        CHECK(b.recorder.latency.min_ns == 1 * MS && b.recorder.latency.max_ns == 1 * MS);
        CHECK(b.recorder.lag.count == sent_count && b.recorder.lag.max_ns == 0);
        CHECK(b.recorder.queued.count == 0);
        CHECK(b.recorder.gap.count == sent_count && b.recorder.largest_burst == 1);
        teardown(&b);
    }
}

static void test_the_window_does_not_depend_on_the_warm_up(void)
{
    uint64_t alone[200];

    for (uint64_t warmup_ms = 0; warmup_ms < 60; warmup_ms += 29) {
        struct bench b;
        size_t first = 0;

        setup(&b);
        b.opts.schedule.arrival = GP_ARRIVAL_POISSON;
        b.timeline.warmup_ns = warmup_ms * MS;
        run(&b);
        while (sent_ns[first] < b.recorder.start_ns)
            first++;
        CHECK(warmup_ms == 0 ? first == 0 : first > warmup_ms / 2 && first < warmup_ms * 2);
        CHECK(sent_count - first == calls_of(&b));
        for (size_t i = 0; i < sent_count - first; i++) {
            if (warmup_ms == 0)
                alone[i] = sent_ns[i] - b.recorder.start_ns;
            CHECK(sent_ns[first + i] - b.recorder.start_ns == alone[i]);
        }
        teardown(&b);
    }
}

static void test_parts_share_one_schedule(void)
{
    struct gp_schedule schedule;
    uint64_t expected = 0;
    struct bench b;

    setup(&b);
    b.opts.schedule.arrival = GP_ARRIVAL_POISSON;
    gp_schedule_init(&schedule, &b.opts.schedule);
    b.opts.schedule.part = 1;
    b.opts.schedule.parts = 3;
    run(&b);
    for (uint64_t i = 0;; i++) {
        uint64_t at_ns = gp_schedule_next_ns(&schedule);

        if (at_ns >= 100 * MS)
            break;
        if (i % 3 == 1)
            CHECK(sent_ns[expected++] == FAKE_BEGIN + at_ns);
    }
    CHECK(expected == sent_count && expected > 20);
    teardown(&b);
}

static void test_calls_bound_the_schedule(void)
{
    for (uint64_t calls = 0; calls < 50; calls += 7) {
        struct bench b;

        setup(&b);
        b.timeline.duration_ns = 0;
        b.timeline.warmup_ns = 5 * MS + MS / 2;
        b.opts.calls = calls;
        run(&b);
        CHECK(calls_of(&b) == calls && b.recorder.not_sent == 0);
        CHECK(b.client.sent == calls + 6);
        CHECK(window_of(&b) ==
              (calls ? calls * MS + 1 : 0)); /* the last is sent at calls - 1 ms and takes one */
        teardown(&b);
    }
}

/* --- the client is late --- */

static uint64_t stall_at_ns, stall_ns;

static void stall_client(struct gp_client *client)
{
    if (stall_ns == 0 || fake_now_ns < stall_at_ns)
        return;
    fake_now_ns += stall_ns;
    stall_ns = 0;
}

/* It sends what came due, at once and late, and says so; the schedule does not move. */
static void test_a_stalled_client_shows_in_its_lag(void)
{
    struct bench b;

    setup(&b);
    b.client.on_time = stall_client;
    stall_at_ns = FAKE_BEGIN + 30 * MS;
    stall_ns = 40 * MS;
    run(&b);
    CHECK(calls_of(&b) == 100 && b.recorder.not_sent == 0);
    CHECK(sent_ns[29] == FAKE_BEGIN + 29 * MS && sent_ns[71] == FAKE_BEGIN + 71 * MS);
    for (size_t i = 30; i <= 70; i++)
        CHECK(sent_ns[i] == FAKE_BEGIN + 70 * MS);
    CHECK(b.client.submits == 60 && b.recorder.largest_burst == 41);
    CHECK(b.recorder.lag.count == 100 && b.recorder.lag.max_ns == 40 * MS && b.recorder.lag.counts[0] == 60);
    CHECK(b.recorder.latency.max_ns == 41 * MS && b.recorder.service.max_ns == 1 * MS);
    teardown(&b);
}

static void test_what_is_due_at_the_end_is_still_sent(void)
{
    struct bench b;

    setup(&b);
    b.client.on_time = stall_client;
    stall_at_ns = FAKE_BEGIN + 80 * MS;
    stall_ns = 50 * MS;
    run(&b);
    CHECK(calls_of(&b) == 100 && b.recorder.not_sent == 0 && window_of(&b) == 100 * MS);
    CHECK(sent_ns[99] == FAKE_BEGIN + 130 * MS && b.recorder.lag.max_ns == 50 * MS);
    teardown(&b);
}

/* 251 calls came due, 100 ... 350, and there are 64 slots. The first 64 leave at 350, late by the client's
 * own fault. Slots come back at 360. */
static void test_a_long_stall_meets_the_catch_up_policy(void)
{
    static const uint64_t not_sent[] = {[GP_CATCH_UP_NONE] = 196,   /* 164 ... 359 */
                                        [GP_CATCH_UP_BOUNDED] = 96, /* 164 ... 259 */
                                        [GP_CATCH_UP_FULL] = 0};

    for (int policy = GP_CATCH_UP_NONE; policy <= GP_CATCH_UP_FULL; policy++) {
        struct bench b;

        setup(&b);
        b.timeline.duration_ns = 1000 * MS;
        b.client.on_time = stall_client;
        b.client.service_ns = 10 * MS;
        b.opts.catch_up = (enum gp_catch_up)policy;
        stall_at_ns = FAKE_BEGIN + 100 * MS;
        stall_ns = 250 * MS;
        run(&b);
        CHECK(b.recorder.not_sent == not_sent[policy] && calls_of(&b) == 1000 - not_sent[policy]);
        for (size_t i = 100; i < 164; i++)
            CHECK(sent_ns[i] == FAKE_BEGIN + 350 * MS);
        CHECK(b.recorder.lag.max_ns == 250 * MS);
        CHECK(policy == GP_CATCH_UP_NONE ? b.recorder.queued.count == 0 : b.recorder.queued.count > 64);
        teardown(&b);
    }
}

/* --- the server is late --- */

static uint64_t stop_at_ns, go_on_at_ns;

/* Answers nothing between the two times; what it got meanwhile it answers after, with its usual 1 ms. */
static void serve_with_a_stall(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    if (call->done_ns > stop_at_ns && call->sent_ns < go_on_at_ns)
        call->done_ns = go_on_at_ns + MS;
}

static void stall_server(struct bench *b, uint64_t from_ms, uint64_t to_ms)
{
    serve_then = serve_with_a_stall;
    stop_at_ns = FAKE_BEGIN + from_ms * MS;
    go_on_at_ns = FAKE_BEGIN + to_ms * MS;
}

static void test_a_stalled_server_shows_with_room_in_flight(void)
{
    struct bench b;

    setup(&b);
    stall_server(&b, 20, 60);
    run(&b);
    CHECK(calls_of(&b) == 100 && b.recorder.not_sent == 0 && b.recorder.lag.max_ns == 0);
    CHECK(b.recorder.latency.max_ns == 41 * MS && b.recorder.service.max_ns == 41 * MS);
    CHECK(b.client.max_in_flight == 41);
    teardown(&b);
}

/* Two slots, 1,000/s, a stall from 20 to 60 ms; 1 ms a call, so two calls a ms can be made up for. */
static void test_full_queues_to_the_end(void)
{
    struct bench b;

    setup(&b);
    b.opts.concurrency = 2;
    b.opts.catch_up = GP_CATCH_UP_FULL;
    stall_server(&b, 20, 60);
    run(&b);
    CHECK(calls_of(&b) == 100 && b.recorder.not_sent == 0 && b.client.max_in_flight == 2);
    /* Sent at 20 and 21, back at 61; 22 and 23 leave at 61, 24 and 25 at 62, ... 98 and 99 at 99. */
    for (size_t i = 22; i < 100; i++)
        CHECK(sent_ns[i] == FAKE_BEGIN + (61 + (i - 22) / 2) * MS);
    CHECK(b.recorder.latency.max_ns == 41 * MS && b.recorder.service.max_ns == 41 * MS);
    CHECK(b.recorder.queued.count == 77 && b.recorder.queued.max_ns == 39 * MS); /* 99 is not late */
    CHECK(b.recorder.lag.count == 23 && b.recorder.lag.max_ns == 0);
    teardown(&b);
}

static void test_none_drops_at_the_intended_time(void)
{
    struct bench b;

    setup(&b);
    b.opts.concurrency = 2;
    b.opts.catch_up = GP_CATCH_UP_NONE;
    stall_server(&b, 20, 60);
    run(&b);
    CHECK(b.recorder.not_sent == 39); /* 22 ... 60: at 61 there is room, in time for the call of 61 */
    CHECK(calls_of(&b) == 61 && sent_ns[22] == FAKE_BEGIN + 61 * MS && b.recorder.queued.count == 0);
    CHECK(b.recorder.lag.max_ns == 0);
    teardown(&b);
}

static void test_bounded_queues_a_tenth_of_a_second(void)
{
    struct bench b;

    setup(&b);
    b.timeline.duration_ns = 1000 * MS;
    b.opts.concurrency = 2;
    stall_server(&b, 100, 400);
    run(&b);
    /* Sent at 100 and 101, back at 401. What was due at 102 ... 300 has waited for more than 100 ms by then,
     * what was due at 301 has not. From then on two a ms are sent where one comes. */
    CHECK(b.recorder.not_sent == 199 && calls_of(&b) == 801);
    CHECK(sent_ns[102] == FAKE_BEGIN + 401 * MS && sent_ns[103] == sent_ns[102]);
    CHECK(b.recorder.queued.max_ns == 100 * MS);
    CHECK(b.recorder.latency.max_ns == 301 * MS);
    teardown(&b);
}

static void test_waiting_for_a_slot_is_no_spinning(void)
{
    struct bench b;

    setup(&b);
    b.timeline.duration_ns = 1000 * MS;
    b.opts.concurrency = 2;
    stall_server(&b, 100, 900);
    run(&b);
    CHECK(b.client.polls < 101 + 2 * 99 + 800 / 20 + 20);
    teardown(&b);
}

static void test_overload_sends_what_there_is_room_for(void)
{
    for (int policy = GP_CATCH_UP_NONE; policy <= GP_CATCH_UP_FULL; policy++) {
        struct bench b;

        setup(&b);
        b.timeline.duration_ns = 1000 * MS;
        b.client.service_ns = 10 * MS; /* 4 slots: 400 calls/s of the 1,000 */
        b.opts.concurrency = 4;
        b.opts.catch_up = (enum gp_catch_up)policy;
        run(&b);
        CHECK(calls_of(&b) == 400 && b.recorder.not_sent == 600);
        if (policy == GP_CATCH_UP_FULL)
            CHECK(b.recorder.latency.max_ns > 500 * MS);
        else
            CHECK(b.recorder.latency.max_ns <= (policy == GP_CATCH_UP_NONE ? 10 : 110) * MS);
        teardown(&b);
    }
}

/* A backlog of the warm-up comes before the window's calls, and is nobody's. */
static void test_the_warm_ups_backlog_goes_first(void)
{
    struct bench b;

    setup(&b);
    b.timeline.warmup_ns = 50 * MS;
    b.opts.concurrency = 2;
    b.opts.catch_up = GP_CATCH_UP_FULL;
    stall_server(&b, 20, 60);
    run(&b);
    CHECK(b.client.sent == 150 && calls_of(&b) == 100 && b.recorder.not_sent == 0);
    /* 22 ... 49 of the warm-up leave at 61 ... 74, so the window's first, due at 50, at 75. */
    CHECK(sent_ns[50] == FAKE_BEGIN + 75 * MS && b.recorder.queued.max_ns == 25 * MS);
    teardown(&b);
}

/* --- ends from outside --- */

static struct bench *watched;
static enum gp_cease cease_why;
static uint64_t cease_at_ns;

static void cease_in_time(struct gp_client *client)
{
    stall_client(client);
    if (fake_now_ns >= cease_at_ns)
        gp_timeline_cease(&watched->timeline, cease_why);
}

static void test_ceasing_accounts_for_what_was_due(void)
{
    static const enum gp_cease whys[] = {GP_CEASE_STOP, GP_CEASE_DIED, GP_CEASE_ABANDON};

    for (size_t i = 0; i < 3; i++) {
        struct bench b;

        setup(&b);
        watched = &b;
        cease_why = whys[i];
        b.client.on_time = cease_in_time;
        stall_at_ns = FAKE_BEGIN + 40 * MS;
        cease_at_ns = FAKE_BEGIN + 50 * MS;
        stall_ns = 10 * MS;
        run(&b);
        CHECK(window_of(&b) == 50 * MS + 1);
        /* Due at 40 ... 50: sent when somebody stops the run, not when there is no server any more. */
        CHECK(calls_of(&b) == (cease_why == GP_CEASE_STOP ? 51 : 40));
        CHECK(b.recorder.not_sent == (cease_why == GP_CEASE_STOP ? 0 : 11));
        teardown(&b);
    }
}

static void test_ceased_in_the_warm_up(void)
{
    struct bench b;

    setup(&b);
    watched = &b;
    cease_why = GP_CEASE_STOP;
    cease_at_ns = FAKE_BEGIN + 50 * MS;
    stall_ns = 0;
    b.client.on_time = cease_in_time;
    b.timeline.warmup_ns = 80 * MS;
    run(&b);
    CHECK(calls_of(&b) == 0 && b.recorder.not_sent == 0 && window_of(&b) == 0);
    teardown(&b);
}

static void serve_never(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    call->done_ns = FAKE_NEVER;
}

static void test_calls_without_an_answer_end_with_the_drain(void)
{
    struct bench b;

    setup(&b);
    serve_then = serve_never;
    b.opts.drain_ns = 30 * MS;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_IN_FLIGHT_AT_END] == FAKE_SLOTS);
    CHECK(b.recorder.not_sent == 100 - FAKE_SLOTS && b.generator.drained_ns == 30 * MS);
    CHECK(b.recorder.lag.count == FAKE_SLOTS);
    teardown(&b);
}

/* --- anything at all --- */

static struct gp_random dice;

static void serve_at_random(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    static const enum gp_class classes[] = {GP_CLASS_OK, GP_CLASS_OK, GP_CLASS_UNAVAILABLE,
                                            GP_CLASS_INTERNAL};

    call->class = classes[gp_random_below(&dice, 4)];
    call->done_ns = call->sent_ns + gp_random_below(&dice, 6) * gp_random_below(&dice, 8 * MS);
    if (gp_random_below(&dice, 300) == 0)
        call->done_ns = FAKE_NEVER;
}

static void stall_at_random(struct gp_client *client)
{
    if (gp_random_below(&dice, 50) == 0)
        fake_now_ns += gp_random_below(&dice, 200 * MS);
    if (fake_now_ns >= cease_at_ns)
        gp_timeline_cease(&watched->timeline, cease_why);
}

/* run() checks that what was intended was sent or dropped, exactly, whatever happens. */
static void test_intended_calls_always_add_up(void)
{
    for (uint64_t seed = 0; seed < 600; seed++) {
        struct bench b;

        setup(&b);
        watched = &b;
        gp_random_init(&dice, seed);
        serve_then = serve_at_random;
        b.client.on_time = stall_at_random;
        cease_why = (enum gp_cease)(1 + gp_random_below(&dice, 3));
        cease_at_ns = gp_random_below(&dice, 3) ? UINT64_MAX : FAKE_BEGIN + gp_random_below(&dice, 500 * MS);
        b.client.cancel_ns = gp_random_below(&dice, 3) * MS;
        b.opts.concurrency = 1 + (uint32_t)gp_random_below(&dice, FAKE_SLOTS);
        b.opts.drain_ns = gp_random_below(&dice, 30) * MS;
        b.opts.catch_up = (enum gp_catch_up)gp_random_below(&dice, 3);
        b.opts.schedule.arrival = (enum gp_arrival)gp_random_below(&dice, 3);
        b.opts.schedule.seed = seed;
        b.opts.schedule.step_count = 1 + gp_random_below(&dice, 3);
        for (int i = 0; i < 3; i++)
            b.steps[i] =
                (struct gp_rate_step){(double)gp_random_below(&dice, 3000),
                                      (double)gp_random_below(&dice, 3000), gp_random_below(&dice, 200 * MS)};
        b.timeline.warmup_ns = gp_random_below(&dice, 2) * gp_random_below(&dice, 50 * MS);
        b.timeline.duration_ns = 1 + gp_random_below(&dice, 400 * MS);
        if (gp_random_below(&dice, 3) == 0)
            b.opts.calls = gp_random_below(&dice, 500);
        run(&b);
        CHECK(b.opts.calls == UINT64_MAX || calls_of(&b) + b.recorder.not_sent <= b.opts.calls);
        CHECK(b.recorder.lag.count + b.recorder.queued.count == calls_of(&b));
        CHECK(window_of(&b) <= b.timeline.duration_ns);
        teardown(&b);
    }
}

int main(void)
{
    test_calls_leave_at_their_times();
    test_the_window_does_not_depend_on_the_warm_up();
    test_parts_share_one_schedule();
    test_calls_bound_the_schedule();
    test_a_stalled_client_shows_in_its_lag();
    test_what_is_due_at_the_end_is_still_sent();
    test_a_long_stall_meets_the_catch_up_policy();
    test_a_stalled_server_shows_with_room_in_flight();
    test_full_queues_to_the_end();
    test_none_drops_at_the_intended_time();
    test_bounded_queues_a_tenth_of_a_second();
    test_waiting_for_a_slot_is_no_spinning();
    test_overload_sends_what_there_is_room_for();
    test_the_warm_ups_backlog_goes_first();
    test_ceasing_accounts_for_what_was_due();
    test_ceased_in_the_warm_up();
    test_calls_without_an_answer_end_with_the_drain();
    test_intended_calls_always_add_up();
    return 0;
}
