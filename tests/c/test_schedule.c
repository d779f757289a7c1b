/* schedule: intended times to the nanosecond, whatever the rate does, for however long, on however many
 * threads. */
#include "load/schedule.h"

#include <math.h>
#include <stdbool.h>

#include "base/clock.h"
#include "check.h"

#define S GP_NS_PER_S

static struct gp_schedule made(const struct gp_rate_step *steps, size_t count, enum gp_arrival arrival,
                               uint64_t seed)
{
    struct gp_schedule schedule;
    struct gp_schedule_opts opts = {
        .arrival = arrival, .steps = steps, .step_count = count, .seed = seed, .parts = 1};

    gp_schedule_init(&schedule, &opts);
    return schedule;
}

static uint64_t count_until(struct gp_schedule *schedule, uint64_t until_ns)
{
    uint64_t count = 0;

    while (gp_schedule_next_ns(schedule) < until_ns)
        count++;
    return count;
}

static void constant_calls_are_evenly_spaced(void)
{
    static const double rates[] = {1, 3, 7.5, 1000, 9999, 1e6, 123456.789};

    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct gp_rate_step step = {rates[r], rates[r], S};
        struct gp_schedule schedule = made(&step, 1, GP_ARRIVAL_CONSTANT, 0);

        for (uint64_t i = 0; i < 10000; i++) {
            long double exact = (long double)i * 1e9L / (long double)rates[r];

            CHECK(fabsl((long double)gp_schedule_next_ns(&schedule) - exact) <= 0.500001L);
        }
    }
}

/* The 10^9th call, a day and more into the run: seen through a part that has every 10^6th. */
static void errors_do_not_add_up(void)
{
    struct gp_rate_step step = {10007, 10007, S};
    struct gp_schedule schedule;
    struct gp_schedule_opts opts = {
        .arrival = GP_ARRIVAL_CONSTANT, .steps = &step, .step_count = 1, .part = 999999, .parts = 1000000};

    gp_schedule_init(&schedule, &opts);
    for (uint64_t i = 0; i < 1000; i++) {
        long double exact = ((long double)i * 1e6L + 999999) * 1e9L / 10007;

        CHECK(fabsl((long double)gp_schedule_next_ns(&schedule) - exact) <= 0.55L);
    }
}

/* A schedule that summed up rounded gaps would be off by up to half a ns a call. */
static void random_gaps_are_not_rounded_before_they_are_added(void)
{
    struct gp_rate_step step = {1e8, 1e8, S}; /* 10 ns apart */
    struct gp_schedule schedule = made(&step, 1, GP_ARRIVAL_POISSON, 5);
    struct gp_random random;
    long double sum = 0;

    gp_random_init(&random, 5);
    for (int i = 0; i < 1000000; i++) {
        sum += (long double)gp_random_exponential(&random);
        CHECK(fabsl((long double)gp_schedule_next_ns(&schedule) - sum * 10) <= 0.51L);
    }
}

static void a_step_holds_rate_times_length(void)
{
    static const struct gp_rate_step steps[] = {
        {100, 100, 2 * S}, {0, 0, S}, {1000, 1000, S / 2}, {50, 50, S}};
    struct gp_schedule schedule = made(steps, 4, GP_ARRIVAL_CONSTANT, 0);
    uint64_t last_ns = 0;

    for (uint64_t i = 0; i < 200; i++)
        CHECK((last_ns = gp_schedule_next_ns(&schedule)) == i * S / 100);
    CHECK(last_ns < 2 * S);
    for (uint64_t i = 0; i < 500; i++) /* nothing in the pause */
        CHECK(gp_schedule_next_ns(&schedule) == 3 * S + i * S / 1000);
    for (uint64_t i = 0; i < 1000; i++) /* the last rate goes on */
        CHECK(gp_schedule_next_ns(&schedule) == 3 * S + S / 2 + i * S / 50);
}

/* Along a ramp the i-th call is where the integral of the rate is i. */
static void check_ramp(double from_rps, double to_rps)
{
    struct gp_rate_step step = {from_rps, to_rps, 10 * S};
    struct gp_schedule schedule = made(&step, 1, GP_ARRIVAL_CONSTANT, 0);
    uint64_t calls = (uint64_t)((from_rps + to_rps) / 2 * 10), before_ns = 0;

    for (uint64_t i = 0; i < calls; i++) {
        uint64_t at_ns = gp_schedule_next_ns(&schedule);
        long double t = (long double)at_ns / 1e9L;
        long double sum = from_rps * t + (to_rps - from_rps) / 20 * t * t;
        long double rate = from_rps + (to_rps - from_rps) / 10 * t;

        CHECK(at_ns >= before_ns && at_ns <= 10 * S);
        CHECK(fabsl(sum - i) <= 1e-9L * (rate + 1));
        before_ns = at_ns;
    }
    if (to_rps > 0)
        CHECK(gp_schedule_next_ns(&schedule) == 10 * S);
    else
        CHECK(gp_schedule_next_ns(&schedule) == UINT64_MAX);
}

static void ramps_follow_their_line(void)
{
    check_ramp(100, 1000);
    check_ramp(1000, 100);
    check_ramp(0, 500);
    check_ramp(500, 0);
}

