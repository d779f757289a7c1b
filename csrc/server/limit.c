/* What stands between a call and its handler: the three kinds of limit. */
#include "server/limit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "server/call.h"

struct gp_limit_table {
    grpc_status_code status; /* of the calls that it refuses */
    void (*init)(struct gp_limit *limit, const struct gp_limit_options *options);
    enum gp_passage (*enter)(struct gp_limit *limit, struct gp_call *call);
    void (*leave)(struct gp_limit *limit); /* NULL: nothing is held while the handler runs */
};

/* --- semaphore: at most so many handlers; the others wait in the order in which they came --- */

static void semaphore_init(struct gp_limit *limit, const struct gp_limit_options *options)
{
    limit->most = options->most;
}

static enum gp_passage semaphore_enter(struct gp_limit *limit, struct gp_call *call)
{
    pthread_mutex_lock(&limit->lock);
    bool free = limit->taken < limit->most;
    if (free)
        limit->taken++;
    else
        gp_fifo_push(&limit->waiting, &call->link);
    pthread_mutex_unlock(&limit->lock);
    return free ? GP_PASSAGE_FREE : GP_PASSAGE_WAIT;
}

/* A slot goes to the one who has waited longest, so nobody comes between. */
static void semaphore_leave(struct gp_limit *limit)
{
    pthread_mutex_lock(&limit->lock);
    struct gp_fifo_link *next = gp_fifo_pop(&limit->waiting);
    limit->taken -= next == NULL;
    pthread_mutex_unlock(&limit->lock);
    if (next) {
        struct gp_call *call = gp_call_of_link(next);
        gp_call_post(call->core, gp_call_tag(call, GP_EVENT_WOKEN));
    }
}

/* --- rate: so many calls a second, by a token bucket --- */

static void rate_init(struct gp_limit *limit, const struct gp_limit_options *options)
{
    limit->on_excess = options->degrade ? GP_PASSAGE_DEGRADE : GP_PASSAGE_REFUSE;
    gp_token_bucket_init(&limit->bucket, options->per_s, (double)options->burst, gp_clock_now_ns());
    snprintf(limit->reason, sizeof(limit->reason), "more than %g calls a second", options->per_s);
}

static enum gp_passage rate_enter(struct gp_limit *limit, struct gp_call *call)
{
    (void)call;
    uint64_t now_ns = gp_clock_now_ns();
    pthread_mutex_lock(&limit->lock);
    bool taken = gp_token_bucket_take(&limit->bucket, now_ns);
    pthread_mutex_unlock(&limit->lock);
    return taken ? GP_PASSAGE_FREE : limit->on_excess;
}

/* --- prune: no calls whose deadline leaves too little; those without one pass --- */

static void prune_init(struct gp_limit *limit, const struct gp_limit_options *options)
{
    limit->below_ns = options->below_ns;
    snprintf(limit->reason, sizeof(limit->reason), "the deadline leaves less than %" PRIu64 " us",
             options->below_ns / GP_NS_PER_US);
}

static enum gp_passage prune_enter(struct gp_limit *limit, struct gp_call *call)
{
    if (call->deadline_ns == UINT64_MAX || gp_clock_now_ns() + limit->below_ns <= call->deadline_ns)
        return GP_PASSAGE_FREE;
    return GP_PASSAGE_REFUSE;
}

/* --- all of them --- */

static const struct gp_limit_table tables[] = {
    [GP_LIMIT_SEMAPHORE] = {.init = semaphore_init, .enter = semaphore_enter, .leave = semaphore_leave},
    [GP_LIMIT_RATE] = {GRPC_STATUS_RESOURCE_EXHAUSTED, .init = rate_init, .enter = rate_enter},
    [GP_LIMIT_PRUNE] = {GRPC_STATUS_DEADLINE_EXCEEDED, .init = prune_init, .enter = prune_enter},
};

void gp_limits_init(struct gp_limits *limits, const struct gp_options *options)
{
    limits->count = options->limit_count;
    for (unsigned i = 0; i < limits->count; i++) {
        struct gp_limit *limit = &limits->each[i];
        *limit = (struct gp_limit){.table = &tables[options->limits[i].kind]};
        pthread_mutex_init(&limit->lock, NULL);
        limit->table->init(limit, &options->limits[i]);
    }
}

enum gp_passage gp_limits_pass(struct gp_limits *limits, struct gp_call *call)
{
    enum gp_passage passage = GP_PASSAGE_FREE;
    while (call->passed < limits->count) {
        struct gp_limit *limit = &limits->each[call->passed];
        passage = limit->table->enter(limit, call);
        if (passage != GP_PASSAGE_FREE)
            break;
        call->passed++;
    }
    return passage;
}

bool gp_limits_withdraw(struct gp_limits *limits, struct gp_call *call)
{
    struct gp_limit *limit = &limits->each[call->passed];
    pthread_mutex_lock(&limit->lock);
    bool waited = gp_fifo_remove(&limit->waiting, &call->link);
    pthread_mutex_unlock(&limit->lock);
    return waited;
}

void gp_limits_leave(struct gp_limits *limits, struct gp_call *call)
{
    while (call->passed > 0) {
        struct gp_limit *limit = &limits->each[--call->passed];
        if (limit->table->leave)
            limit->table->leave(limit);
    }
}

int gp_limit_status(const struct gp_limit *limit)
{
    return limit->table->status;
}

bool gp_limit_prunes(const struct gp_limit *limit)
{
    return limit->table == &tables[GP_LIMIT_PRUNE];
}
