/* open_loop: calls are sent when the schedule says, whatever happens to those before. All that is due when
 * the thread wakes is sent by one submit, with one reading of the clock.
 *
 * A call for which no slot is free waits. There is no queue in memory: what waits is the stretch of the
 * schedule between the next call to be sent and now, for the schedule can be asked again and again for what
 * comes next. How long a call may wait is its patience (catch-up policy): none drops it at its intended time,
 * bounded after 100 ms, full never. Only want of a slot makes calls impatient. A thread that was late itself
 * (stopped, robbed of its CPU) sends all that came due meanwhile, late, as far as there are slots.
 *
 * Slots are released by events, and an event may be read well after it happened. What had lost its patience
 * before the slot came back is dropped first: at its intended time there was no room, though there is now. */
#include "load/loop.h"

#include <stdlib.h>

#include "base/clock.h"
#include "load/timeline.h"

#define BOUNDED_NS (100 * GP_NS_PER_MS)
#define NEVER UINT64_MAX

static int init(struct gp_generator *g)
{
    g->open = (struct gp_open){0};
    g->open.free = calloc(g->opts.concurrency, sizeof *g->open.free);
    return g->open.free ? 0 : -1;
}

static void fini(struct gp_generator *g)
{
    free(g->open.free);
    g->open.free = NULL;
}

/* --- the schedule --- */

/* The measured window has a schedule of its own: which calls it holds does not depend on the warm-up. */
static void enter_schedule(struct gp_generator *g)
{
    g->open.measuring = true;
    g->open.origin_ns = g->start_ns;
    g->open.calls_to_come = g->opts.calls;
    gp_schedule_init(&g->open.schedule, &g->opts.schedule);
}

static void enter_warmup(struct gp_generator *g)
{
    struct gp_schedule_opts opts = g->opts.schedule;
    double rps = opts.steps[0].from_rps;

    g->open.warmup = (struct gp_rate_step){rps, rps, 0};
    opts.steps = &g->open.warmup;
    opts.step_count = 1;
    opts.seed = ~opts.seed;
    g->open.origin_ns = g->begin_ns;
    gp_schedule_init(&g->open.schedule, &opts);
}

static uint64_t next_of_schedule_ns(struct gp_generator *g)
{
    uint64_t next_ns = gp_schedule_next_ns(&g->open.schedule);

    return next_ns < NEVER - g->open.origin_ns ? g->open.origin_ns + next_ns : NEVER;
}

/* The next call is settled, sent or not: on to the one after it. */
static void advance(struct gp_generator *g)
{
    struct gp_open *open = &g->open;

    open->next_ns = NEVER;
    if (!open->measuring) {
        open->next_ns = next_of_schedule_ns(g);
        if (open->next_ns < g->start_ns)
            return;
        enter_schedule(g);
    }
    if (open->calls_to_come == 0)
        return;
    open->next_ns = next_of_schedule_ns(g);
    open->calls_to_come--;
}

static void begin(struct gp_generator *g)
{
    struct gp_open *open = &g->open;

    for (uint32_t i = 0; i < g->opts.concurrency; i++) /* so that slot 0 is the first to be taken */
        open->free[open->free_count++] = g->opts.concurrency - 1 - i;
    switch (g->opts.catch_up) {
    case GP_CATCH_UP_NONE:
        open->patience_ns = 0;
        break;
    case GP_CATCH_UP_BOUNDED:
        open->patience_ns = BOUNDED_NS;
        break;
    case GP_CATCH_UP_FULL:
        open->patience_ns = NEVER;
        break;
    }
    if (g->start_ns > g->begin_ns)
        enter_warmup(g);
    else
        enter_schedule(g);
    advance(g);
}

/* --- sending and dropping --- */

static void drop_next(struct gp_generator *g)
{
    if (g->open.measuring) {
        gp_recorder_dropped(g->opts.recorder);
        g->calls_left--;
        g->last_ns = g->open.next_ns > g->last_ns ? g->open.next_ns : g->last_ns;
    }
    advance(g);
}

/* No slot was free up to then: drop what has waited for longer than its patience. */
static void note_full(struct gp_generator *g, uint64_t until_ns)
{
    struct gp_open *open = &g->open;

    if (until_ns > open->full_until_ns)
        open->full_until_ns = until_ns;
    while (open->next_ns < until_ns && until_ns - open->next_ns > open->patience_ns &&
           open->next_ns < g->end_ns)
        drop_next(g);
}

/* Take a slot for the next call; whether it had to wait for it. */
static bool place_next(struct gp_generator *g)
{
    struct gp_open *open = &g->open;
    uint32_t id = open->free[--open->free_count];
    bool held = open->next_ns < open->full_until_ns;

    g->slots[id].plan =
        (struct gp_plan){.intended_ns = open->next_ns, .measured = open->measuring, .held = held};
    g->batch[g->batch_count++] = id;
    advance(g);
    return held;
}

static void send_due(struct gp_generator *g)
{
    struct gp_open *open = &g->open;
    uint32_t held = 0;

    while (open->free_count > 0 && open->next_ns <= g->now_ns && open->next_ns < g->end_ns)
        held += place_next(g);
    gp_generator_submit(g, held);
    if (open->free_count == 0)
        note_full(g, g->now_ns);
}

static void release(struct gp_generator *g, const struct gp_event *event)
{
    if (g->open.free_count == 0)
        note_full(g, event->done_ns);
    g->open.free[g->open.free_count++] = (uint32_t)event->id;
}

/* With all slots taken only the end of a call makes room. */
static uint64_t next_ns(const struct gp_generator *g)
{
    return g->open.free_count > 0 ? g->open.next_ns : NEVER;
}

/* What still waits for a slot is not sent. What the thread itself is late with belongs to the window and is
 * sent though that is over; but not to a dead server, nor when nobody wants it. */
static void cease(struct gp_generator *g)
{
    struct gp_open *open = &g->open;

    while (open->next_ns < g->end_ns && open->next_ns < open->full_until_ns)
        drop_next(g);
    if (g->cut_by == GP_CEASE_NOT || g->cut_by == GP_CEASE_STOP)
        send_due(g);
    while (open->next_ns < g->end_ns)
        drop_next(g);
    open->next_ns = NEVER;
}

const struct gp_loop gp_open_loop = {
    .init = init,
    .fini = fini,
    .begin = begin,
    .send = send_due,
    .release = release,
    .next_ns = next_ns,
    .cease = cease,
};
