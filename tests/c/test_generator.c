/* generator: which call is sent when, which is measured, and how a run ends, on a clock that only the test
 * moves. */
#include "fake_client.h"

#include "base/random.h"
#include "load/loop.h"
#include "load/timeline.h"

#define MS GP_NS_PER_MS

/* One generator with all it needs; a test fills opts, runs, and looks. */
struct bench {
    struct gp_client client;
    struct gp_timeline timeline;
    struct gp_recorder recorder;
    struct gp_generator_opts opts;
    struct gp_generator generator;
};

static void setup(struct bench *b)
{
    fake_reset(&b->client);
    gp_timeline_init(&b->timeline);
    b->timeline.threads = 1;
    b->opts = (struct gp_generator_opts){.loop = &gp_closed_loop,
                                         .client = &b->client,
                                         .timeline = &b->timeline,
                                         .recorder = &b->recorder,
                                         .concurrency = 4,
                                         .calls = UINT64_MAX,
                                         .drain_ns = 1000 * MS};
}

static uint64_t sum_of_classes(const struct bench *b)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        sum += b->recorder.classes[i];
    return sum;
}

/* Run it, and check what holds for every run. */
static void run(struct bench *b)
{
    b->client.window_start_ns = FAKE_BEGIN + b->timeline.warmup_ns;
    if (b->timeline.duration_ns)
        b->client.window_end_ns = b->client.window_start_ns + b->timeline.duration_ns;
    CHECK(gp_recorder_init(&b->recorder, gp_recorder_window_ns(b->timeline.duration_ns), false) == 0);
    CHECK(gp_generator_init(&b->generator, &b->opts) == 0);
    gp_generator_run(&b->generator);

    CHECK(b->generator.in_flight == 0);
    CHECK(b->client.max_in_flight <= b->opts.concurrency);
    if (!b->opts.endless)
        CHECK(sum_of_classes(b) == b->client.sent_in_window);
    CHECK(sum_of_classes(b) == b->recorder.latency.count + b->recorder.errors.count +
                                   b->recorder.classes[GP_CLASS_IN_FLIGHT_AT_END]);
    CHECK(b->generator.finished == sum_of_classes(b));
    CHECK(atomic_load(&b->generator.progress.finished) == sum_of_classes(b));
    CHECK(atomic_load(&b->generator.progress.ok) == b->recorder.classes[GP_CLASS_OK]);
}

static void teardown(struct bench *b)
{
    gp_generator_fini(&b->generator);
    gp_recorder_fini(&b->recorder);
}

static uint64_t window_of(const struct bench *b)
{
    return b->recorder.end_ns - b->recorder.start_ns;
}

/* --- how much is sent, and what of it is measured --- */

static void test_duration_measures_what_is_sent_inside(void)
{
    struct bench b;

    setup(&b);
    b.timeline.warmup_ns = 10 * MS;
    b.timeline.duration_ns = 100 * MS;
    run(&b);
    /* 4 slots, 1 ms a call: sent at 10, 11 ... 109 ms after the begin, done at 11 ... 110. */
    CHECK(b.recorder.classes[GP_CLASS_OK] == 400 && b.client.sent == 440);
    CHECK(window_of(&b) == 100 * MS && b.recorder.start_ns == FAKE_BEGIN + 10 * MS);
    /* Done in the window: at 10 (sent in the warm-up) ... 109. */
    CHECK(b.recorder.ok_in_window == 400 && b.recorder.all_in_window == 400);
    CHECK(b.recorder.latency.min_ns == 1 * MS && b.recorder.latency.max_ns == 1 * MS);
    CHECK(b.generator.marks[1].messages_sent - b.generator.marks[0].messages_sent == 400);
    CHECK(b.client.max_in_flight == 4);
    teardown(&b);
}

static void test_calls_sends_exactly_so_many(void)
{
    for (uint64_t calls = 1; calls < 40; calls += 3) {
        struct bench b;

        setup(&b);
        b.opts.concurrency = 8;
        b.opts.calls = calls;
        run(&b);
        CHECK(b.client.sent == calls && b.recorder.classes[GP_CLASS_OK] == calls);
        CHECK(window_of(&b) == (calls + 7) / 8 * MS + 1); /* to the last completion, and it inside */
        CHECK(b.recorder.ok_in_window == calls);
        CHECK(b.generator.cut_by == GP_CEASE_NOT && b.generator.drained_ns == 0 && b.client.cancels == 0);
        teardown(&b);
    }
}

