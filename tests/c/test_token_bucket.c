/* token_bucket: what it lets through, by a clock of the test's own. */
#include "base/clock.h"
#include "base/random.h"
#include "check.h"
#include "server/token_bucket.h"

static struct gp_token_bucket bucket;

static unsigned take_many(unsigned asked, uint64_t now_ns)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < asked; i++)
        taken += gp_token_bucket_take(&bucket, now_ns);
    return taken;
}

static void test_a_burst_and_no_more(void)
{
    gp_token_bucket_init(&bucket, 1000, 5, 77);
    CHECK(take_many(10, 77) == 5);
    CHECK(take_many(10, 77 + GP_NS_PER_MS - 100) == 0);
    CHECK(take_many(10, 77 + GP_NS_PER_MS + 100) == 1);
    CHECK(take_many(10, 77 + 4 * GP_NS_PER_MS + 100) == 3);
}

static void test_what_is_saved_has_a_bound(void)
{
    gp_token_bucket_init(&bucket, 1000, 5, 0);
    CHECK(take_many(100, 3600 * GP_NS_PER_S) == 5);
    CHECK(take_many(100, 7200 * GP_NS_PER_S) == 5);
}

static void test_less_than_one_a_second(void)
{
    gp_token_bucket_init(&bucket, 0.25, 1, 0);
    CHECK(take_many(3, 0) == 1);
    CHECK(take_many(3, 3 * GP_NS_PER_S) == 0);
    CHECK(take_many(3, 4 * GP_NS_PER_S + 1000) == 1);
}

static void test_a_clock_reading_from_before(void)
{
    gp_token_bucket_init(&bucket, 1, 2, GP_NS_PER_S);
    CHECK(take_many(5, 5 * GP_NS_PER_S) == 2);
    CHECK(take_many(5, GP_NS_PER_S) == 0); /* gives nothing, takes nothing back */
    CHECK(take_many(5, 6 * GP_NS_PER_S) == 1);
}

/* In any stretch of time at most rate * time + burst pass; and asked often enough, no fewer than that. */
static void test_long_run(void)
{
    struct gp_random random;
    uint64_t now_ns = 0;
    unsigned taken = 0;
    const double rate = 1500, burst = 100;
    gp_random_init(&random, 11);
    gp_token_bucket_init(&bucket, rate, burst, 0);
    while (now_ns < 20 * GP_NS_PER_S) {
        now_ns += gp_random_below(&random, 400000); /* about 5,000 a second */
        taken += gp_token_bucket_take(&bucket, now_ns);
        CHECK(taken <= rate * (double)now_ns / 1e9 + burst + 1e-3);
    }
    CHECK(taken >= rate * (double)now_ns / 1e9 + burst - 3);
}

int main(void)
{
    test_a_burst_and_no_more();
    test_what_is_saved_has_a_bound();
    test_less_than_one_a_second();
    test_a_clock_reading_from_before();
    test_long_run();
    return 0;
}
