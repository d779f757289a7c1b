/* dispatch_writers: a thread of writers. A writer thinks (it is in `due`), offers its message and waits (it
 * is in a queue), and is freed by whoever took the message, which this thread learns from `freed`. */
#include "load/dispatch_parts.h"

#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/random.h"

#define LOOK_NS (20 * GP_NS_PER_MS)

static uint32_t own_count(const struct dispatch_writers *writers)
{
    uint32_t threads = writers->dispatch->writer_threads;

    return (writers->dispatch->opts.writers + threads - 1 - writers->number) / threads;
}

int dispatch_writers_init(struct dispatch_writers *writers, struct gp_dispatch *dispatch, uint32_t number)
{
    uint32_t count;

    *writers = (struct dispatch_writers){.dispatch = dispatch, .number = number};
    count = own_count(writers);
    gp_histogram_init(&writers->held_up);
    writers->said = calloc(count, sizeof *writers->said);
    writers->message = malloc(dispatch->message_bytes);
    writers->taken = calloc(count, sizeof *writers->taken);
    writers->freed = calloc(count, sizeof *writers->freed);
    pthread_mutex_init(&writers->lock, NULL);
    if (gp_thread_cond_init(&writers->changed) < 0 || gp_due_init(&writers->due, count) < 0 ||
        !writers->said || !writers->message || !writers->taken || !writers->freed)
        return -1;
    return 0;
}

void dispatch_writers_fini(struct dispatch_writers *writers)
{
    if (!writers->dispatch)
        return;
    gp_due_fini(&writers->due);
    gp_histogram_fini(&writers->held_up);
    free(writers->said);
    free(writers->message);
    free(writers->taken);
    free(writers->freed);
    pthread_cond_destroy(&writers->changed);
    pthread_mutex_destroy(&writers->lock);
}

/* --- freed ------------------------------------------------------------------------------------- */

static uint64_t next_due_ns(const struct gp_dispatch *dispatch, uint64_t due_ns, uint64_t freed_ns)
{
    uint64_t next_ns = due_ns + dispatch->opts.period_ns;

    return next_ns > freed_ns ? next_ns : freed_ns;
}

/* The thread is woken only when there is something to do for it before it would wake by itself. */
void dispatch_free_writer(struct gp_dispatch *dispatch, const struct gp_offer *offer, uint64_t now_ns)
{
    struct dispatch_writers *writers = &dispatch->writers[offer->writer % dispatch->writer_threads];

    pthread_mutex_lock(&writers->lock);
    writers->freed[writers->freed_count++] = (struct dispatch_freed){
        .writer = offer->writer, .sequence = offer->sequence, .due_ns = offer->due_ns, .freed_ns = now_ns};
    if (next_due_ns(dispatch, offer->due_ns, now_ns) < writers->wake_ns)
        pthread_cond_signal(&writers->changed);
    pthread_mutex_unlock(&writers->lock);
}

/* Its message is sent: taken, or on disk. It thinks until the next is due, or has said all. */
static void go_on(struct dispatch_writers *writers, const struct dispatch_freed *freed)
{
    struct gp_dispatch *dispatch = writers->dispatch;
    uint64_t next_ns = next_due_ns(dispatch, freed->due_ns, freed->freed_ns);

    dispatch_note(dispatch, freed->sequence, DISPATCH_SENT);
    gp_histogram_record(&writers->held_up, freed->freed_ns - freed->due_ns);
    if (next_ns < dispatch->end_ns)
        gp_due_push(&writers->due, next_ns, freed->writer);
}

static void look_who_is_freed(struct dispatch_writers *writers)
{
    struct dispatch_freed *taken = writers->taken;
    uint32_t count;

    pthread_mutex_lock(&writers->lock);
    count = writers->freed_count;
    writers->taken = writers->freed;
    writers->freed = taken;
    writers->freed_count = 0;
    pthread_mutex_unlock(&writers->lock);
    for (uint32_t i = 0; i < count; i++)
        go_on(writers, &writers->taken[i]);
    atomic_fetch_sub(&writers->dispatch->offered, count);
}

/* --- offer ------------------------------------------------------------------------------------- */

static void offer(struct dispatch_writers *writers, struct gp_dispatch_queue *queue,
                  const struct gp_offer *offer)
{
    atomic_fetch_add(&writers->dispatch->offered, 1);
    if (gp_dispatch_queue_offer(queue, offer))
        dispatch_free_writer(writers->dispatch, offer, offer->offered_ns);
}

static void say(struct dispatch_writers *writers, uint32_t writer, uint64_t due_ns, uint64_t now_ns)
{
    struct gp_dispatch *dispatch = writers->dispatch;
    uint32_t turn = writer + writers->said[writer / dispatch->writer_threads]++;
    const struct gp_offer said = {
        .sequence = dispatch->result.first_sequence + atomic_fetch_add(&dispatch->given, 1),
        .due_ns = due_ns,
        .offered_ns = now_ns,
        .writer = writer,
    };

    offer(writers, &dispatch->queues[turn % dispatch->queue_count], &said);
}

