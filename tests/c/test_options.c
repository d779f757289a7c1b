/* options: the command line, argument by argument. */
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "server/options.h"

static struct gp_options options;
static struct gp_error err;

#define PARSE(...)                                                                                           \
    parse((const char *[]){"grpcperf-server", __VA_ARGS__},                                                  \
          sizeof((const char *[]){"grpcperf-server", __VA_ARGS__}) / sizeof(char *))

static int parse(const char *const *argv, size_t count)
{
    memset(&options, 0xa5, sizeof(options));
    return gp_options_parse(&options, (int)count, (char *const *)argv, &err);
}

/* Refused, and the message shows what was wrong. */
static bool refused(const char *option, const char *value)
{
    return PARSE(option, value) < 0 && err.code == GP_ERROR_INVALID && strstr(err.message, value);
}

static void test_defaults(void)
{
    const char *argv[] = {"grpcperf-server"};
    CHECK(parse(argv, 1) == 0);
    CHECK(options.common.control_fd == -1 && strcmp(options.common.listen, "127.0.0.1:0") == 0);
    CHECK(options.model == GP_MODEL_ASYNC && options.threads == 0 && options.stack_bytes == 65536);
    CHECK(options.arg_count == 0 && options.common.cpu_count == 0 && !options.behaviour.asked &&
          !options.tls_cert);
    CHECK(options.behaviour.observe_cancel);
}

static void test_models_and_limits(void)
{
    CHECK(PARSE("--model", "thread:1048576", "--limit", "semaphore:2", "--limit", "prune:1us") == 0);
    CHECK(options.model == GP_MODEL_THREAD && options.stack_bytes == 1048576);
    CHECK(options.limit_count == 2 && options.limits[0].most == 2 && options.limits[1].below_ns == 1000);
    CHECK(refused("--model", "async:0")); /* more of them in test_options_models.c */
    CHECK(refused("--limit", "semaphore:0"));
}

static void test_channel_args(void)
{
    CHECK(PARSE("--channel-arg", "grpc.http2.bdp_probe=0", "--channel-arg", "a=b=c", "--channel-arg", "n=-5",
                "--max-concurrent-streams", "100") == 0);
    CHECK(options.arg_count == 4);
    CHECK(strcmp(options.args[0].key, "grpc.http2.bdp_probe") == 0);
    CHECK(!options.args[0].text && options.args[0].number == 0);
    CHECK(strcmp(options.args[1].key, "a") == 0 && strcmp(options.args[1].text, "b=c") == 0);
    CHECK(!options.args[2].text && options.args[2].number == -5);
    CHECK(strcmp(options.args[3].key, "grpc.max_concurrent_streams") == 0 && options.args[3].number == 100);
    CHECK(PARSE("--channel-arg", "big=2147483648") == 0 &&
          options.args[0].text); /* C core's numbers are int */
    CHECK(refused("--channel-arg", "novalue"));
    CHECK(refused("--channel-arg", "=1"));
    CHECK(refused("--max-concurrent-streams", "0"));
}

static void test_too_many_channel_args(void)
{
    const char *argv[1 + 2 * (GP_OPTIONS_MAX_ARGS + 1)] = {"grpcperf-server"};
    for (size_t i = 0; i <= GP_OPTIONS_MAX_ARGS; i++) {
        argv[1 + 2 * i] = "--channel-arg";
        argv[2 + 2 * i] = "k=1";
    }
    CHECK(parse(argv, 1 + 2 * GP_OPTIONS_MAX_ARGS) == 0 && options.arg_count == GP_OPTIONS_MAX_ARGS);
    CHECK(parse(argv, 1 + 2 * (GP_OPTIONS_MAX_ARGS + 1)) < 0);
}

static void test_others(void)
{
    CHECK(PARSE("--control", "3", "--cpus", "0,2,5") == 0);
    CHECK(options.common.control_fd == 3 && options.common.cpu_count == 3 && options.common.cpus[2] == 5);
    CHECK(PARSE("--behaviour", "delay-us=10", "--behaviour", "grpcperf-hold=1") == 0);
    CHECK(options.behaviour.delay_ns == 10000 && options.behaviour.hold);
    CHECK(PARSE("--listen", "unix:/tmp/x") == 0 && strcmp(options.common.listen, "unix:/tmp/x") == 0);
    CHECK(PARSE("--listen", "[::1]:50051") == 0);
    CHECK(refused("--listen", "127.0.0.1"));
    CHECK(refused("--listen", "127.0.0.1:65536"));
    CHECK(refused("--listen", ":1"));
    CHECK(refused("--listen", "unix:"));
    CHECK(refused("--control", "x"));
    CHECK(refused("--control", "-1"));
    CHECK(refused("--cpus", "0,"));
    CHECK(refused("--cpus", "-1"));
    CHECK(refused("--cpus", "1024"));
    CHECK(refused("--cpus", "0-3"));
    CHECK(PARSE("--behaviour", "hold") < 0 && PARSE("--behaviour", "nap=1") < 0);
}

