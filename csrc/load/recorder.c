/* recorder: the bookkeeping of finished calls. It decides nothing about sending and reads no clock. */
#include "load/recorder.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

#define WINDOWS_PER_RUN 20
#define MIN_WINDOW_NS (10 * GP_NS_PER_MS)
#define MAX_WINDOW_NS GP_NS_PER_S
#define OPEN_ENDED_WINDOW_NS (100 * GP_NS_PER_MS)

uint64_t gp_recorder_window_ns(uint64_t duration_ns)
{
    /* Rounded up: rounded down, a last window of a few ns would be left over. */
    uint64_t share = duration_ns / WINDOWS_PER_RUN + (duration_ns % WINDOWS_PER_RUN != 0);

    if (duration_ns == 0)
        return OPEN_ENDED_WINDOW_NS;
    if (share < MIN_WINDOW_NS)
        return MIN_WINDOW_NS;
    return share < MAX_WINDOW_NS ? share : MAX_WINDOW_NS;
}

static struct gp_histogram *histogram_at(struct gp_recorder *r, size_t index)
{
    struct gp_histogram *all[] = {&r->current, &r->service, &r->lag,   &r->gap,
                                  &r->latency, &r->errors,  &r->queued};

    return index < sizeof all / sizeof *all ? all[index] : NULL;
}

/* A first value makes a histogram allocate here instead of on the path of the first call. */
static int prepare(struct gp_histogram *histogram)
{
    gp_histogram_record(histogram, 1);
    gp_histogram_reset(histogram);
    return histogram->counts ? 0 : -1;
}

int gp_recorder_init(struct gp_recorder *r, uint64_t window_ns, bool open_loop)
{
    size_t busy = open_loop ? 4 : 1; /* the first ones are written for every call */
    struct gp_histogram *histogram;

    *r = (struct gp_recorder){
        .open_loop = open_loop, .start_ns = UINT64_MAX, .end_ns = UINT64_MAX, .window_ns = window_ns};
    for (size_t i = 0; (histogram = histogram_at(r, i)); i++)
        gp_histogram_init(histogram);
    for (size_t i = 0; i < busy; i++)
        if (prepare(histogram_at(r, i)) != 0)
            return -1;
    return 0;
}

void gp_recorder_fini(struct gp_recorder *r)
{
    struct gp_histogram *histogram;

    for (size_t i = 0; (histogram = histogram_at(r, i)); i++)
        gp_histogram_fini(histogram);
    gp_windows_fini(&r->windows);
}

void gp_recorder_start(struct gp_recorder *r, uint64_t start_ns, uint64_t end_ns)
{
    r->start_ns = r->last_sent_ns = start_ns;
    r->end_ns = end_ns;
    r->current_end_ns = start_ns + r->window_ns;
}

/* --- windows --- */

static void halve(struct gp_recorder *r)
{
    int halved = gp_windows_halve(&r->windows);

    r->window_ns *= halved ? 2 : 1;
    if (halved < 0)
        r->out_of_memory = true;
}

/* Once per window, a few µs: file it away, and add what it touched to the total. */
static void close_window(struct gp_recorder *r, uint64_t end_ns)
{
    uint64_t began_ns = r->current_end_ns - r->window_ns;
    struct gp_window window = {
        .start_ns = began_ns - r->start_ns,
        .length_ns = end_ns - began_ns,
        .sent = r->current_sent,
        .ok = r->current_ok,
        .failed = r->current_failed,
    };

    if (gp_windows_append(&r->windows, &window, &r->current) != 0)
        r->out_of_memory = true;
    halve(r);
    gp_histogram_add(&r->latency, &r->current);
    gp_histogram_reset(&r->current);
    r->current_sent = r->current_ok = r->current_failed = 0;
    r->current_end_ns += r->window_ns;
}

/* Close every window that was over at `now_ns`; in a stall there may be many, and they are empty. */
static void rotate(struct gp_recorder *r, uint64_t now_ns)
{
    while (now_ns >= r->current_end_ns)
        close_window(r, r->current_end_ns);
}

/* After the end a completion counts as outside though it may have been read late: its window is closed. */
static bool is_inside(const struct gp_recorder *r, uint64_t time_ns)
{
    return !r->ended && time_ns >= r->start_ns && time_ns < r->end_ns;
}

void gp_recorder_end(struct gp_recorder *r, uint64_t end_ns)
{
    assert(end_ns >= r->start_ns);
    r->end_ns = end_ns;
    rotate(r, end_ns);
    if (end_ns > r->current_end_ns - r->window_ns || r->current_ok + r->current_failed + r->current_sent > 0)
        close_window(r, end_ns);
    r->ended = true;
}

/* --- calls --- */

/* Bursts are told by what the client could have sent one by one. Calls for which there was no room before
 * leave together rightly. */
static void note_burst(struct gp_recorder *r, uint64_t now_ns, uint32_t count, uint32_t held)
{
    uint32_t burst = count - held;

    gp_histogram_record(&r->gap, now_ns - r->last_sent_ns);
    gp_histogram_record_many(&r->gap, 0, count - 1);
    r->last_sent_ns = now_ns;
    r->bursts += burst > 0;
    r->burst_calls += burst;
    if (burst > r->largest_burst)
        r->largest_burst = burst;
}

