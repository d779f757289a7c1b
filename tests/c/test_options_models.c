/* options_models: the texts of models and limits. */
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "server/options.h"

static struct gp_options options;
static struct gp_error err;

static bool model(const char *text)
{
    options = (struct gp_options){.stack_bytes = 65536};
    if (gp_options_set_model(&options, text, &err) == 0)
        return true;
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, text) && strstr(err.message, "--model"));
    return false;
}

static const struct gp_limit_options *limit(const char *text)
{
    options = (struct gp_options){0};
    if (gp_options_add_limit(&options, text, &err) == 0) {
        CHECK(options.limit_count == 1);
        return &options.limits[0];
    }
    CHECK(options.limit_count == 0);
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, text) && strstr(err.message, "--limit"));
    return NULL;
}

static void test_models(void)
{
    CHECK(model("async") && options.model == GP_MODEL_ASYNC && options.threads == 0);
    CHECK(model("async:3") && options.threads == 3);
    CHECK(model("thread") && options.model == GP_MODEL_THREAD && options.stack_bytes == 65536);
    CHECK(model("thread:1048576") && options.stack_bytes == 1048576);
    CHECK(model("stream-workers:8") && options.model == GP_MODEL_STREAM_WORKERS && options.workers == 8);
    CHECK(model("stream-workers:0") && options.workers == 0); /* grpc-go's default: none */
    CHECK(model("pool:100:7") && options.model == GP_MODEL_POOL && options.workers == 100 &&
          options.queue == 7);
    CHECK(model("pool:100") && options.queue == 1000);
    CHECK(model("pool:1:0") && options.queue == 0);
}

static void test_models_that_make_no_sense(void)
{
    const char *const bad[] = {
        "",
        "threads",
        "async:",
        "async:0",
        "async:1025",
        "async:1:1",
        "thread:",
        "thread:16383",
        "thread:1:1",
        "stream-workers",
        "stream-workers:-1",
        "pool",
        "pool:0",
        "pool:",
        "pool:10001",
        "pool:1:-1",
        "pool:1:1:1",
        "pool:1:1:1:1",
        "pool:x",
        "pool:1:",
        "pool:1:99999999999",
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(!model(bad[i]));
}

static void test_limits(void)
{
    const struct gp_limit_options *one = limit("semaphore:100");
    CHECK(one && one->kind == GP_LIMIT_SEMAPHORE && one->most == 100);
    one = limit("rate:1500");
    CHECK(one && one->kind == GP_LIMIT_RATE && one->per_s == 1500 && one->burst == 100 && !one->degrade);
    one = limit("rate:0.5:degrade:burst=7");
    CHECK(one && one->per_s == 0.5 && one->burst == 7 && one->degrade);
    one = limit("rate:1e3:burst=1:reject");
    CHECK(one && one->per_s == 1000 && one->burst == 1 && !one->degrade);
    one = limit("prune:50000us");
    CHECK(one && one->kind == GP_LIMIT_PRUNE && one->below_ns == 50000000);
    one = limit("prune:0us");
    CHECK(one && one->below_ns == 0);
}

static void test_limits_that_make_no_sense(void)
{
    const char *const bad[] = {
        "",
        "semaphores:1",
        "semaphore",
        "semaphore:0",
        "semaphore:-1",
        "semaphore:1:1",
        "rate",
        "rate:",
        "rate:0",
        "rate:-1",
        "rate:nan",
        "rate:inf",
        "rate:1e10",
        "rate:1x",
        "rate: 1",
        "rate:1:burst=0",
        "rate:1:burst=",
        "rate:1:drop",
        "rate:1:",
        "rate:1:a:b:c",
        "prune",
        "prune:",
        "prune:us",
        "prune:50ms",
        "prune:50",
        "prune:-1us",
        "prune:1us:",
        "prune:99999999999999999999999999999us",
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(!limit(bad[i]));
}

static void test_several_in_their_order(void)
{
    options = (struct gp_options){0};
    CHECK(gp_options_add_limit(&options, "prune:1us", &err) == 0);
    for (unsigned i = 1; i < GP_OPTIONS_MAX_LIMITS; i++)
        CHECK(gp_options_add_limit(&options, "semaphore:5", &err) == 0);
    CHECK(options.limit_count == GP_OPTIONS_MAX_LIMITS && options.limits[0].kind == GP_LIMIT_PRUNE &&
          options.limits[1].kind == GP_LIMIT_SEMAPHORE);
    CHECK(gp_options_add_limit(&options, "semaphore:5", &err) < 0 && strstr(err.message, "8 limits"));
}

static void test_a_text_without_end(void)
{
    char text[500] = "pool:";
    memset(text + 5, '1', sizeof(text) - 6);
    text[sizeof(text) - 1] = 0;
    options = (struct gp_options){0};
    CHECK(gp_options_set_model(&options, text, &err) < 0);
    CHECK(gp_options_add_limit(&options, text, &err) < 0);
}

int main(void)
{
    test_models();
    test_models_that_make_no_sense();
    test_limits();
    test_limits_that_make_no_sense();
    test_several_in_their_order();
    test_a_text_without_end();
    return 0;
}
