/* park: one thread that opens calls, as many as are wanted by now, and holds them: it polls for those that
 * end, and keeps the connections served, until it is destroyed. Nothing is measured here but counts. */
#include "load/park.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "load/thread.h"

#define BATCH 256u /* calls opened between two looks at what has come back, an early refusal say */
#define LOOK_NS (20 * GP_NS_PER_MS)
#define CANCEL_NS (2 * GP_NS_PER_S) /* what is not back from being cancelled is left to fini */

/* What the owner wants; it only ever rises. An int, for it is what gp_client_connect looks at. */
enum wish { HOLD = 0, CANCEL, DESTROY };

struct gp_park {
    struct gp_client *client; /* the thread's own once it is started */
    uint64_t connect_timeout_ns;
    atomic_int wish;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* over all below; the thread takes it once per batch */
    pthread_cond_t changed;
    uint64_t most, wanted; /* calls that there may be, and that there are to be by now */
    struct gp_park_counts counts;
    bool finished; /* no call is in flight, and none will be sent that is wanted by now */
    struct gp_error err;
};

int gp_park_create(struct gp_park **made, const struct gp_park_opts *opts, struct gp_error *err)
{
    struct gp_park *park = calloc(1, sizeof *park);

    *made = NULL;
    if (!park)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for parked calls");
    park->most = opts->client.max_in_flight;
    park->connect_timeout_ns = opts->connect_timeout_ns;
    park->counts.connecting = true;
    if (gp_client_create(&park->client, &opts->client, err) != 0)
        goto free_park;
    if (gp_thread_cond_init(&park->changed) != 0) {
        gp_error_errno(err, "cannot make the condition variable of parked calls");
        goto destroy_client;
    }
    pthread_mutex_init(&park->lock, NULL);
    *made = park;
    return 0;
destroy_client:
    gp_client_destroy(park->client);
free_park:
    free(park);
    return -1;
}

/* --- the thread --- */

static enum wish wish_of(struct gp_park *park)
{
    return (enum wish)atomic_load_explicit(&park->wish, memory_order_relaxed);
}

static void wish_for(struct gp_park *park, enum wish wish)
{
    int was = atomic_load(&park->wish);

    while (was < (int)wish && !atomic_compare_exchange_weak(&park->wish, &was, (int)wish))
        ;
}

static int connect_all(struct gp_park *park)
{
    struct gp_error err = {0};
    struct gp_client_stats stats;
    int status = gp_client_connect(park->client, park->connect_timeout_ns, &park->wish, &err);

    gp_client_stats(park->client, &stats);
    pthread_mutex_lock(&park->lock);
    park->counts.connected = stats.connected;
    park->counts.connecting = false;
    if (status != 0) {
        park->counts.failed = true;
        park->err = err;
    }
    pthread_mutex_unlock(&park->lock);
    return status;
}

/* Calls to be sent now. */
static size_t missing(struct gp_park *park)
{
    uint64_t count;

    pthread_mutex_lock(&park->lock);
    count = park->wanted - park->counts.sent;
    pthread_mutex_unlock(&park->lock);
    return count < BATCH ? count : BATCH;
}

static void open_batch(struct gp_park *park, size_t count)
{
    uint64_t ids[BATCH], first = park->counts.sent, now_ns = gp_clock_now_ns();

    for (size_t i = 0; i < count; i++)
        ids[i] = first + i;
    gp_client_submit(park->client, ids, count);
    pthread_mutex_lock(&park->lock);
    if (first == 0)
        park->counts.first_sent_ns = now_ns;
    park->counts.sent += count;
    pthread_mutex_unlock(&park->lock);
}

static void take_back(struct gp_park *park, const struct gp_event *events, size_t count)
{
    pthread_mutex_lock(&park->lock);
    for (size_t i = 0; i < count; i++) {
        park->counts.classes[events[i].class]++;
        if (events[i].done_ns > park->counts.last_finished_ns)
            park->counts.last_finished_ns = events[i].done_ns;
    }
    park->counts.finished += count;
    pthread_mutex_unlock(&park->lock);
}

