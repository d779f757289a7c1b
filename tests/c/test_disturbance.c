/* disturbance: the kernel's texts as they are, and shares that make sense. */
#include "load/disturbance.h"

#include <string.h>

#include "base/clock.h"
#include "check.h"

static void texts_are_parsed(void)
{
    uint64_t stolen, all, pressure;

    CHECK(gp_disturbance_parse_stat("cpu  10 1 20 300 4 0 5 60 7 8\ncpu0 1 2 3\n", &stolen, &all));
    CHECK(stolen == 60 && all == 400); /* guest time is inside user time */
    CHECK(!gp_disturbance_parse_stat("cpu  10 1 20", &stolen, &all));
    CHECK(!gp_disturbance_parse_stat("intr 5", &stolen, &all));
    CHECK(gp_disturbance_parse_pressure("some avg10=1.50 avg60=0.00 avg300=0.00 total=12345\n"
                                        "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
                                        &pressure));
    CHECK(pressure == 12345);
    CHECK(!gp_disturbance_parse_pressure("full avg10=0.00 total=9\n", &pressure));
    CHECK(!gp_disturbance_parse_pressure("some avg10=0.00\n", &pressure));
}

static void shares_are_of_what_passed_between(void)
{
    struct gp_disturbance a = {GP_NS_PER_S, true, true, 100, 1000, 500000};
    struct gp_disturbance b = {3 * GP_NS_PER_S, true, true, 105, 1400, 1000000}, unknown = {0};
    double share;

    CHECK(gp_disturbance_steal(&a, &b, &share) && share == 5.0 / 400);
    CHECK(gp_disturbance_pressure(&a, &b, &share) && share == 0.25);
    CHECK(!gp_disturbance_steal(&a, &a, &share) && !gp_disturbance_pressure(&a, &a, &share));
    CHECK(!gp_disturbance_steal(&unknown, &b, &share) && !gp_disturbance_pressure(&a, &unknown, &share));
    b.pressure_us = 9000000;
    CHECK(gp_disturbance_pressure(&a, &b, &share) && share == 1);
}

/* Busy for 0.1 s: this machine has passed ticks, and the reading itself says what it knows. */
static void this_machine_is_read(void)
{
    struct gp_disturbance before, after;
    uint64_t until_ns;
    double share;

    gp_disturbance_read(&before);
    until_ns = gp_clock_now_ns() + 100 * GP_NS_PER_MS;
    while (gp_clock_now_ns() < until_ns)
        continue;
    gp_disturbance_read(&after);
    CHECK(before.ticks_known && after.ticks_known);
    CHECK(gp_disturbance_steal(&before, &after, &share) && share >= 0 && share <= 1);
    if (after.pressure_known)
        CHECK(gp_disturbance_pressure(&before, &after, &share) && share >= 0 && share <= 1);
}

int main(void)
{
    texts_are_parsed();
    shares_are_of_what_passed_between();
    this_machine_is_read();
    return 0;
}
