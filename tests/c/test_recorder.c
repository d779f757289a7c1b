/* recorder: every call in one class, every completion in its window, and threads' records add up to what one
 * thread would have written. */
#include "load/recorder.h"

#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "check.h"

#define START (1000 * GP_NS_PER_S) /* some time after boot */
#define MS GP_NS_PER_MS

static void record(struct gp_recorder *recorder, uint64_t sent_ms, uint64_t done_ms, enum gp_class class,
                   bool measured)
{
    struct gp_event event = {
        .sent_ns = START + sent_ms * MS, .done_ns = START + done_ms * MS, .class = class};

    gp_recorder_record(recorder, &event,
                       &(struct gp_plan){.intended_ns = event.sent_ns, .measured = measured});
}

static struct gp_window *window_of(const struct gp_recorder *recorder, size_t index)
{
    return gp_windows_at(&recorder->windows, index);
}

static uint64_t entries_of(const struct gp_window *window)
{
    struct gp_packed_reader reader = gp_packed_read(&window->latencies);
    struct gp_histogram_entry entry;
    uint64_t count = 0;

    while (gp_packed_next(&reader, &entry))
        count += entry.count;
    return count;
}

static void test_window_length_follows_duration(void)
{
    CHECK(gp_recorder_window_ns(0) == 100 * MS);
    CHECK(gp_recorder_window_ns(1 * MS) == 10 * MS);
    CHECK(gp_recorder_window_ns(100 * MS) == 10 * MS);
    CHECK(gp_recorder_window_ns(2000 * MS) == 100 * MS);
    CHECK(gp_recorder_window_ns(2000 * MS + 1) == 100 * MS + 1); /* 20 windows, not 21 */
    CHECK(gp_recorder_window_ns(20 * GP_NS_PER_S) == GP_NS_PER_S);
    CHECK(gp_recorder_window_ns(3600 * GP_NS_PER_S) == GP_NS_PER_S);
}

static void test_calls_of_warmup_count_only_in_the_window(void)
{
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START + 100 * MS, START + 200 * MS);
    record(&r, 50, 99, GP_CLASS_OK, false);  /* before it */
    record(&r, 90, 100, GP_CLASS_OK, false); /* the first moment inside */
    record(&r, 95, 105, GP_CLASS_INTERNAL, false);
    gp_recorder_end(&r, START + 200 * MS);
    CHECK(r.ok_in_window == 1 && r.all_in_window == 2);
    CHECK(r.windows.count == 10);
    CHECK(window_of(&r, 0)->ok == 1 && window_of(&r, 0)->failed == 1 &&
          window_of(&r, 0)->latencies.count == 0);
    CHECK(r.latency.count == 0 && r.errors.count == 0);
    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        CHECK(r.classes[i] == 0);
    gp_recorder_fini(&r);
}

static void test_drain_counts_only_in_totals(void)
{
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, START + 100 * MS);
    record(&r, 90, 99, GP_CLASS_OK, true);
    record(&r, 90, 100, GP_CLASS_OK, true); /* the first moment outside, and before end was called */
    gp_recorder_end(&r, START + 100 * MS);
    record(&r, 90, 110, GP_CLASS_OK, true);
    record(&r, 90, 120, GP_CLASS_UNAVAILABLE, true);
    record(&r, 90, 130, GP_CLASS_IN_FLIGHT_AT_END, true);
    CHECK(r.classes[GP_CLASS_OK] == 3 && r.classes[GP_CLASS_UNAVAILABLE] == 1);
    CHECK(r.classes[GP_CLASS_IN_FLIGHT_AT_END] == 1);
    CHECK(r.latency.count == 3 && r.latency.max_ns == 20 * MS && r.latency.min_ns == 9 * MS);
    CHECK(r.errors.count == 1 && r.errors.max_ns == 30 * MS);
    CHECK(r.ok_in_window == 1 && r.all_in_window == 1);
    CHECK(r.windows.count == 10 && window_of(&r, 9)->ok == 1 && entries_of(window_of(&r, 9)) == 1);
    gp_recorder_fini(&r);
}