void gp_recorder_sent(struct gp_recorder *r, uint64_t now_ns, uint32_t count, uint32_t held)
{
    if (!is_inside(r, now_ns))
        return;
    rotate(r, now_ns);
    r->current_sent += count;
    if (r->open_loop)
        note_burst(r, now_ns, count, held);
}

void gp_recorder_dropped(struct gp_recorder *r)
{
    r->not_sent++;
}

static void count_in_window(struct gp_recorder *r, const struct gp_event *event)
{
    bool ok = event->class == GP_CLASS_OK;

    /* A batch may hold completions a little out of order: one that is late for its
     * window counts in this one. */
    if (event->done_ns >= r->current_end_ns)
        rotate(r, event->done_ns);
    r->current_ok += ok;
    r->current_failed += !ok;
    r->ok_in_window += ok;
    r->all_in_window++;
}

/* How late it was sent, in the one histogram or the other; not of a call that never came back to tell. */
static void record_lateness(struct gp_recorder *r, const struct gp_event *event, const struct gp_plan *plan)
{
    uint64_t late_ns = event->sent_ns > plan->intended_ns ? event->sent_ns - plan->intended_ns : 0;

    if (event->sent_ns == 0)
        return;
    if (plan->held || event->held)
        gp_histogram_record(&r->queued, late_ns);
    else if (r->open_loop)
        gp_histogram_record(&r->lag, late_ns);
}

static void record_outcome(struct gp_recorder *r, const struct gp_event *event, const struct gp_plan *plan,
                           bool inside)
{
    uint64_t service_ns = event->done_ns - event->sent_ns;
    uint64_t latency_ns = r->open_loop ? event->done_ns - plan->intended_ns : service_ns;

    if (event->class != GP_CLASS_OK) {
        gp_histogram_record(&r->errors, latency_ns);
        return;
    }
    gp_histogram_record(inside ? &r->current : &r->latency, latency_ns);
    if (r->open_loop)
        gp_histogram_record(&r->service, service_ns);
}

void gp_recorder_record(struct gp_recorder *r, const struct gp_event *event, const struct gp_plan *plan)
{
    bool inside = is_inside(r, event->done_ns);

    assert((unsigned)event->class < GP_CLASS_COUNT);
    if (inside)
        count_in_window(r, event);
    if (!plan->measured)
        return;
    r->classes[event->class]++;
    record_lateness(r, event, plan);
    if (event->class != GP_CLASS_IN_FLIGHT_AT_END)
        record_outcome(r, event, plan, inside);
}

/* --- after the run --- */

static void lengthen(struct gp_recorder *r, uint64_t window_ns)
{
    for (; r->window_ns < window_ns; r->window_ns *= 2)
        if (gp_windows_join(&r->windows) != 0)
            r->out_of_memory = true;
}

void gp_recorder_merge(struct gp_recorder *into, struct gp_recorder *from)
{
    assert(into->start_ns == from->start_ns);
    lengthen(into, from->window_ns);
    lengthen(from, into->window_ns);
    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        into->classes[i] += from->classes[i];
    gp_histogram_add(&into->latency, &from->latency);
    gp_histogram_add(&into->errors, &from->errors);
    gp_histogram_add(&into->service, &from->service);
    gp_histogram_add(&into->lag, &from->lag);
    gp_histogram_add(&into->queued, &from->queued);
    gp_histogram_add(&into->gap, &from->gap);
    into->not_sent += from->not_sent;
    into->ok_in_window += from->ok_in_window;
    into->all_in_window += from->all_in_window;
    into->bursts += from->bursts;
    into->burst_calls += from->burst_calls;
    if (from->largest_burst > into->largest_burst)
        into->largest_burst = from->largest_burst;
    if (from->end_ns > into->end_ns)
        into->end_ns = from->end_ns;
    if (gp_windows_merge(&into->windows, &from->windows) != 0 || from->out_of_memory)
        into->out_of_memory = true;
}

static struct gp_histogram move(struct gp_histogram *histogram)
{
    struct gp_histogram moved = *histogram;

    gp_histogram_init(histogram);
    return moved;
}

void gp_recorder_move(struct gp_recorder *r, struct gp_run_result *result)
{
    if (gp_windows_fold_tail(&r->windows, r->window_ns) != 0)
        r->out_of_memory = true;
    memcpy(result->classes, r->classes, sizeof result->classes);
    result->not_sent = r->not_sent;
    result->latency = move(&r->latency);
    result->errors = move(&r->errors);
    result->service = move(&r->service);
    result->lag = move(&r->lag);
    result->queued = move(&r->queued);
    result->gap = move(&r->gap);
    result->bursts = r->bursts;
    result->burst_calls = r->burst_calls;
    result->largest_burst = r->largest_burst;
    result->ok_in_window = r->ok_in_window;
    result->all_in_window = r->all_in_window;
    result->window_ns = r->end_ns - r->start_ns;
    result->windows = r->windows;
    r->windows = (struct gp_windows){0};
}
