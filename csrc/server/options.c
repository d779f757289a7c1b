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

static int set_model(void *context, const char *text, struct gp_error *err)
{
    struct gp_options *options = context;
    long value;
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length == 5 && memcmp(text, "async", length) == 0) {
        options->model = GP_MODEL_ASYNC;
        if (!colon)
            return 0;
        if (!gp_arguments_number(colon + 1, 1, MAX_THREADS, &value))
            return gp_arguments_bad(err, "--model", text, "async:THREADS with 1 to 1024 threads");
        options->threads = (unsigned)value;
        return 0;
    }
    if (length == 6 && memcmp(text, "thread", length) == 0) {
        options->model = GP_MODEL_THREAD;
        if (!colon)
            return 0;
        if (!gp_arguments_number(colon + 1, MIN_STACK_BYTES, MAX_STACK_BYTES, &value))
            return gp_arguments_bad(err, "--model", text, "thread:STACK_BYTES with 16384 bytes to 1 GiB");
        options->stack_bytes = (size_t)value;
        return 0;
    }
    return gp_arguments_bad(err, "--model", text, "async[:THREADS] or thread[:STACK_BYTES]");
}

static int add_arg(struct gp_options *options, const char *key, size_t key_length, const char *value,
                   struct gp_error *err)
{
    long numeric;
    if (options->arg_count == GP_OPTIONS_MAX_ARGS)
        return gp_error_set(err, GP_ERROR_INVALID, "more than %d channel arguments", GP_OPTIONS_MAX_ARGS);
    struct gp_channel_arg *arg = &options->args[options->arg_count];
    if (key_length == 0 || key_length >= sizeof(arg->key))
        return gp_arguments_bad(err, "--channel-arg", key, "KEY=VALUE with a key of 1 to 95 characters");
    memcpy(arg->key, key, key_length);
    arg->key[key_length] = 0;
    arg->text = NULL;
    if (gp_arguments_number(value, INT_MIN, INT_MAX, &numeric))
        arg->number = (int)numeric;
    else
        arg->text = value;
    options->arg_count++;
    return 0;
}

static int set_channel_arg(void *context, const char *text, struct gp_error *err)
{
    struct gp_options *options = context;
    const char *equals = strchr(text, '=');
    if (!equals)
        return gp_arguments_bad(err, "--channel-arg", text, "KEY=VALUE");
    return add_arg(options, text, (size_t)(equals - text), equals + 1, err);
}

static int set_streams(void *context, const char *text, struct gp_error *err)
{
    struct gp_options *options = context;
    static const char key[] = "grpc.max_concurrent_streams";
    long value;
    if (!gp_arguments_number(text, 1, INT_MAX, &value))
        return gp_arguments_bad(err, "--max-concurrent-streams", text, "a number from 1 to 2147483647");
    return add_arg(options, key, sizeof(key) - 1, text, err);
}

static int set_behaviour(void *context, const char *text, struct gp_error *err)
{
    struct gp_options *options = context;
    const char *equals = strchr(text, '=');
    if (!equals)
        return gp_arguments_bad(err, "--behaviour", text, "KEY=VALUE");
    return gp_behaviour_set(&options->behaviour, text, (size_t)(equals - text), equals + 1,
                            strlen(equals + 1), err);
}

static int set_tls_cert(void *context, const char *text, struct gp_error *err)
{
    ((struct gp_options *)context)->tls_cert = text;
    return 0;
}

static int set_tls_key(void *context, const char *text, struct gp_error *err)
{
    ((struct gp_options *)context)->tls_key = text;
    return 0;
}

static int set_tls_client_ca(void *context, const char *text, struct gp_error *err)
{
    ((struct gp_options *)context)->tls_client_ca = text;
    return 0;
}

static int check_tls(const struct gp_options *options, struct gp_error *err)
{
    if (!options->tls_cert != !options->tls_key)
        return gp_error_set(err, GP_ERROR_INVALID, "%s needs %s too",
                            options->tls_cert ? "--tls-cert" : "--tls-key",
                            options->tls_cert ? "--tls-key" : "--tls-cert");
    if (options->tls_client_ca && !options->tls_cert)
        return gp_error_set(err, GP_ERROR_INVALID, "--tls-client-ca needs --tls-cert and --tls-key too");
    return 0;
}

static const struct gp_argument known[] = {
    {"--model", set_model},
    {"--max-concurrent-streams", set_streams},
    {"--channel-arg", set_channel_arg},
    {"--behaviour", set_behaviour},
    {"--tls-cert", set_tls_cert},
    {"--tls-key", set_tls_key},
    {"--tls-client-ca", set_tls_client_ca},
    {NULL, NULL},
};

int gp_options_parse(struct gp_options *options, int argc, char *const *argv, struct gp_error *err)
{
    *options = (struct gp_options){.stack_bytes = DEFAULT_STACK_BYTES};
    gp_behaviour_init(&options->behaviour);
    if (gp_arguments_parse(&options->common, argc, argv, known, options, err) < 0)
        return -1;
    return check_tls(options, err);
}
