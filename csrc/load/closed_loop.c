/* closed_loop: a slot whose call has finished sends its next one, at once or after its think time. All that
 * one poll brings back is sent again by one submit. */
#include "load/loop.h"

#include "base/clock.h"

/* A client whose connection is gone fails calls without asking anybody, in microseconds. Sent again at once
 * they would fail again: the loop would measure its own spinning, and millions of errors would hide what came
 * before. A slot that fails so fast therefore rests, twice as long each time, until something else happens to
 * it. */
#define IMMEDIATE_NS GP_NS_PER_MS
#define MIN_REST_NS GP_NS_PER_MS
#define MAX_REST_NS (100 * GP_NS_PER_MS)

static int init(struct gp_generator *g)
{
    return gp_due_init(&g->closed.resting, g->opts.concurrency);
}

static void fini(struct gp_generator *g)
{
    gp_due_fini(&g->closed.resting);
}

static void begin(struct gp_generator *g)
{
    for (uint32_t id = 0; id < g->opts.concurrency; id++)
        g->batch[g->batch_count++] = id;
}

/* Send the next call of every slot that is ready. Once the last measured call is sent, slots come to rest. */
static void send_ready(struct gp_generator *g)
{
    while (gp_due_next_ns(&g->closed.resting) <= g->now_ns)
        g->batch[g->batch_count++] = gp_due_pop(&g->closed.resting);
    if (g->entered && g->batch_count > g->calls_left)
        g->batch_count = (uint32_t)g->calls_left;
    for (uint32_t i = 0; i < g->batch_count; i++)
        g->slots[g->batch[i]].plan = (struct gp_plan){.intended_ns = g->now_ns, .measured = g->entered};
    gp_generator_submit(g, 0);
}

/* How long the slot pauses before its next call. */
static uint64_t pause_ns(struct gp_generator *g, struct gp_generator_slot *slot, const struct gp_event *event)
{
    bool unreached = event->class == GP_CLASS_UNAVAILABLE || event->class == GP_CLASS_TRANSPORT;

    if (!unreached || event->done_ns - event->sent_ns >= IMMEDIATE_NS)
        slot->rest_ns = 0;
    else if (slot->rest_ns == 0)
        slot->rest_ns = MIN_REST_NS;
    else
        slot->rest_ns = slot->rest_ns < MAX_REST_NS / 2 ? slot->rest_ns * 2 : MAX_REST_NS;
    return slot->rest_ns > g->opts.think_ns ? slot->rest_ns : g->opts.think_ns;
}

static void release(struct gp_generator *g, const struct gp_event *event)
{
    uint64_t pause = pause_ns(g, &g->slots[event->id], event);

    if (pause > 0)
        gp_due_push(&g->closed.resting, g->now_ns + pause, event->id);
    else
        g->batch[g->batch_count++] = event->id;
}

static uint64_t next_ns(const struct gp_generator *g)
{
    return gp_due_next_ns(&g->closed.resting);
}

static void cease(struct gp_generator *g)
{
    g->batch_count = 0;
}

const struct gp_loop gp_closed_loop = {
    .init = init,
    .fini = fini,
    .begin = begin,
    .send = send_ready,
    .release = release,
    .next_ns = next_ns,
    .cease = cease,
};
