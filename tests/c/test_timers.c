/* timers: told once, never early, in order; not at all when taken out. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "server/stacks.h"
#include "server/timers.h"

#define MANY 500

static struct gp_stacks stacks;
static struct gp_timers timers;
static struct gp_timer many[MANY];
static atomic_uint told, early, unordered;
static uint64_t last_ns; /* the timer thread's */

static void due(struct gp_timer *timer)
{
    if (gp_clock_now_ns() < timer->at_ns)
        atomic_fetch_add(&early, 1);
    if (timer->at_ns < last_ns)
        atomic_fetch_add(&unordered, 1);
    last_ns = timer->at_ns;
    atomic_fetch_add(&told, 1);
}

static void wait_for(unsigned count)
{
    uint64_t until_ns = gp_clock_now_ns() + 10 * GP_NS_PER_S;
    while (atomic_load(&told) < count) {
        CHECK(gp_clock_now_ns() < until_ns);
        usleep(500);
    }
}

static void test_order(void)
{
    /* Far enough ahead for all to be in before the first is due; the latest first, so that each is the new
     * top. */
    uint64_t start_ns = gp_clock_now_ns() + 200 * GP_NS_PER_MS;
    for (unsigned i = 0; i < MANY; i++)
        CHECK(gp_timers_add(&timers, &many[i], start_ns + (MANY - i) * 20 * GP_NS_PER_US) == 0);
    wait_for(MANY);
    CHECK(early == 0 && unordered == 0 && told == MANY);
}

static void test_removed(void)
{
    uint64_t at_ns = gp_clock_now_ns() + 100 * GP_NS_PER_MS;
    unsigned before = told;
    for (unsigned i = 0; i < 4; i++)
        CHECK(gp_timers_add(&timers, &many[i], at_ns + i) == 0);
    CHECK(gp_timers_remove(&timers, &many[0]) && gp_timers_remove(&timers, &many[2]));
    CHECK(!gp_timers_remove(&timers, &many[0]));
    wait_for(before + 2);
    usleep(20000);
    CHECK(told == before + 2);
    CHECK(!gp_timers_remove(&timers, &many[1])); /* was told */
}

/* An earlier one wakes the thread that sleeps for a later one. */
static void test_earlier(void)
{
    unsigned before = told;
    uint64_t now_ns = gp_clock_now_ns();
    last_ns = 0;
    CHECK(gp_timers_add(&timers, &many[0], now_ns + 3600 * GP_NS_PER_S) == 0);
    usleep(20000);
    CHECK(gp_timers_add(&timers, &many[1], gp_clock_now_ns()) == 0);
    wait_for(before + 1);
    CHECK(gp_timers_remove(&timers, &many[0]));
}

int main(void)
{
    gp_stacks_init(&stacks);
    CHECK(gp_timers_start(&timers, &stacks, due) == 0);
    test_order();
    test_removed();
    test_earlier();
    return 0;
}