static void collect(struct gp_park *park, uint64_t until_ns)
{
    struct gp_event events[BATCH];
    size_t count = gp_client_poll(park->client, events, BATCH, until_ns);

    if (count > 0)
        take_back(park, events, count);
}

static void announce_finished(struct gp_park *park)
{
    pthread_mutex_lock(&park->lock);
    park->finished = true;
    pthread_cond_broadcast(&park->changed);
    pthread_mutex_unlock(&park->lock);
}

static void look_whether_finished(struct gp_park *park)
{
    pthread_mutex_lock(&park->lock);
    park->finished = park->counts.finished == park->wanted;
    if (park->finished)
        pthread_cond_broadcast(&park->changed);
    pthread_mutex_unlock(&park->lock);
}

/* Until they are no longer wanted. */
static void hold_calls(struct gp_park *park)
{
    while (wish_of(park) == HOLD) {
        size_t count = missing(park);

        if (count > 0)
            open_batch(park, count);
        collect(park, gp_clock_now_ns() + (count > 0 ? 0 : LOOK_NS));
        look_whether_finished(park);
    }
}

static void cancel_calls(struct gp_park *park)
{
    uint64_t cancelled_ns = gp_clock_now_ns();

    gp_client_cancel_all(park->client);
    while (park->counts.finished < park->counts.sent) {
        uint64_t now_ns = gp_clock_now_ns();

        if (wish_of(park) == DESTROY && now_ns - cancelled_ns > CANCEL_NS)
            break;
        collect(park, now_ns + LOOK_NS);
    }
}

/* The connections outlive their calls: what they cost the server is part of what may be looked at. */
static void keep_connections(struct gp_park *park)
{
    while (wish_of(park) != DESTROY)
        collect(park, gp_clock_now_ns() + LOOK_NS);
}

static void *hold(void *argument)
{
    struct gp_park *park = argument;

    if (connect_all(park) == 0) {
        hold_calls(park);
        cancel_calls(park);
        announce_finished(park);
        keep_connections(park);
    } else {
        announce_finished(park);
    }
    gp_client_destroy(park->client);
    park->client = NULL;
    return NULL;
}

/* --- from outside --- */

int gp_park_start(struct gp_park *park, struct gp_error *err)
{
    if (gp_thread_start(&park->thread, "gp-park", hold, park, err) != 0)
        return -1;
    park->started = true;
    return 0;
}

void gp_park_open(struct gp_park *park, uint64_t calls)
{
    pthread_mutex_lock(&park->lock);
    if (calls > park->most)
        calls = park->most;
    if (calls > park->wanted && wish_of(park) == HOLD && !park->counts.failed) {
        park->wanted = calls;
        park->finished = false;
    }
    pthread_mutex_unlock(&park->lock);
}

void gp_park_counts(struct gp_park *park, struct gp_park_counts *counts)
{
    pthread_mutex_lock(&park->lock);
    *counts = park->counts;
    pthread_mutex_unlock(&park->lock);
}

int gp_park_error(struct gp_park *park, struct gp_error *err)
{
    int status = 0;

    pthread_mutex_lock(&park->lock);
    if (park->counts.failed) {
        *err = park->err;
        status = -1;
    }
    pthread_mutex_unlock(&park->lock);
    return status;
}

void gp_park_cancel(struct gp_park *park)
{
    wish_for(park, CANCEL);
}

bool gp_park_wait_finished(struct gp_park *park, uint64_t timeout_ns)
{
    struct timespec until = gp_thread_until(timeout_ns);
    bool finished;

    pthread_mutex_lock(&park->lock);
    while (!park->finished && pthread_cond_timedwait(&park->changed, &park->lock, &until) == 0)
        ;
    finished = park->finished;
    pthread_mutex_unlock(&park->lock);
    return finished;
}

void gp_park_destroy(struct gp_park *park)
{
    if (!park)
        return;
    wish_for(park, DESTROY);
    if (park->started)
        pthread_join(park->thread, NULL);
    gp_client_destroy(park->client);
    pthread_cond_destroy(&park->changed);
    pthread_mutex_destroy(&park->lock);
    free(park);
}
