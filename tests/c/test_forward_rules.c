/* forward_rules: what of a call's metadata goes on to the next server. */
#include <string.h>

#include "check.h"
#include "server/forward_rules.h"

static bool passes(const char *key)
{
    return gp_forward_passes(key, strlen(key));
}

static void test_a_users_own_goes_on(void)
{
    CHECK(passes("x-tenant"));
    CHECK(passes("trace-bin"));
    CHECK(passes("authorization"));
    CHECK(passes("grpcperf")); /* no name of ours: there is nothing behind the prefix */
    CHECK(passes("te-x") && passes("t") && passes("user-agent2"));
}

static void test_what_is_of_one_hop_does_not(void)
{
    CHECK(!passes("grpcperf-delay-us") && !passes("grpcperf-anything"));
    CHECK(!passes("grpc-timeout") && !passes("grpc-encoding") && !passes("grpc-"));
    CHECK(!passes(":path") && !passes(":authority"));
    CHECK(!passes("te") && !passes("user-agent") && !passes("content-type") && !passes("accept-encoding"));
    CHECK(!passes(""));
}

/* Keys come from the wire with a length and no end. */
static void test_only_the_length_counts(void)
{
    CHECK(!gp_forward_passes("text", 2));
    CHECK(gp_forward_passes("grpc-timeout", 4));
    CHECK(gp_forward_passes("grpcperf-hold", 9));
    CHECK(!gp_forward_passes("grpcperf-hold", 10));
}

int main(void)
{
    test_a_users_own_goes_on();
    test_what_is_of_one_hop_does_not();
    test_only_the_length_counts();
    return 0;
}