static void test_windows_of_a_stall_are_there_and_empty(void)
{
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, UINT64_MAX);
    record(&r, 0, 5, GP_CLASS_OK, true);
    record(&r, 5, 1005, GP_CLASS_OK, true);
    record(&r, 5, 999, GP_CLASS_OK, true); /* out of order: counts in the window that is open */
    gp_recorder_end(&r, START + 1006 * MS);
    CHECK(r.windows.count == 101);
    for (size_t i = 0; i < r.windows.count; i++) {
        CHECK(window_of(&r, i)->start_ns == i * 10 * MS);
        CHECK(window_of(&r, i)->length_ns == (i < 100 ? 10 : 6) * MS);
        CHECK(window_of(&r, i)->ok == (i == 0 ? 1u : i == 100 ? 2u : 0u));
        CHECK(entries_of(window_of(&r, i)) == window_of(&r, i)->ok);
    }
    CHECK(!r.out_of_memory);
    gp_recorder_fini(&r);
}

static void test_end_on_a_boundary_leaves_no_empty_tail(void)
{
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, UINT64_MAX);
    record(&r, 0, 10, GP_CLASS_OK, true);
    gp_recorder_end(&r, START + 10 * MS + 1); /* as the generator ends after its last call */
    CHECK(r.windows.count == 2 && window_of(&r, 1)->length_ns == 1 && window_of(&r, 1)->ok == 1);
    gp_recorder_fini(&r);

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, START + 20 * MS);
    gp_recorder_end(&r, START + 20 * MS);
    CHECK(r.windows.count == 2 && window_of(&r, 1)->length_ns == 10 * MS);
    gp_recorder_fini(&r);

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, START + 20 * MS);
    gp_recorder_end(&r, START); /* stopped in the warm-up */
    CHECK(r.windows.count == 0);
    gp_recorder_fini(&r);
}

static void check_same_histogram(const struct gp_histogram *a, const struct gp_histogram *b)
{
    CHECK(a->count == b->count && a->sum_ns == b->sum_ns && a->overflow == b->overflow);
    CHECK(a->min_ns == b->min_ns && a->max_ns == b->max_ns && a->low == b->low && a->high == b->high);
    CHECK(a->low >= a->high || memcmp(a->counts + a->low, b->counts + a->low, (a->high - a->low) * 8) == 0);
}

static void check_same_windows(const struct gp_run_result *a, const struct gp_run_result *b)
{
    CHECK(a->windows.count == b->windows.count);
    for (size_t i = 0; i < a->windows.count; i++) {
        const struct gp_window *x = gp_windows_at(&a->windows, i), *y = gp_windows_at(&b->windows, i);

        CHECK(x->start_ns == y->start_ns && x->length_ns == y->length_ns);
        CHECK(x->sent == y->sent && x->ok == y->ok && x->failed == y->failed &&
              x->latencies.size == y->latencies.size);
        CHECK(x->latencies.size == 0 ||
              memcmp(x->latencies.bytes, y->latencies.bytes, x->latencies.size) == 0);
    }
}

static void free_result(struct gp_run_result *result)
{
    gp_windows_fini(&result->windows);
    gp_histogram_fini(&result->latency);
    gp_histogram_fini(&result->errors);
    gp_histogram_fini(&result->service);
    gp_histogram_fini(&result->lag);
    gp_histogram_fini(&result->queued);
    gp_histogram_fini(&result->gap);
}

static void record_random_call(struct gp_random *random, uint64_t *now_ns, struct gp_recorder *both[2],
                               uint64_t *total)
{
    uint64_t latency_ns = (uint64_t)(gp_random_exponential(random) * 1e6) + 1;
    struct gp_event event = {.done_ns = *now_ns += gp_random_below(random, 30000)};
    struct gp_plan plan = {.held = gp_random_below(random, 4) == 0};

    event.sent_ns = event.done_ns - latency_ns;
    event.class = gp_random_below(random, 10) ? GP_CLASS_OK : (enum gp_class)gp_random_below(random, 17);
    plan.intended_ns = event.sent_ns - gp_random_below(random, 50000);
    plan.measured = plan.intended_ns >= START && plan.intended_ns < START + 205 * MS;
    for (int i = 0; i < 2; i++) {
        gp_recorder_record(both[i], &event, &plan);
        if (plan.measured && plan.held)
            gp_recorder_dropped(both[i]);
    }
    *total += plan.measured;
}