static void say_what_is_due(struct dispatch_writers *writers, uint64_t now_ns, bool over)
{
    uint64_t due_ns;

    while ((due_ns = gp_due_next_ns(&writers->due)) <= now_ns) {
        uint32_t writer = (uint32_t)gp_due_pop(&writers->due);

        if (!over)
            say(writers, writer, due_ns, now_ns);
    }
}

/* --- spill ------------------------------------------------------------------------------------- */

/* False: the disk has no room. The writer goes on waiting, behind the others, and that is the back-pressure.
 */
static bool spill(struct dispatch_writers *writers, struct gp_dispatch_queue *queue, struct gp_offer *expired)
{
    struct gp_dispatch *dispatch = writers->dispatch;
    bool spilled = dispatch_spill(dispatch, writers->message, expired->sequence, false);
    uint64_t now_ns = gp_clock_now_ns();

    expired->offered_ns = now_ns;
    if (spilled || gp_dispatch_queue_offer(queue, expired))
        dispatch_free_writer(dispatch, expired, now_ns);
    return spilled;
}

static void spill_what_is_late(struct dispatch_writers *writers, uint64_t now_ns)
{
    struct gp_dispatch *dispatch = writers->dispatch;
    struct gp_offer expired;

    if (now_ns < writers->retry_ns)
        return;
    for (uint32_t i = writers->number; i < dispatch->queue_count; i += dispatch->writer_threads)
        while (gp_dispatch_queue_expire(&dispatch->queues[i], now_ns - dispatch->opts.timeout_ns, &expired))
            if (!spill(writers, &dispatch->queues[i], &expired)) {
                writers->retry_ns = gp_clock_now_ns() + LOOK_NS;
                return;
            }
}

/* All streams have ended. What the disk does not take either was never sent. */
static void spill_the_rest(struct dispatch_writers *writers)
{
    struct gp_dispatch *dispatch = writers->dispatch;
    struct gp_offer rest;

    for (uint32_t i = writers->number; i < dispatch->queue_count; i += dispatch->writer_threads)
        while (gp_dispatch_queue_expire(&dispatch->queues[i], UINT64_MAX, &rest))
            if (dispatch_spill(dispatch, writers->message, rest.sequence, false))
                dispatch_free_writer(dispatch, &rest, gp_clock_now_ns());
}

/* --- the thread -------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static uint64_t next_moment_ns(struct dispatch_writers *writers, uint64_t now_ns)
{
    struct gp_dispatch *dispatch = writers->dispatch;
    uint64_t moment_ns = earlier(now_ns + LOOK_NS, gp_due_next_ns(&writers->due));

    for (uint32_t i = writers->number; i < dispatch->queue_count; i += dispatch->writer_threads) {
        uint64_t oldest_ns = gp_dispatch_queue_oldest_ns(&dispatch->queues[i]), late_ns;

        if (oldest_ns == UINT64_MAX)
            continue;
        late_ns = oldest_ns + dispatch->opts.timeout_ns;
        moment_ns = earlier(moment_ns, late_ns > writers->retry_ns ? late_ns : writers->retry_ns);
    }
    return moment_ns;
}

static void rest(struct dispatch_writers *writers, uint64_t until_ns)
{
    struct timespec until = gp_clock_timespec(until_ns);

    pthread_mutex_lock(&writers->lock);
    writers->wake_ns = until_ns;
    if (writers->freed_count == 0)
        pthread_cond_timedwait(&writers->changed, &writers->lock, &until);
    writers->wake_ns = 0;
    pthread_mutex_unlock(&writers->lock);
}

/* Each begins at a random moment of its first period, so that together they speak evenly. */
static void begin(struct dispatch_writers *writers)
{
    const struct gp_dispatch *dispatch = writers->dispatch;
    const struct gp_dispatch_opts *opts = &dispatch->opts;

    for (uint32_t writer = writers->number; writer < opts->writers; writer += dispatch->writer_threads) {
        double part = (double)(gp_random_at(opts->seed, writer) >> 11) * 0x1p-53;
        uint64_t due_ns = dispatch->begin_ns + (uint64_t)(part * (double)opts->period_ns);

        if (due_ns < dispatch->end_ns)
            gp_due_push(&writers->due, due_ns, writer);
    }
}

void *dispatch_writers_run(void *argument)
{
    struct dispatch_writers *writers = argument;
    bool settled = false;

    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* of 50 us, by which every writer would be late */
    while (dispatch_phase(writers->dispatch) == DISPATCH_CONNECT)
        rest(writers, gp_clock_now_ns() + GP_NS_PER_MS);
    if (dispatch_phase(writers->dispatch) == DISPATCH_WRITE)
        begin(writers);
    while (dispatch_phase(writers->dispatch) < DISPATCH_CLOSE) {
        bool over = dispatch_phase(writers->dispatch) >= DISPATCH_SETTLE;
        uint64_t now_ns = gp_clock_now_ns();

        if (over && !settled)
            atomic_fetch_add(&writers->dispatch->settled, 1);
        settled = over;
        look_who_is_freed(writers);
        say_what_is_due(writers, now_ns, over);
        spill_what_is_late(writers, now_ns);
        rest(writers, next_moment_ns(writers, now_ns));
    }
    spill_the_rest(writers);
    look_who_is_freed(writers);
    return NULL;
}
