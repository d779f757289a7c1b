/* The server's command line. */
#include "server/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define DEFAULT_STACK_BYTES (64u << 10)
#define MAX_TCP_S 32767 /* the kernel's bounds */
#define MAX_TCP_PROBES 127

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

/* Options whose value is taken as it is. */
#define TEXT_OPTION(field)                                                                                   \
    static int set_##field(void *context, const char *text, struct gp_error *err)                            \
    {                                                                                                        \
        ((struct gp_options *)context)->field = text;                                                        \
        return 0;                                                                                            \
    }
TEXT_OPTION(tls_cert)
TEXT_OPTION(tls_key)
TEXT_OPTION(tls_client_ca)
TEXT_OPTION(forward)
TEXT_OPTION(forward_authority)
TEXT_OPTION(forward_ca)
TEXT_OPTION(forward_cert)
TEXT_OPTION(forward_key)
TEXT_OPTION(forward_tls_name)

static int set_forward_tls(void *context, const char *text, struct gp_error *err)
{
    struct gp_options *options = context;
    options->forward_tls = true;
    options->forward_verify = strcmp(text, "verify") == 0;
    if (!options->forward_verify && strcmp(text, "any") != 0)
        return gp_arguments_bad(err, "--forward-tls", text, "verify, or any: whatever certificate it has");
    return 0;
}

/* Three numbers of which 0 leaves that one to the kernel. */
static int set_tcp_keepalive(void *context, const char *text, struct gp_error *err)
{
    struct gp_tcp_keepalive *tcp = &((struct gp_options *)context)->tcp_keepalive;
    char rest;
    tcp->on = true;
    if (sscanf(text, "%5d:%5d:%3d%c", &tcp->idle_s, &tcp->interval_s, &tcp->probes, &rest) != 3 ||
        tcp->idle_s < 0 || tcp->idle_s > MAX_TCP_S || tcp->interval_s < 0 || tcp->interval_s > MAX_TCP_S ||
        tcp->probes < 0 || tcp->probes > MAX_TCP_PROBES)
        return gp_arguments_bad(err, "--tcp-keepalive", text,
                                "IDLE_S:INTERVAL_S:PROBES with up to 32767 s and 127 probes");
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

static int check_forward(const struct gp_options *options, struct gp_error *err)
{
    if (!options->forward && (options->forward_authority || options->forward_tls))
        return gp_error_set(err, GP_ERROR_INVALID, "--forward-... needs --forward too");
    if (!options->forward_tls &&
        (options->forward_ca || options->forward_cert || options->forward_key || options->forward_tls_name))
        return gp_error_set(err, GP_ERROR_INVALID, "--forward-tls-... needs --forward-tls too");
    if (!options->forward_cert != !options->forward_key)
        return gp_error_set(err, GP_ERROR_INVALID,
                            "--forward-tls-cert and --forward-tls-key need each other");
    return 0;
}

static const struct gp_argument known[] = {
    {"--model", gp_options_set_model},
    {"--limit", gp_options_add_limit},
    {"--max-concurrent-streams", set_streams},
    {"--channel-arg", set_channel_arg},
    {"--behaviour", set_behaviour},
    {"--tls-cert", set_tls_cert},
    {"--tls-key", set_tls_key},
    {"--tls-client-ca", set_tls_client_ca},
    {"--forward", set_forward},
    {"--forward-authority", set_forward_authority},
    {"--forward-tls", set_forward_tls},
    {"--forward-tls-ca", set_forward_ca},
    {"--forward-tls-cert", set_forward_cert},
    {"--forward-tls-key", set_forward_key},
    {"--forward-tls-name", set_forward_tls_name},
    {"--tcp-keepalive", set_tcp_keepalive},
    {NULL, NULL},
};

int gp_options_parse(struct gp_options *options, int argc, char *const *argv, struct gp_error *err)
{
    *options = (struct gp_options){.stack_bytes = DEFAULT_STACK_BYTES};
    gp_behaviour_init(&options->behaviour);
    if (gp_arguments_parse(&options->common, argc, argv, known, options, err) < 0)
        return -1;
    return check_tls(options, err) < 0 ? -1 : check_forward(options, err);
}