static void test_calls_count_after_warmup(void)
{
    struct bench b;

    setup(&b);
    b.timeline.warmup_ns = 10 * MS + MS / 2; /* calls of the warm-up reach half a ms into the window */
    b.opts.calls = 10;
    run(&b);
    CHECK(b.client.sent == 44 + 10 && b.recorder.classes[GP_CLASS_OK] == 10);
    CHECK(window_of(&b) == 3 * MS + MS / 2 + 1);
    CHECK(b.recorder.ok_in_window == 14); /* throughput counts what completes, whenever sent */
    teardown(&b);
}

static void test_whichever_ends_first(void)
{
    struct bench b;

    setup(&b);
    b.timeline.duration_ns = 100 * MS;
    b.opts.calls = 40;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_OK] == 40 && window_of(&b) == 10 * MS + 1);
    teardown(&b);

    setup(&b);
    b.timeline.duration_ns = 5 * MS;
    b.opts.calls = 40;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_OK] == 20 && window_of(&b) == 5 * MS);
    teardown(&b);
}

/* The share of a thread when there are fewer calls than threads. */
static void test_no_call_at_all(void)
{
    struct bench b;

    setup(&b);
    b.opts.calls = 0;
    run(&b);
    CHECK(b.client.sent == 0 && sum_of_classes(&b) == 0 && window_of(&b) == 0);
    teardown(&b);

    setup(&b);
    b.timeline.warmup_ns = 10 * MS;
    b.opts.calls = 0;
    run(&b);
    CHECK(b.client.sent == 40 && sum_of_classes(&b) == 0 && window_of(&b) == 0);
    teardown(&b);
}

static void test_what_one_poll_brings_goes_out_in_one_submit(void)
{
    struct bench b;

    setup(&b);
    b.opts.concurrency = 32;
    b.timeline.duration_ns = 10 * MS;
    run(&b);
    CHECK(b.client.sent == 320 && b.client.submits == 10);
    teardown(&b);
}

static void test_think_time_lies_between_calls(void)
{
    struct bench b;

    setup(&b);
    b.opts.think_ns = 4 * MS;
    b.timeline.duration_ns = 100 * MS;
    run(&b);
    CHECK(b.client.sent == 4 * 20); /* a call every 5 ms and slot */
    CHECK(b.recorder.latency.max_ns == 1 * MS);
    teardown(&b);
}

/* Slots of different speed do not wait for each other. */
static void serve_by_slot(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    call->done_ns = call->sent_ns + (id + 1) * MS;
}

static void test_slots_run_on_their_own(void)
{
    struct bench b;

    setup(&b);
    b.client.serve = serve_by_slot;
    b.timeline.duration_ns = 120 * MS;
    run(&b);
    CHECK(b.client.sent == 120 + 60 + 40 + 30);
    teardown(&b);
}

/* --- the server's and the client's CPU, progress --- */

static int phase_seen_at[5];
static struct bench *watched;

static void watch_phase(struct gp_client *client)
{
    int phase = atomic_load(&watched->generator.progress.phase);

    if (!phase_seen_at[phase])
        phase_seen_at[phase] = (int)((fake_now_ns - FAKE_BEGIN) / MS);
}

static void test_ends_of_the_window_are_read_on_time(void)
{
    struct bench b;

    setup(&b);
    watched = &b;
    b.client.on_time = watch_phase;
    b.client.service_ns = 30 * MS;
    b.timeline.server_pid = 4711;
    b.timeline.warmup_ns = 50 * MS;
    b.timeline.duration_ns = 200 * MS;
    run(&b);
    CHECK(b.timeline.server_cpu_known[0] && b.timeline.server_cpu_known[1]);
    CHECK(b.timeline.server_cpu_ns[1] - b.timeline.server_cpu_ns[0] == 20 * MS);
    CHECK(b.timeline.server_cpu_ns[0] == (FAKE_BEGIN + 50 * MS) / 10);
    CHECK(b.generator.marks[1].cpu_ns > b.generator.marks[0].cpu_ns && b.generator.cpu_known);
    CHECK(b.generator.marks[0].polls == 3); /* 20, 30 and 50 ms after the begin */
    CHECK(b.generator.marks[1].polls > 10 && b.generator.marks[1].idle_polls >= 5);
    CHECK(phase_seen_at[GP_RUN_WARMUP] == 20 && phase_seen_at[GP_RUN_MEASURE] == 60);
    CHECK(phase_seen_at[GP_RUN_DRAIN] == 270);
    teardown(&b);
}

/* --- the drain --- */

static void test_drain_waits_for_what_is_in_flight(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = 70 * MS;
    b.timeline.duration_ns = 100 * MS;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_OK] == 8 && b.recorder.ok_in_window == 4);
    CHECK(b.generator.drained_ns == 40 * MS && b.client.cancels == 0 && b.client.ends == 1);
    CHECK(b.recorder.latency.count == 8);
    teardown(&b);
}