/* The same random calls written by one thread and by three, in an open loop and in a closed one. */
static void test_threads_add_up_to_one(bool open_loop)
{
    enum { THREADS = 3, CALLS = 20000 };
    struct gp_recorder one, parts[THREADS];
    struct gp_run_result whole = {0}, merged = {0};
    struct gp_random random;
    uint64_t now_ns = START - 50 * MS, total = 0;

    gp_random_init(&random, 11);
    CHECK(gp_recorder_init(&one, 10 * MS, open_loop) == 0);
    gp_recorder_start(&one, START, START + 205 * MS);
    for (int i = 0; i < THREADS; i++) {
        CHECK(gp_recorder_init(&parts[i], 10 * MS, open_loop) == 0);
        gp_recorder_start(&parts[i], START, START + 205 * MS);
    }
    for (int i = 0; i < CALLS; i++) {
        struct gp_recorder *both[] = {&one, &parts[gp_random_below(&random, THREADS)]};

        record_random_call(&random, &now_ns, both, &total);
    }
    CHECK(now_ns > START + 205 * MS); /* some in the drain, too */
    gp_recorder_end(&one, START + 205 * MS);
    for (int i = 0; i < THREADS; i++)
        gp_recorder_end(&parts[i], START + 205 * MS);
    for (int i = 1; i < THREADS; i++)
        gp_recorder_merge(&parts[0], &parts[i]);
    gp_recorder_move(&one, &whole);
    gp_recorder_move(&parts[0], &merged);

    CHECK(memcmp(whole.classes, merged.classes, sizeof whole.classes) == 0);
    CHECK(whole.ok_in_window == merged.ok_in_window && whole.all_in_window == merged.all_in_window);
    CHECK(whole.window_ns == 205 * MS && merged.window_ns == 205 * MS && whole.windows.count == 21);
    CHECK(gp_windows_at(&whole.windows, 20)->length_ns == 5 * MS); /* half a window may stay */
    check_same_histogram(&whole.latency, &merged.latency);
    check_same_histogram(&whole.errors, &merged.errors);
    check_same_histogram(&whole.service, &merged.service);
    check_same_histogram(&whole.lag, &merged.lag);
    check_same_histogram(&whole.queued, &merged.queued);
    CHECK(whole.not_sent == merged.not_sent && whole.not_sent > 1000);
    CHECK(whole.lag.count + whole.queued.count == (open_loop ? total : whole.queued.count));
    CHECK(whole.queued.count == whole.not_sent);
    CHECK(whole.service.count == (open_loop ? whole.classes[GP_CLASS_OK] : 0));
    check_same_windows(&whole, &merged);

    uint64_t classes = 0, ok = 0, all = 0;
    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        classes += merged.classes[i];
    for (size_t i = 0; i < merged.windows.count; i++) {
        ok += gp_windows_at(&merged.windows, i)->ok;
        all += gp_windows_at(&merged.windows, i)->ok + gp_windows_at(&merged.windows, i)->failed;
    }
    CHECK(classes == total && merged.latency.count + merged.errors.count == total);
    CHECK(ok == merged.ok_in_window && all == merged.all_in_window);

    free_result(&whole);
    free_result(&merged);
    gp_recorder_fini(&one);
    for (int i = 0; i < THREADS; i++)
        gp_recorder_fini(&parts[i]);
}

static void test_a_short_tail_joins_the_window_before(void)
{
    struct gp_run_result result = {0};
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, UINT64_MAX);
    record(&r, 0, 12, GP_CLASS_OK, true);
    record(&r, 10, 20, GP_CLASS_OK, true);
    record(&r, 10, 22, GP_CLASS_INTERNAL, true);
    record(&r, 10, 22, GP_CLASS_OK, true);
    gp_recorder_end(&r, START + 22 * MS + 1);
    gp_recorder_move(&r, &result);
    CHECK(result.windows.count == 2);
    CHECK(gp_windows_at(&result.windows, 1)->start_ns == 10 * MS &&
          gp_windows_at(&result.windows, 1)->length_ns == 12 * MS + 1);
    CHECK(gp_windows_at(&result.windows, 1)->ok == 3 && gp_windows_at(&result.windows, 1)->failed == 1 &&
          entries_of(gp_windows_at(&result.windows, 1)) == 3);
    CHECK(gp_windows_at(&result.windows, 1)->latencies.count == 2); /* 10 ms, and 12 ms twice */
    free_result(&result);
    gp_recorder_fini(&r);
}

