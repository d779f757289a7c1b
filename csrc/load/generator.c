/* generator: one load thread's way through a run: which calls are measured, when they are collected, and when
 * to stop. When they are sent is the loop's matter (closed_loop.c, open_loop.c).
 *
 * A measured call is one that was intended inside the measured window. That is decided when it is sent, so
 * that a run of N calls measures exactly N, and kept with the slot. */
#include "load/generator.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/message_times.h"
#include "load/loop.h"
#include "load/timeline.h"

#define MAX_EVENTS 1024u
#define LOOK_NS (20 * GP_NS_PER_MS) /* how long a flag set by another thread may go unseen */

/* How long to wait for calls in flight when the run ends other than by itself. */
#define STOP_DRAIN_NS (500 * GP_NS_PER_MS)
#define DIED_DRAIN_NS (200 * GP_NS_PER_MS)
#define CANCEL_NS (2 * GP_NS_PER_S)

int gp_generator_init(struct gp_generator *g, const struct gp_generator_opts *opts)
{
    *g = (struct gp_generator){.opts = *opts, .cut_ns = UINT64_MAX, .calls_left = opts->calls};
    assert(opts->concurrency > 0);
    g->event_capacity = opts->concurrency < MAX_EVENTS ? opts->concurrency : MAX_EVENTS;
    g->slots = calloc(opts->concurrency, sizeof *g->slots);
    g->batch = calloc(opts->concurrency, sizeof *g->batch);
    g->events = calloc(g->event_capacity, sizeof *g->events);
    if (opts->loop->init(g) != 0 || !g->slots || !g->batch || !g->events) {
        gp_generator_fini(g);
        return -1;
    }
    return 0;
}

void gp_generator_fini(struct gp_generator *g)
{
    if (g->opts.loop)
        g->opts.loop->fini(g);
    free(g->slots);
    free(g->batch);
    free(g->events);
    g->slots = NULL;
    g->batch = NULL;
    g->events = NULL;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static void mark(struct gp_generator *g, int end)
{
    struct gp_client_stats stats;

    gp_client_stats(g->opts.client, &stats);
    g->marks[end] = (struct gp_generator_mark){
        .cpu_ns = gp_client_cpu_ns(g->opts.client),
        .messages_sent = stats.messages_sent,
        .payload_sent = stats.payload_sent,
        .messages_received = stats.messages_received,
        .polls = stats.polls,
        .idle_polls = stats.idle_polls,
        .opened = stats.opened,
        .tls_resumed = stats.tls_resumed,
    };
}

static void set_phase(struct gp_generator *g, enum gp_run_phase phase)
{
    atomic_store_explicit(&g->progress.phase, (int)phase, memory_order_relaxed);
}

static void publish(struct gp_generator *g)
{
    struct gp_generator_progress *progress = &g->progress;

    atomic_store_explicit(&progress->sent, g->sent, memory_order_relaxed);
    atomic_store_explicit(&progress->finished, g->finished, memory_order_relaxed);
    atomic_store_explicit(&progress->ok, g->ok, memory_order_relaxed);
    atomic_store_explicit(&progress->not_sent, g->opts.recorder->not_sent, memory_order_relaxed);
}

/* Calls without an end of their own, sent in the warm-up, live through the
 * measured window and belong to it. */
static void adopt_endless_calls(struct gp_generator *g)
{
    for (uint32_t i = 0; i < g->opts.concurrency && g->calls_left > 0; i++) {
        if (!g->slots[i].flying)
            continue;
        g->slots[i].plan.measured = true;
        g->measured_in_flight++;
        g->sent++;
        g->calls_left--;
    }
}

static void enter_window(struct gp_generator *g)
{
    g->entered = true;
    gp_timeline_enter(g->opts.timeline);
    mark(g, 0);
    if (g->opts.times)
        g->opts.times->on = true;
    set_phase(g, GP_RUN_MEASURE);
    if (g->opts.endless)
        adopt_endless_calls(g);
}

static void look_at_clock(struct gp_generator *g)
{
    g->now_ns = gp_clock_now_ns();
}

static void begin(struct gp_generator *g)
{
    struct gp_timeline *timeline = g->opts.timeline;

    g->begin_ns = gp_timeline_begin(timeline);
    g->start_ns = gp_timeline_start_ns(timeline, g->begin_ns);
    g->end_ns = gp_timeline_end_ns(timeline, g->begin_ns);
    gp_recorder_start(g->opts.recorder, g->start_ns, g->end_ns);
    g->opts.loop->begin(g);
    set_phase(g, GP_RUN_WARMUP);
    look_at_clock(g);
    if (g->now_ns >= g->start_ns)
        enter_window(g);
}

/* Whether to send no more; the measured window ends with it. */
static bool is_over(struct gp_generator *g)
{
    g->cut_by = gp_timeline_ceasing(g->opts.timeline);
    if (g->cut_by != GP_CEASE_NOT) {
        g->end_ns = earlier(g->now_ns + 1, g->end_ns); /* half open: what finished by now is inside */
        return true;
    }
    if (g->now_ns >= g->end_ns)
        return true;
    if (!g->entered || g->calls_left > 0 || g->measured_in_flight > 0)
        return false;
    /* All calls are made. The window is half open, and the last completion inside it. */
    g->end_ns = g->last_ns + 1;
    return true;
}

void gp_generator_submit(struct gp_generator *g, uint32_t held)
{
    uint32_t count = g->batch_count, measured = 0;

    g->batch_count = 0;
    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct gp_generator_slot *slot = &g->slots[g->batch[i]];

        slot->flying = true;
        measured += slot->plan.measured;
    }
    g->in_flight += count;
    g->measured_in_flight += measured;
    g->sent += measured;
    g->calls_left -= measured;
    gp_recorder_sent(g->opts.recorder, g->now_ns, count, held);
    gp_client_submit(g->opts.client, g->batch, count);
}

