/* options of the relay: each argument, and what is refused in words that name it. */
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "relay/options.h"

static struct gp_relay_options options;
static struct gp_error err;

static int parse(const char *first, const char *second, const char *third, const char *fourth)
{
    const char *argv[] = {"grpcperf-relay", first, second, third, fourth};

    return gp_relay_options_parse(&options, third ? 5 : 3, (char *const *)argv, &err);
}

static bool refused(const char *name, const char *value)
{
    return parse("--target", "ipv4:127.0.0.1:1", name, value) < 0 && err.code == GP_ERROR_INVALID &&
           (strstr(err.message, name) || strstr(err.message, value));
}

int main(void)
{
    CHECK(parse("--target", "ipv4:127.0.0.1:50051", NULL, NULL) == 0);
    CHECK(options.target.address.ss_family == AF_INET && options.link.delay_ns == 0 &&
          options.link.rate == 0);
    CHECK(strcmp(options.arguments.listen, "127.0.0.1:0") == 0);
    CHECK(parse("--target", "unix:/tmp/x", "--delay", "10000000") == 0 && options.link.delay_ns == 10000000);
    CHECK(options.target.address.ss_family == AF_UNIX);
    CHECK(parse("--rate", "12500000", "--target", "ipv6:[::1]:1") == 0 && options.link.rate == 12500000);
    CHECK(parse("--jitter", "5", "--target", "ipv6:[::1]:1") == 0 && options.link.jitter_ns == 5);
    CHECK(parse("--idle", "6", "--target", "ipv6:[::1]:1") == 0 && options.link.idle_ns == 6);
    CHECK(parse("--seed", "7", "--target", "ipv6:[::1]:1") == 0 && options.link.seed == 7);
    CHECK(parse("--delay", "1", NULL, NULL) < 0 && strstr(err.message, "--target"));
    CHECK(refused("--target", "127.0.0.1:1") && refused("--delay", "-1") && refused("--delay", "10ms"));
    CHECK(refused("--jitter", "60000000001") && refused("--rate", "") && refused("--idle", "x"));
    CHECK(refused("--seed", "-1") && refused("--width", "1"));
    return 0;
}
