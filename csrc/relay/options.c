/* options: numbers in ns and bytes, for it is a program that gives them. */
#include "relay/options.h"

#include <limits.h>

#include "base/clock.h"
#include "base/error.h"

#define MOST_NS (long)(60 * GP_NS_PER_S)

static int set_number(const char *name, const char *text, long high, uint64_t *number, struct gp_error *err)
{
    long value;

    if (!gp_arguments_number(text, 0, high, &value))
        return gp_arguments_bad(err, name, text, "a number within bounds");
    *number = (uint64_t)value;
    return 0;
}

static int set_target(void *context, const char *text, struct gp_error *err)
{
    return gp_endpoint_parse(text, &((struct gp_relay_options *)context)->target, err);
}

static int set_delay(void *context, const char *text, struct gp_error *err)
{
    return set_number("--delay", text, MOST_NS, &((struct gp_relay_options *)context)->link.delay_ns, err);
}

static int set_jitter(void *context, const char *text, struct gp_error *err)
{
    return set_number("--jitter", text, MOST_NS, &((struct gp_relay_options *)context)->link.jitter_ns, err);
}

static int set_rate(void *context, const char *text, struct gp_error *err)
{
    return set_number("--rate", text, LONG_MAX, &((struct gp_relay_options *)context)->link.rate, err);
}

static int set_idle(void *context, const char *text, struct gp_error *err)
{
    return set_number("--idle", text, LONG_MAX, &((struct gp_relay_options *)context)->link.idle_ns, err);
}

static int set_seed(void *context, const char *text, struct gp_error *err)
{
    return set_number("--seed", text, LONG_MAX, &((struct gp_relay_options *)context)->link.seed, err);
}

int gp_relay_options_parse(struct gp_relay_options *options, int argc, char *const *argv,
                           struct gp_error *err)
{
    static const struct gp_argument own[] = {
        {"--target", set_target},
        {"--delay", set_delay},
        {"--jitter", set_jitter},
        {"--rate", set_rate},
        {"--idle", set_idle},
        {"--seed", set_seed},
        {NULL, NULL},
    };

    *options = (struct gp_relay_options){0};
    if (gp_arguments_parse(&options->arguments, argc, argv, own, options, err) < 0)
        return -1;
    if (options->target.size == 0)
        return gp_error_set(err, GP_ERROR_INVALID, "--target is missing");
    return 0;
}