static void a_rate_of_nothing_never_comes(void)
{
    static const struct gp_rate_step steps[] = {{0, 0, S}, {10, 10, S}, {0, 0, S}};
    struct gp_schedule schedule = made(steps, 3, GP_ARRIVAL_CONSTANT, 0);

    for (int i = 0; i < 10; i++)
        CHECK(gp_schedule_next_ns(&schedule) == S + (uint64_t)i * S / 10);
    for (int i = 0; i < 3; i++)
        CHECK(gp_schedule_next_ns(&schedule) == UINT64_MAX);
    schedule = made(steps, 1, GP_ARRIVAL_POISSON, 0);
    CHECK(gp_schedule_next_ns(&schedule) == UINT64_MAX);
}

static void parts_are_one_schedule(void)
{
    static const struct gp_rate_step steps[] = {{500, 500, S}, {500, 5000, 2 * S}, {100, 100, S}};

    for (int arrival = GP_ARRIVAL_CONSTANT; arrival <= GP_ARRIVAL_UNIFORM; arrival++) {
        for (uint32_t parts = 1; parts <= 7; parts += 3) {
            struct gp_schedule whole = made(steps, 3, (enum gp_arrival)arrival, 42), part[7];

            for (uint32_t k = 0; k < parts; k++) {
                struct gp_schedule_opts opts = whole.opts;

                opts.part = k;
                opts.parts = parts;
                gp_schedule_init(&part[k], &opts);
            }
            for (uint64_t i = 0; i < 7000; i++)
                CHECK(gp_schedule_next_ns(&part[i % parts]) == gp_schedule_next_ns(&whole));
        }
    }
}

static void seeds_decide(void)
{
    struct gp_rate_step step = {1000, 1000, S};

    for (int arrival = GP_ARRIVAL_POISSON; arrival <= GP_ARRIVAL_UNIFORM; arrival++) {
        struct gp_schedule a = made(&step, 1, (enum gp_arrival)arrival, 1),
                           b = made(&step, 1, (enum gp_arrival)arrival, 1),
                           c = made(&step, 1, (enum gp_arrival)arrival, 2);
        int same = 0;

        for (int i = 0; i < 1000; i++) {
            uint64_t at_ns = gp_schedule_next_ns(&a);

            CHECK(gp_schedule_next_ns(&b) == at_ns);
            same += gp_schedule_next_ns(&c) == at_ns;
        }
        CHECK(same < 10);
    }
}

/* Mean and variance of the gaps: exponential 1 and 1, uniform 1 and 1/3; each within 5 standard errors. */
static void gaps_are_distributed_as_they_are_called(void)
{
    enum { N = 200000 };
    struct gp_rate_step step = {1000, 1000, S};

    for (int arrival = GP_ARRIVAL_POISSON; arrival <= GP_ARRIVAL_UNIFORM; arrival++) {
        struct gp_schedule schedule = made(&step, 1, (enum gp_arrival)arrival, 7);
        bool poisson = arrival == GP_ARRIVAL_POISSON;
        double variance = poisson ? 1 : 1.0 / 3, sum = 0, squares = 0, longest = 0;
        uint64_t before_ns = 0;

        for (int i = 0; i < N; i++) {
            uint64_t at_ns = gp_schedule_next_ns(&schedule);
            double gap = (double)(at_ns - before_ns) / 1e6;

            sum += gap;
            squares += (gap - 1) * (gap - 1);
            longest = gap > longest ? gap : longest;
            before_ns = at_ns;
        }
        CHECK(fabs(sum / N - 1) < 5 * sqrt(variance / N));
        CHECK(fabs(squares / N - variance) < 5 * sqrt((poisson ? 8 : 4.0 / 45) / N));
        CHECK(poisson ? longest > 8 : longest <= 2);
    }
}

/* Numbers in stretches of a Poisson process have a variance equal to their mean, also along a ramp. */
static void poisson_counts_scatter_as_they_should(void)
{
    enum { RUNS = 2000 };
    static const struct gp_rate_step steps[] = {{100, 300, S}, {100, 100, S}};
    double sum = 0, squares = 0;

    for (uint64_t seed = 0; seed < RUNS; seed++) {
        struct gp_schedule schedule = made(steps, 2, GP_ARRIVAL_POISSON, seed);
        double count = (double)count_until(&schedule, 2 * S);

        sum += count;
        squares += (count - 300) * (count - 300);
    }
    CHECK(fabs(sum / RUNS - 300) < 5 * sqrt(300.0 / RUNS));
    CHECK(fabs(squares / RUNS / 300 - 1) < 5 * sqrt(2.0 / RUNS));
}

int main(void)
{
    constant_calls_are_evenly_spaced();
    errors_do_not_add_up();
    random_gaps_are_not_rounded_before_they_are_added();
    a_step_holds_rate_times_length();
    ramps_follow_their_line();
    a_rate_of_nothing_never_comes();
    parts_are_one_schedule();
    seeds_decide();
    gaps_are_distributed_as_they_are_called();
    poisson_counts_scatter_as_they_should();
    return 0;
}
