/* behaviour: every name, its bounds, and what is refused. */
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "server/behaviour.h"

static struct gp_error err;

static int set(struct gp_behaviour *behaviour, const char *key, const char *value)
{
    return gp_behaviour_set(behaviour, key, strlen(key), value, strlen(value), &err);
}

static void test_each_name(void)
{
    struct gp_behaviour b;
    gp_behaviour_init(&b);
    CHECK(!b.asked && b.observe_cancel && !b.hold);
    CHECK(set(&b, "grpcperf-observe-cancel", "0") == 0 && !b.observe_cancel && !b.asked);
    CHECK(set(&b, "grpcperf-delay-us", "1500") == 0 && b.delay_ns == 1500000 && b.asked);
    CHECK(set(&b, "grpcperf-busy-us", "7") == 0 && b.busy_ns == 7000);
    CHECK(set(&b, "grpcperf-message-delay-us", "250") == 0 && b.message_delay_ns == 250000);
    CHECK(set(&b, "grpcperf-alloc-bytes", "4096") == 0 && b.alloc_bytes == 4096);
    CHECK(set(&b, "grpcperf-status", "16") == 0 && b.status == 16);
    CHECK(set(&b, "grpcperf-hold", "1") == 0 && b.hold);
    CHECK(set(&b, "hold", "0") == 0 && !b.hold); /* as --behaviour spells it; the later one counts */
}

static void test_asked_follows(void)
{
    struct gp_behaviour b;
    gp_behaviour_init(&b);
    CHECK(set(&b, "hold", "2") == 0 && b.hold && b.asked);
    CHECK(set(&b, "hold", "1") == 0 && b.asked);
    CHECK(set(&b, "hold", "0") == 0 && !b.asked);
}

static void test_bounds(void)
{
    struct gp_behaviour b;
    gp_behaviour_init(&b);
    CHECK(set(&b, "hold", "3") < 0 && err.code == GP_ERROR_INVALID);
    CHECK(set(&b, "status", "17") < 0);
    CHECK(set(&b, "delay-us", "86400000000") == 0 && b.delay_ns == UINT64_C(86400000000000));
    CHECK(set(&b, "delay-us", "86400000001") < 0);
    CHECK(set(&b, "delay-us", "99999999999999999999999") < 0); /* no overflow */
    CHECK(set(&b, "alloc-bytes", "1099511627777") < 0);
    CHECK(b.delay_ns == UINT64_C(86400000000000)); /* what is refused changes nothing */
}

static void test_nonsense(void)
{
    struct gp_behaviour b;
    gp_behaviour_init(&b);
    CHECK(set(&b, "delay-us", "") < 0);
    CHECK(set(&b, "delay-us", "-1") < 0);
    CHECK(set(&b, "delay-us", "1.5") < 0);
    CHECK(strstr(err.message, "grpcperf-delay-us") && strstr(err.message, "'1.5'"));
    CHECK(set(&b, "delay", "1") < 0 && strstr(err.message, "grpcperf-delay"));
    CHECK(set(&b, "", "1") < 0);
    CHECK(!gp_behaviour_is_key("grpcperf-", 9));
    CHECK(!gp_behaviour_is_key("grpc-timeout", 12));
    CHECK(gp_behaviour_is_key("grpcperf-x", 10));
}

int main(void)
{
    test_each_name();
    test_asked_follows();
    test_bounds();
    test_nonsense();
    return 0;
}