static void test_drain_that_runs_out(void)
{
    static const enum gp_class back_as[] = {GP_CLASS_CANCELLED, GP_CLASS_UNAVAILABLE, GP_CLASS_OK};

    for (size_t i = 0; i < 3; i++) {
        struct bench b;

        setup(&b);
        b.client.service_ns = FAKE_NEVER;
        b.client.cancel_class = back_as[i];
        b.client.cancel_ns = i * MS;
        b.timeline.duration_ns = 100 * MS;
        b.opts.drain_ns = 130 * MS;
        run(&b);
        CHECK(b.recorder.classes[GP_CLASS_IN_FLIGHT_AT_END] == 4 && sum_of_classes(&b) == 4);
        CHECK(b.generator.drained_ns == 130 * MS && b.client.cancels == 1);
        CHECK(b.recorder.latency.count == 0 && b.recorder.errors.count == 0);
        teardown(&b);
    }
}

static void serve_odd_ones_for_ever(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    call->done_ns = id % 2 ? FAKE_NEVER : FAKE_BEGIN + 230 * MS; /* the moment the drain runs out */
}

static void test_what_finishes_with_the_drain_has_finished(void)
{
    struct bench b;

    setup(&b);
    b.client.serve = serve_odd_ones_for_ever;
    b.client.cancel_class = GP_CLASS_OK; /* even so */
    b.timeline.duration_ns = 100 * MS;
    b.opts.drain_ns = 130 * MS;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_OK] == 2 && b.recorder.classes[GP_CLASS_IN_FLIGHT_AT_END] == 2);
    teardown(&b);
}

static void test_no_drain(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = 15 * MS;
    b.timeline.duration_ns = 100 * MS;
    b.opts.drain_ns = 0;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_OK] == 24 && b.recorder.classes[GP_CLASS_IN_FLIGHT_AT_END] == 4);
    teardown(&b);
}

static void test_calls_that_never_come_back_are_counted(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = FAKE_NEVER;
    b.client.cancel_ns = FAKE_NEVER;
    b.timeline.duration_ns = 100 * MS;
    b.opts.drain_ns = 50 * MS;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_IN_FLIGHT_AT_END] == 4);
    CHECK(fake_now_ns - FAKE_BEGIN == 2150 * MS); /* two seconds for the cancelling, no more */
    teardown(&b);
}

/* Calls of the warm-up that never end are nobody's, but are cancelled all the same. */
static void test_stuck_in_warmup(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = FAKE_NEVER;
    b.timeline.warmup_ns = 100 * MS;
    b.timeline.duration_ns = 100 * MS;
    b.opts.drain_ns = 50 * MS;
    run(&b);
    CHECK(sum_of_classes(&b) == 0 && b.client.sent == 4 && b.client.cancels == 1);
    teardown(&b);
}

/* --- calls that last until they are told to end --- */

static void test_endless_calls_belong_to_the_window(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = FAKE_NEVER;
    b.client.endless = b.opts.endless = true;
    b.timeline.warmup_ns = 50 * MS;
    b.timeline.duration_ns = 100 * MS;
    run(&b);
    CHECK(b.client.sent == 4 && b.recorder.classes[GP_CLASS_OK] == 4 && sum_of_classes(&b) == 4);
    CHECK(b.recorder.all_in_window == 0); /* they end after it */
    CHECK(b.generator.drained_ns == 1 * MS && b.client.cancels == 0);
    teardown(&b);

    setup(&b);
    b.client.service_ns = FAKE_NEVER;
    b.client.endless = b.opts.endless = true;
    b.timeline.warmup_ns = 50 * MS;
    b.timeline.duration_ns = 100 * MS;
    b.opts.calls = 3;
    run(&b);
    CHECK(sum_of_classes(&b) == 3);
    teardown(&b);
}

/* The drain runs out on streams that the client has ended. */
static void test_streams_that_are_ahead_keep_their_class(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = FAKE_NEVER;
    b.opts.endless = true;
    b.timeline.duration_ns = 100 * MS;
    b.client.cancel_class = GP_CLASS_OK;
    b.client.cancel_ahead = true;
    run(&b);
    CHECK(b.client.cancels == 1 && b.recorder.classes[GP_CLASS_OK] == 4 && sum_of_classes(&b) == 4);
    CHECK(b.generator.ahead == 4);
    teardown(&b);
}

/* --- calls that fail --- */

static enum gp_class failing_class;
static uint64_t failing_after_ns, failing_until_ns;