static void take_back(struct gp_generator *g, struct gp_event *event)
{
    struct gp_generator_slot *slot = &g->slots[event->id];

    assert(event->id < g->opts.concurrency && slot->flying);
    /* What was still in flight when it was cancelled is told apart by time: the cancelling itself may come
     * back as CANCELLED, UNAVAILABLE or, when the answer was on its way, even OK. Streams whose end is ours
     * are what they are. */
    if (event->done_ns >= g->cut_ns && !event->ahead)
        event->class = GP_CLASS_IN_FLIGHT_AT_END;
    gp_recorder_record(g->opts.recorder, event, &slot->plan);
    slot->flying = false;
    g->in_flight--;
    if (slot->plan.measured) {
        g->measured_in_flight--;
        g->finished++;
        g->ok += event->class == GP_CLASS_OK;
        g->ahead += event->ahead;
        if (event->done_ns > g->last_ns)
            g->last_ns = event->done_ns;
    }
    g->opts.loop->release(g, event);
}

/* Wait for finished calls until `until_ns` and note what came back; returns its number. */
static size_t collect(struct gp_generator *g, uint64_t until_ns)
{
    size_t count = gp_client_poll(g->opts.client, g->events, g->event_capacity, until_ns);

    look_at_clock(g);
    for (size_t i = 0; i < count; i++)
        take_back(g, &g->events[i]);
    publish(g);
    return count;
}

/* The next moment at which something is to be done even if no call finishes. */
static uint64_t next_moment_ns(const struct gp_generator *g)
{
    uint64_t edge_ns = g->entered ? g->end_ns : g->start_ns;

    return earlier(earlier(g->now_ns + LOOK_NS, edge_ns), g->opts.loop->next_ns(g));
}

static void leave_window(struct gp_generator *g)
{
    if (g->entered) {
        mark(g, 1);
        g->cpu_known = gp_client_cpu_known(g->opts.client, g->start_ns);
        if (g->opts.times)
            g->opts.times->on = false;
        gp_timeline_leave(g->opts.timeline);
    }
    if (g->end_ns < g->start_ns)
        g->end_ns = g->start_ns;
    gp_recorder_end(g->opts.recorder, g->end_ns);
    set_phase(g, GP_RUN_DRAIN);
}

static uint64_t drain_limit_ns(const struct gp_generator *g)
{
    switch (gp_timeline_ceasing(g->opts.timeline)) {
    case GP_CEASE_NOT:
        return g->opts.drain_ns;
    case GP_CEASE_STOP:
        return earlier(g->opts.drain_ns, STOP_DRAIN_NS);
    case GP_CEASE_DIED:
        return earlier(g->opts.drain_ns, DIED_DRAIN_NS);
    case GP_CEASE_ABANDON:
        break;
    }
    return 0;
}

/* Let calls in flight finish, for a bounded time. The bound is asked for again in each turn: somebody may
 * lose patience meanwhile. */
static void drain(struct gp_generator *g)
{
    uint64_t began_ns = g->now_ns;

    if (g->in_flight > 0)
        gp_client_end(g->opts.client);
    while (g->in_flight > 0 && g->now_ns - began_ns < drain_limit_ns(g))
        collect(g, earlier(g->now_ns + LOOK_NS, began_ns + drain_limit_ns(g)));
    g->drained_ns = g->now_ns - began_ns;
}

static void cancel_rest(struct gp_generator *g)
{
    while (g->in_flight > 0 && collect(g, g->now_ns) > 0)
        ; /* what has finished by now has finished by itself */
    if (g->in_flight == 0)
        return;
    g->cut_ns = g->now_ns;
    gp_client_cancel_all(g->opts.client);
    while (g->in_flight > 0 && g->now_ns - g->cut_ns < CANCEL_NS)
        collect(g, g->now_ns + LOOK_NS);
}

/* Calls that did not even come back from being cancelled. The client's destruction deals with them. */
static void give_up_lost(struct gp_generator *g)
{
    for (uint64_t id = 0; id < g->opts.concurrency && g->in_flight > 0; id++) {
        if (g->slots[id].flying)
            take_back(g,
                      &(struct gp_event){.id = id, .done_ns = g->now_ns, .class = GP_CLASS_IN_FLIGHT_AT_END});
    }
    publish(g);
}

void gp_generator_run(struct gp_generator *g)
{
    begin(g);
    while (!is_over(g)) {
        g->opts.loop->send(g);
        collect(g, next_moment_ns(g));
        if (!g->entered && g->now_ns >= g->start_ns)
            enter_window(g);
    }
    g->opts.loop->cease(g);
    leave_window(g);
    drain(g);
    cancel_rest(g);
    give_up_lost(g);
}