static void test_tls(void)
{
    CHECK(PARSE("--tls-cert", "a", "--tls-key", "b") == 0);
    CHECK(strcmp(options.tls_cert, "a") == 0 && strcmp(options.tls_key, "b") == 0 && !options.tls_client_ca);
    CHECK(PARSE("--tls-key", "b", "--tls-client-ca", "c", "--tls-cert", "a") == 0);
    CHECK(strcmp(options.tls_client_ca, "c") == 0);
    CHECK(PARSE("--tls-cert", "a") < 0 && strstr(err.message, "--tls-cert needs --tls-key"));
    CHECK(PARSE("--tls-key", "a") < 0 && strstr(err.message, "--tls-key needs --tls-cert"));
    CHECK(PARSE("--tls-client-ca", "c") < 0 && strstr(err.message, "--tls-client-ca"));
}

static void test_forward(void)
{
    CHECK(PARSE("--listen", "127.0.0.1:0") == 0 && !options.forward && !options.tcp_keepalive.on);
    CHECK(PARSE("--forward", "a:1", "--forward-authority", "b") == 0 && !options.forward_tls);
    CHECK(strcmp(options.forward, "a:1") == 0 && strcmp(options.forward_authority, "b") == 0);
    CHECK(PARSE("--forward", "a:1", "--forward-tls", "verify", "--forward-tls-ca", "c", "--forward-tls-name",
                "n") == 0);
    CHECK(options.forward_tls && options.forward_verify && strcmp(options.forward_ca, "c") == 0 &&
          strcmp(options.forward_tls_name, "n") == 0);
    CHECK(PARSE("--forward-tls", "any", "--forward-tls-key", "k", "--forward-tls-cert", "c", "--forward",
                "a:1") == 0);
    CHECK(options.forward_tls && !options.forward_verify && strcmp(options.forward_key, "k") == 0);
    CHECK(refused("--forward-tls", "maybe"));
    CHECK(PARSE("--forward-tls", "any") < 0 && strstr(err.message, "needs --forward "));
    CHECK(PARSE("--forward-authority", "b") < 0 && strstr(err.message, "needs --forward "));
    CHECK(PARSE("--forward", "a:1", "--forward-tls-ca", "c") < 0 &&
          strstr(err.message, "needs --forward-tls "));
    CHECK(PARSE("--forward", "a:1", "--forward-tls", "any", "--forward-tls-cert", "c") < 0);
}

static void test_tcp_keepalive(void)
{
    CHECK(PARSE("--tcp-keepalive", "60:10:3") == 0 && options.tcp_keepalive.on);
    CHECK(options.tcp_keepalive.idle_s == 60 && options.tcp_keepalive.interval_s == 10 &&
          options.tcp_keepalive.probes == 3);
    CHECK(PARSE("--tcp-keepalive", "32767:0:127") == 0 && options.tcp_keepalive.interval_s == 0);
    CHECK(refused("--tcp-keepalive", "32768:1:1"));
    CHECK(refused("--tcp-keepalive", "1:32768:1"));
    CHECK(refused("--tcp-keepalive", "1:1:128"));
    CHECK(refused("--tcp-keepalive", "-1:1:1"));
    CHECK(refused("--tcp-keepalive", "1:1"));
    CHECK(refused("--tcp-keepalive", "1:1:1x"));
}

static void test_unknown(void)
{
    CHECK(PARSE("--port", "1") < 0 && strstr(err.message, "--port"));
    CHECK(PARSE("--listen") < 0 && strstr(err.message, "needs a value"));
}

int main(void)
{
    test_defaults();
    test_models_and_limits();
    test_channel_args();
    test_too_many_channel_args();
    test_others();
    test_tls();
    test_forward();
    test_tcp_keepalive();
    test_unknown();
    return 0;
}