static void serve_failure(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    if (fake_now_ns >= failing_until_ns)
        return;
    call->class = failing_class;
    call->done_ns = call->sent_ns + failing_after_ns;
}

static uint64_t sent_while_failing(enum gp_class class, uint64_t after_ns)
{
    struct bench b;
    uint64_t sent;

    setup(&b);
    failing_class = class;
    failing_after_ns = after_ns;
    failing_until_ns = UINT64_MAX;
    b.client.serve = serve_failure;
    b.timeline.duration_ns = 1000 * MS;
    run(&b);
    CHECK(b.recorder.classes[class] == b.client.sent && b.recorder.errors.count == b.client.sent);
    sent = b.client.sent;
    teardown(&b);
    return sent;
}

static void test_immediate_failures_are_not_hammered(void)
{
    /* Rests of 1, 2, 4 ... 64 ms, then 100: sent at 0, 1, 3, 7, 15, 31, 63, 127, 227 ... 927. */
    CHECK(sent_while_failing(GP_CLASS_UNAVAILABLE, 0) == 4 * 16);
    CHECK(sent_while_failing(GP_CLASS_TRANSPORT, 0) == 4 * 16);
    /* A server that answers is measured as it is. */
    CHECK(sent_while_failing(GP_CLASS_UNAVAILABLE, MS) == 4 * 1000);
    CHECK(sent_while_failing(GP_CLASS_RESOURCE_EXHAUSTED, MS / 2) == 4 * 2000);
}

static void test_recovery_ends_the_rests(void)
{
    struct bench b;

    setup(&b);
    failing_class = GP_CLASS_UNAVAILABLE;
    failing_after_ns = 0;
    failing_until_ns = FAKE_BEGIN + 40 * MS; /* failures at 0, 1, 3, 7, 15, 31; at 63 it is back */
    b.client.serve = serve_failure;
    b.timeline.duration_ns = 100 * MS;
    run(&b);
    CHECK(b.recorder.classes[GP_CLASS_UNAVAILABLE] == 4 * 6 && b.recorder.classes[GP_CLASS_OK] == 4 * 37);
    teardown(&b);
}

/* --- ends from outside --- */

static uint64_t cease_at_ns;
static enum gp_cease cease_why;

static void cease_in_time(struct gp_client *client)
{
    if (fake_now_ns >= cease_at_ns)
        gp_timeline_cease(&watched->timeline, cease_why);
}

static void run_ceased(struct bench *b, enum gp_cease why, uint64_t after_ns)
{
    watched = b;
    cease_why = why;
    cease_at_ns = FAKE_BEGIN + after_ns;
    b->client.on_time = cease_in_time;
    run(b);
}

static void test_stop_keeps_what_was_measured(void)
{
    struct bench b;

    setup(&b);
    b.timeline.warmup_ns = 10 * MS;
    b.timeline.duration_ns = 1000 * MS;
    run_ceased(&b, GP_CEASE_STOP, 60 * MS);
    CHECK(b.generator.cut_by == GP_CEASE_STOP && window_of(&b) == 50 * MS + 1);
    CHECK(b.recorder.classes[GP_CLASS_OK] == 200 && b.recorder.ok_in_window == 204);
    CHECK(b.recorder.windows.count == 2 && gp_windows_at(&b.recorder.windows, 0)->length_ns == 50 * MS);
    CHECK(gp_windows_at(&b.recorder.windows, 0)->ok == 200 &&
          gp_windows_at(&b.recorder.windows, 1)->ok == 4); /* four at the very end */
    teardown(&b);
}

static void test_stop_in_warmup_measures_nothing(void)
{
    struct bench b;

    setup(&b);
    b.timeline.warmup_ns = 100 * MS;
    b.timeline.duration_ns = 1000 * MS;
    run_ceased(&b, GP_CEASE_STOP, 60 * MS);
    CHECK(!b.generator.entered && window_of(&b) == 0 && sum_of_classes(&b) == 0);
    CHECK(b.recorder.windows.count == 0 && b.timeline.left == 0);
    teardown(&b);
}

static void test_how_long_each_end_waits(void)
{
    static const struct {
        enum gp_cease why;
        uint64_t waits_ns;
    } rows[] = {{GP_CEASE_STOP, 500 * MS}, {GP_CEASE_DIED, 200 * MS}, {GP_CEASE_ABANDON, 0}};

    for (size_t i = 0; i < 3; i++) {
        struct bench b;

        setup(&b);
        b.client.service_ns = FAKE_NEVER;
        b.timeline.duration_ns = 1000 * MS;
        b.opts.drain_ns = 5000 * MS;
        run_ceased(&b, rows[i].why, 60 * MS);
        CHECK(b.generator.drained_ns == rows[i].waits_ns && b.generator.cut_by == (int)rows[i].why);
        CHECK(b.recorder.classes[GP_CLASS_IN_FLIGHT_AT_END] == 4);
        CHECK(fake_now_ns == FAKE_BEGIN + 60 * MS + rows[i].waits_ns);
        teardown(&b);
    }
}