/* A thread that was through early has fewer windows, and the whole is as long as the longest. */
static void test_a_shorter_record_merges_either_way(void)
{
    for (int order = 0; order < 2; order++) {
        struct gp_recorder early, late;
        struct gp_recorder *into = order ? &early : &late, *from = order ? &late : &early;

        CHECK(gp_recorder_init(&early, 10 * MS, false) == 0 && gp_recorder_init(&late, 10 * MS, false) == 0);
        gp_recorder_start(&early, START, UINT64_MAX);
        gp_recorder_start(&late, START, UINT64_MAX);
        record(&early, 0, 5, GP_CLASS_OK, true);
        record(&late, 0, 5, GP_CLASS_OK, true);
        record(&late, 5, 35, GP_CLASS_OK, true);
        gp_recorder_end(&early, START + 5 * MS + 1);
        gp_recorder_end(&late, START + 35 * MS + 1);
        gp_recorder_merge(into, from);
        CHECK(into->end_ns == START + 35 * MS + 1 && into->windows.count == 4);
        CHECK(window_of(into, 0)->length_ns == 10 * MS && window_of(into, 0)->ok == 2);
        CHECK(window_of(into, 0)->latencies.count == 1 && entries_of(window_of(into, 0)) == 2);
        CHECK(window_of(into, 3)->ok == 1 && entries_of(window_of(into, 3)) == 1);
        CHECK(window_of(into, 3)->start_ns == 30 * MS && window_of(into, 3)->length_ns == 5 * MS + 1);
        gp_recorder_fini(&early);
        gp_recorder_fini(&late);
    }
}

/* Response time from intended, service time from sent, each call's lateness in one of two places. */
static void test_open_loop_counts_from_intended(void)
{
    static const struct {
        uint64_t intended_ms, sent_ms, done_ms;
        enum gp_class class;
        bool held_by_us, held_by_peer;
    } calls[] = {
        {0, 1, 10, GP_CLASS_OK, false, false},       {1, 1, 12, GP_CLASS_OK, false, false},
        {2, 30, 35, GP_CLASS_OK, true, false},       {3, 23, 24, GP_CLASS_OK, false, true},
        {4, 7, 13, GP_CLASS_INTERNAL, false, false}, {5, 5, 500, GP_CLASS_IN_FLIGHT_AT_END, false, false},
    };
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, true) == 0);
    gp_recorder_start(&r, START, START + 100 * MS);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct gp_event event = {.sent_ns = START + calls[i].sent_ms * MS,
                                 .done_ns = START + calls[i].done_ms * MS,
                                 .class = calls[i].class,
                                 .held = calls[i].held_by_peer};
        struct gp_plan plan = {
            .intended_ns = START + calls[i].intended_ms * MS, .measured = true, .held = calls[i].held_by_us};

        gp_recorder_record(&r, &event, &plan);
    }
    gp_recorder_end(&r, START + 100 * MS);
    CHECK(r.latency.count == 4 && r.latency.sum_ns == (10 + 11 + 33 + 21) * MS &&
          r.latency.max_ns == 33 * MS);
    CHECK(r.service.count == 4 && r.service.sum_ns == (9 + 11 + 5 + 1) * MS);
    CHECK(r.errors.count == 1 && r.errors.max_ns == 9 * MS);
    CHECK(r.lag.count == 4 && r.lag.sum_ns == (1 + 0 + 3 + 0) * MS);
    CHECK(r.queued.count == 2 && r.queued.sum_ns == (28 + 20) * MS);
    gp_recorder_fini(&r);
}

static void test_closed_loop_keeps_the_peers_queue_apart(void)
{
    struct gp_event event = {
        .sent_ns = START + 5 * MS, .done_ns = START + 7 * MS, .class = GP_CLASS_OK, .held = true};
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, false) == 0);
    gp_recorder_start(&r, START, START + 100 * MS);
    gp_recorder_record(&r, &event, &(struct gp_plan){.intended_ns = START + MS, .measured = true});
    record(&r, 1, 4, GP_CLASS_OK, true);
    gp_recorder_end(&r, START + 100 * MS);
    CHECK(r.latency.count == 2 && r.latency.sum_ns == (2 + 3) * MS);
    CHECK(r.queued.count == 1 && r.queued.max_ns == 4 * MS && r.lag.count == 0 && r.service.count == 0);
    gp_recorder_fini(&r);
}

