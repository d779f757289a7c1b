/* What stands between a call and its handler, in the order in which it was asked for. Each kind of limit is a
 * row of a table: it lets a call pass, makes it wait, refuses it or has it answered at once. Under the models
 * that give each call a thread, that thread waits too, as a goroutine does before a semaphore in an
 * interceptor of grpc-go; under the others a call that waits is memory alone. */
#ifndef GP_SERVER_LIMIT_H
#define GP_SERVER_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/fifo.h"
#include "server/options.h"
#include "server/token_bucket.h"

struct gp_call;
struct gp_limit_table;

enum gp_passage {
    GP_PASSAGE_FREE,
    GP_PASSAGE_WAIT,   /* GP_EVENT_WOKEN comes when it may go on */
    GP_PASSAGE_REFUSE, /* with the limit's status and reason */
    GP_PASSAGE_DEGRADE /* a cheap answer instead of the handler's */
};

struct gp_limit {
    const struct gp_limit_table *table;
    pthread_mutex_t lock;
    uint64_t most, taken; /* semaphore: its slots */
    struct gp_fifo waiting;
    struct gp_token_bucket bucket; /* rate */
    enum gp_passage on_excess;
    uint64_t below_ns; /* prune */
    char reason[80];   /* why a call is refused, for its status message */
};

struct gp_limits {
    struct gp_limit each[GP_OPTIONS_MAX_LIMITS];
    unsigned count;
};

void gp_limits_init(struct gp_limits *limits, const struct gp_options *options);

/* Go on from the first limit that the call has not passed. What is not GP_PASSAGE_FREE is the word of the
 * limit that it has come to, each[call->passed]. */
enum gp_passage gp_limits_pass(struct gp_limits *limits, struct gp_call *call);

/* A waiting call gives up. False: it has been let through meanwhile, and GP_EVENT_WOKEN is on its way. */
bool gp_limits_withdraw(struct gp_limits *limits, struct gp_call *call);

/* Give back what the limits passed gave: the handler has ended, or will never begin. From any thread. */
void gp_limits_leave(struct gp_limits *limits, struct gp_call *call);

/* The status of calls that a limit refuses, and whether that is for want of time. */
int gp_limit_status(const struct gp_limit *limit);
bool gp_limit_prunes(const struct gp_limit *limit);

#endif