static void test_impatience_shortens_a_drain_under_way(void)
{
    struct bench b;

    setup(&b);
    b.client.service_ns = FAKE_NEVER;
    b.timeline.duration_ns = 100 * MS;
    b.opts.drain_ns = 5000 * MS;
    run_ceased(&b, GP_CEASE_ABANDON, 300 * MS);
    CHECK(b.generator.cut_by == GP_CEASE_NOT); /* the run had ended by itself */
    CHECK(b.generator.drained_ns == 200 * MS && window_of(&b) == 100 * MS);
    teardown(&b);
}

static void test_ceased_before_it_began(void)
{
    struct bench b;

    setup(&b);
    b.timeline.duration_ns = 100 * MS;
    gp_timeline_cease(&b.timeline, GP_CEASE_DIED);
    gp_timeline_cease(&b.timeline, GP_CEASE_STOP); /* never back */
    CHECK(gp_timeline_ceasing(&b.timeline) == GP_CEASE_DIED);
    run(&b);
    CHECK(b.client.sent == 0 && window_of(&b) <= 1);
    teardown(&b);
}

/* --- anything at all --- */

static struct gp_random dice;

static void serve_at_random(struct gp_client *client, uint64_t id, struct fake_call *call)
{
    static const enum gp_class classes[] = {GP_CLASS_OK,        GP_CLASS_OK,
                                            GP_CLASS_CANCELLED, GP_CLASS_UNAVAILABLE,
                                            GP_CLASS_TRANSPORT, GP_CLASS_DEADLINE_EXCEEDED};

    call->class = classes[gp_random_below(&dice, 6)];
    call->done_ns = call->sent_ns + gp_random_below(&dice, 6) * gp_random_below(&dice, 5 * MS);
    if (gp_random_below(&dice, 500) == 0)
        call->done_ns = FAKE_NEVER;
}

/* run() checks that the classes add up to what was sent in the window, whatever happens. */
static void test_calls_always_add_up(void)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct bench b;

        setup(&b);
        gp_random_init(&dice, seed);
        b.client.serve = serve_at_random;
        b.client.cancel_ns = gp_random_below(&dice, 3) * MS;
        b.opts.concurrency = 1 + (uint32_t)gp_random_below(&dice, FAKE_SLOTS);
        b.opts.drain_ns = gp_random_below(&dice, 30) * MS;
        b.opts.think_ns = gp_random_below(&dice, 2) * gp_random_below(&dice, 3 * MS);
        b.timeline.warmup_ns = gp_random_below(&dice, 2) * gp_random_below(&dice, 50 * MS);
        b.timeline.duration_ns = 1 + gp_random_below(&dice, 200 * MS);
        if (gp_random_below(&dice, 2))
            b.opts.calls = gp_random_below(&dice, 1000);
        run(&b);
        CHECK(b.opts.calls == UINT64_MAX || sum_of_classes(&b) <= b.opts.calls);
        CHECK(window_of(&b) <= b.timeline.duration_ns);
        teardown(&b);
    }
}

int main(void)
{
    test_duration_measures_what_is_sent_inside();
    test_calls_sends_exactly_so_many();
    test_calls_count_after_warmup();
    test_whichever_ends_first();
    test_no_call_at_all();
    test_what_one_poll_brings_goes_out_in_one_submit();
    test_think_time_lies_between_calls();
    test_slots_run_on_their_own();
    test_ends_of_the_window_are_read_on_time();
    test_drain_waits_for_what_is_in_flight();
    test_drain_that_runs_out();
    test_what_finishes_with_the_drain_has_finished();
    test_no_drain();
    test_calls_that_never_come_back_are_counted();
    test_stuck_in_warmup();
    test_endless_calls_belong_to_the_window();
    test_streams_that_are_ahead_keep_their_class();
    test_immediate_failures_are_not_hammered();
    test_recovery_ends_the_rests();
    test_stop_keeps_what_was_measured();
    test_stop_in_warmup_measures_nothing();
    test_how_long_each_end_waits();
    test_impatience_shortens_a_drain_under_way();
    test_ceased_before_it_began();
    test_calls_always_add_up();
    return 0;
}