static void test_bursts_are_what_left_together(void)
{
    struct gp_recorder r;

    CHECK(gp_recorder_init(&r, 10 * MS, true) == 0);
    gp_recorder_start(&r, START, START + 100 * MS);
    gp_recorder_sent(&r, START - MS, 50, 0); /* in the warm-up */
    gp_recorder_sent(&r, START + MS, 1, 0);
    gp_recorder_sent(&r, START + 3 * MS, 4, 0);
    gp_recorder_sent(&r, START + 15 * MS, 9, 9); /* a backlog */
    gp_recorder_sent(&r, START + 16 * MS, 9, 6);
    gp_recorder_sent(&r, START + 100 * MS, 7, 0); /* after the window */
    gp_recorder_end(&r, START + 100 * MS);
    CHECK(r.bursts == 3 && r.burst_calls == 8 && r.largest_burst == 4);
    CHECK(r.gap.count == 23 && r.gap.sum_ns == 16 * MS && r.gap.counts[0] == 19 && r.gap.max_ns == 12 * MS);
    CHECK(r.windows.count == 10 && window_of(&r, 0)->sent == 5 && window_of(&r, 1)->sent == 18);
    gp_recorder_fini(&r);
}

/* --- long runs --- */

/* A day at 20 calls a second, and two threads of which one was kept from joining its windows in time. */
static void test_a_day_takes_no_more_than_minutes(void)
{
    struct gp_recorder r[2];
    struct gp_run_result result = {0};
    struct gp_random random;
    uint64_t calls = 0;
    size_t bytes = 0;

    gp_random_init(&random, 1);
    for (int i = 0; i < 2; i++) {
        CHECK(gp_recorder_init(&r[i], 1000 * MS, false) == 0);
        gp_recorder_start(&r[i], START, UINT64_MAX);
    }
    for (uint64_t now_ns = START; now_ns < START + 86400 * 1000 * MS; now_ns += 100 * MS, calls += 2) {
        struct gp_event event = {.sent_ns = now_ns - 1000 - gp_random_below(&random, 10 * MS),
                                 .done_ns = now_ns};

        for (int i = 0; i < 2; i++) {
            atomic_store(&r[i].windows.busy, i == 1 && calls > 1300000);
            gp_recorder_record(&r[i], &event,
                               &(struct gp_plan){.intended_ns = event.sent_ns, .measured = true});
            CHECK(r[i].windows.count < 2 * GP_WINDOWS_MOST);
        }
    }
    CHECK(calls == 2 * 864000);
    for (int i = 0; i < 2; i++)
        gp_recorder_end(&r[i], START + 86400 * 1000 * MS);
    CHECK(r[0].window_ns == 1024 * 1000 * MS && r[1].window_ns == 512 * 1000 * MS);
    gp_recorder_merge(&r[0], &r[1]);
    gp_recorder_move(&r[0], &result);
    CHECK(result.windows.count >= GP_WINDOWS_MOST / 2 && result.windows.count < GP_WINDOWS_MOST);
    CHECK(result.window_ns == 86400 * 1000 * MS && result.latency.count == calls && !r[0].out_of_memory);
    for (size_t i = 0; i < result.windows.count; i++) {
        const struct gp_window *window = gp_windows_at(&result.windows, i);

        CHECK(window->start_ns == i * 1024 * 1000 * MS && window->length_ns < 1536 * 1000 * MS);
        calls -= window->ok;
        bytes += window->latencies.size;
    }
    CHECK(calls == 0 && bytes < 1 << 20);
    free_result(&result);
    for (int i = 0; i < 2; i++)
        gp_recorder_fini(&r[i]);
}

int main(void)
{
    test_a_day_takes_no_more_than_minutes();
    test_window_length_follows_duration();
    test_calls_of_warmup_count_only_in_the_window();
    test_drain_counts_only_in_totals();
    test_windows_of_a_stall_are_there_and_empty();
    test_end_on_a_boundary_leaves_no_empty_tail();
    test_threads_add_up_to_one(false);
    test_threads_add_up_to_one(true);
    test_a_short_tail_joins_the_window_before();
    test_a_shorter_record_merges_either_way();
    test_open_loop_counts_from_intended();
    test_closed_loop_keeps_the_peers_queue_apart();
    test_bursts_are_what_left_together();
    return 0;
}
