/* The server's command line. */
#include "server/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define DEFAULT_STACK_BYTES (64u << 10)
#define MIN_STACK_BYTES 16384 /* PTHREAD_STACK_MIN */
#define MAX_STACK_BYTES (1l << 30)
#define MAX_THREADS 1024

static int bad(struct gp_error *err, const char *option, const char *value, const char *wanted)
{
    return gp_error_set(err, GP_ERROR_INVALID, "%s: '%s' is not %s", option, value, wanted);
}

/* The whole text as a number within bounds. */
static bool number(const char *text, long low, long high, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return end != text && *end == 0 && errno == 0 && *value >= low && *value <= high;
}

static int set_model(struct gp_options *options, const char *text, struct gp_error *err)
{
    long value;
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length == 5 && memcmp(text, "async", length) == 0) {
        options->model = GP_MODEL_ASYNC;
        if (!colon)
            return 0;
        if (!number(colon + 1, 1, MAX_THREADS, &value))
            return bad(err, "--model", text, "async:THREADS with 1 to 1024 threads");
        options->threads = (unsigned)value;
        return 0;
    }
    if (length == 6 && memcmp(text, "thread", length) == 0) {
        options->model = GP_MODEL_THREAD;
        if (!colon)
            return 0;
        if (!number(colon + 1, MIN_STACK_BYTES, MAX_STACK_BYTES, &value))
            return bad(err, "--model", text, "thread:STACK_BYTES with 16384 bytes to 1 GiB");
        options->stack_bytes = (size_t)value;
        return 0;
    }
    return bad(err, "--model", text, "async[:THREADS] or thread[:STACK_BYTES]");
}

static int add_arg(struct gp_options *options, const char *key, size_t key_length, const char *value,
                   struct gp_error *err)
{
    long numeric;
    if (options->arg_count == GP_OPTIONS_MAX_ARGS)
        return gp_error_set(err, GP_ERROR_INVALID, "more than %d channel arguments", GP_OPTIONS_MAX_ARGS);
    struct gp_channel_arg *arg = &options->args[options->arg_count];
    if (key_length == 0 || key_length >= sizeof(arg->key))
        return bad(err, "--channel-arg", key, "KEY=VALUE with a key of 1 to 95 characters");
    memcpy(arg->key, key, key_length);
    arg->key[key_length] = 0;
    arg->text = NULL;
    if (number(value, INT_MIN, INT_MAX, &numeric))
        arg->number = (int)numeric;
    else
        arg->text = value;
    options->arg_count++;
    return 0;
}

static int set_channel_arg(struct gp_options *options, const char *text, struct gp_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return bad(err, "--channel-arg", text, "KEY=VALUE");
    return add_arg(options, text, (size_t)(equals - text), equals + 1, err);
}

static int set_streams(struct gp_options *options, const char *text, struct gp_error *err)
{
    static const char key[] = "grpc.max_concurrent_streams";
    long value;
    if (!number(text, 1, INT_MAX, &value))
        return bad(err, "--max-concurrent-streams", text, "a number from 1 to 2147483647");
    return add_arg(options, key, sizeof(key) - 1, text, err);
}

static int set_behaviour(struct gp_options *options, const char *text, struct gp_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return bad(err, "--behaviour", text, "KEY=VALUE");
    return gp_behaviour_set(&options->behaviour, text, (size_t)(equals - text), equals + 1,
                            strlen(equals + 1), err);
}

static int set_cpus(struct gp_options *options, const char *text, struct gp_error *err)
{
    const char *rest = text;
    options->cpu_count = 0;
    for (;;) {
        char *end;
        unsigned long cpu = strtoul(rest, &end, 10);
        if (end == rest || *rest == '-' || cpu >= GP_OPTIONS_MAX_CPUS ||
            options->cpu_count == GP_OPTIONS_MAX_CPUS || (*end != 0 && *end != ','))
            return bad(err, "--cpus", text, "a list of CPU numbers like 0,1");
        options->cpus[options->cpu_count++] = (unsigned)cpu;
        if (*end == 0)
            return 0;
        rest = end + 1;
    }
}

static int set_control(struct gp_options *options, const char *text, struct gp_error *err)
{
    long value;
    if (!number(text, 0, INT_MAX, &value))
        return bad(err, "--control", text, "a file descriptor");
    options->control_fd = (int)value;
    return 0;
}

static int set_listen(struct gp_options *options, const char *text, struct gp_error *err)
{
    const char *colon = strrchr(text, ':');
    long port;
    bool unix_path = strncmp(text, "unix:", 5) == 0 && text[5] != 0;
    if (!unix_path && (!colon || colon == text || !number(colon + 1, 0, 65535, &port)))
        return bad(err, "--listen", text, "HOST:PORT with a port from 0 to 65535, or unix:/PATH");
    options->listen = text;
    return 0;
}

int gp_options_parse(struct gp_options *options, int argc, char *const *argv, struct gp_error *err)
{
    static const struct {
        const char *name;
        int (*set)(struct gp_options *options, const char *text, struct gp_error *err);
    } known[] = {
        {"--control", set_control},
        {"--listen", set_listen},
        {"--model", set_model},
        {"--max-concurrent-streams", set_streams},
        {"--channel-arg", set_channel_arg},
        {"--behaviour", set_behaviour},
        {"--cpus", set_cpus},
    };
    *options =
        (struct gp_options){.control_fd = -1, .listen = "127.0.0.1:0", .stack_bytes = DEFAULT_STACK_BYTES};
    gp_behaviour_init(&options->behaviour);
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < sizeof(known) / sizeof(*known) && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof(known) / sizeof(*known))
            return gp_error_set(err, GP_ERROR_INVALID, "unknown argument '%s'", argv[i]);
        if (i + 1 == argc)
            return gp_error_set(err, GP_ERROR_INVALID, "%s needs a value", argv[i]);
        if (known[k].set(options, argv[i + 1], err) < 0)
            return -1;
    }
    return 0;
}
