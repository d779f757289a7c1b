/* The server's command line. Pure. */
#ifndef GP_SERVER_OPTIONS_H
#define GP_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/socket.h"
#include "process/arguments.h"
#include "server/behaviour.h"

struct gp_error;

#define GP_OPTIONS_MAX_ARGS 64

#define GP_OPTIONS_MAX_LIMITS 8

enum gp_model_kind { GP_MODEL_ASYNC, GP_MODEL_THREAD, GP_MODEL_STREAM_WORKERS, GP_MODEL_POOL };
enum gp_limit_kind { GP_LIMIT_SEMAPHORE, GP_LIMIT_RATE, GP_LIMIT_PRUNE };

struct gp_limit_options {
    enum gp_limit_kind kind;
    unsigned most; /* semaphore: handlers at a time */
    double per_s;  /* rate */
    unsigned burst;
    bool degrade;
    uint64_t below_ns; /* prune */
};

struct gp_channel_arg {
    char key[96];
    const char *text; /* NULL: the number counts */
    int number;
};

struct gp_options {
    struct gp_arguments common;
    enum gp_model_kind model;
    unsigned threads;   /* completion queues with a thread each; 0: as many as there are usable CPUs */
    size_t stack_bytes; /* of a call's thread */
    unsigned workers;   /* threads of StreamWorkers or Pool */
    unsigned queue;     /* calls that may wait for one of a Pool */
    struct gp_limit_options limits[GP_OPTIONS_MAX_LIMITS]; /* in this order */
    unsigned limit_count;
    struct gp_channel_arg args[GP_OPTIONS_MAX_ARGS];
    size_t arg_count;
    struct gp_behaviour behaviour;
    const char *tls_cert, *tls_key; /* files in PEM form; NULL: plaintext */
    const char *tls_client_ca;      /* whose certificates clients must have; NULL: they need none */
    const char *forward;            /* the next server; NULL: none */
    const char *forward_authority;  /* in place of its address */
    bool forward_tls, forward_verify;
    const char *forward_ca, *forward_cert, *forward_key; /* as tls_*; NULL ca: the system's */
    const char *forward_tls_name;                        /* what its certificate must be for */
    struct gp_tcp_keepalive tcp_keepalive;
};

#define GP_OPTIONS_USAGE                                                                                     \
    "usage: grpcperf-server " GP_ARGUMENTS_USAGE "\n"                                                        \
    "       [--model async[:THREADS] | thread[:STACK_BYTES] | stream-workers:N | pool:N[:QUEUE]]\n"          \
    "       [--limit semaphore:N | rate:PER_S[:burst=N][:reject | :degrade] | prune:Nus]...\n"               \
    "       [--max-concurrent-streams N]\n"                                                                  \
    "       [--channel-arg KEY=NUMBER | KEY=TEXT]... [--behaviour KEY=VALUE]...\n"                           \
    "       [--tls-cert FILE --tls-key FILE [--tls-client-ca FILE]]\n"                                       \
    "       [--tcp-keepalive IDLE_S:INTERVAL_S:PROBES] [--forward HOST:PORT | unix:/PATH\n"                  \
    "       [--forward-authority TEXT] [--forward-tls verify | any [--forward-tls-ca FILE]\n"                \
    "       [--forward-tls-cert FILE --forward-tls-key FILE] [--forward-tls-name NAME]]]\n"

/* Of these arguments (options_models.c): GP_ERROR_INVALID names the text and what there is. */
int gp_options_set_model(void *options, const char *text, struct gp_error *err);
int gp_options_add_limit(void *options, const char *text, struct gp_error *err);

/* GP_ERROR_INVALID names the argument. Keeps pointers into argv. */
int gp_options_parse(struct gp_options *options, int argc, char *const *argv, struct gp_error *err);

#endif
