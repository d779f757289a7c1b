/* recorder: the bookkeeping of finished calls. It decides nothing about sending and reads no clock. */
#include "load/recorder.h"

#include <assert.h>
#include <stdlib.h>
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

int gp_recorder_init(struct gp_recorder *recorder, uint64_t window_ns)
{
    *recorder = (struct gp_recorder){.start_ns = UINT64_MAX, .end_ns = UINT64_MAX, .window_ns = window_ns};
    gp_histogram_init(&recorder->latency);
    gp_histogram_init(&recorder->errors);
    gp_histogram_init(&recorder->current);
    /* A first value makes it allocate here instead of on the path of the first call. */
    gp_histogram_record(&recorder->current, 1);
    gp_histogram_reset(&recorder->current);
    return recorder->current.counts ? 0 : -1;
}

void gp_recorder_fini(struct gp_recorder *recorder)
{
    for (size_t i = 0; i < recorder->window_count; i++)
        free(recorder->windows[i].entries);
    free(recorder->windows);
    gp_histogram_fini(&recorder->latency);
    gp_histogram_fini(&recorder->errors);
    gp_histogram_fini(&recorder->current);
    *recorder = (struct gp_recorder){0};
}

void gp_recorder_start(struct gp_recorder *recorder, uint64_t start_ns, uint64_t end_ns)
{
    recorder->start_ns = start_ns;
    recorder->end_ns = end_ns;
    recorder->current_end_ns = start_ns + recorder->window_ns;
}

static struct gp_window *append_window(struct gp_recorder *recorder)
{
    if (recorder->window_count == recorder->window_capacity) {
        size_t capacity = recorder->window_capacity ? 2 * recorder->window_capacity : 2 * WINDOWS_PER_RUN;
        struct gp_window *windows = realloc(recorder->windows, capacity * sizeof *windows);

        if (!windows)
            return NULL;
        recorder->windows = windows;
        recorder->window_capacity = capacity;
    }
    return &recorder->windows[recorder->window_count++];
}

static int export_entries(struct gp_window *window, const struct gp_histogram *histogram)
{
    window->entry_count = gp_histogram_export(histogram, NULL, 0);
    if (window->entry_count == 0)
        return 0;
    window->entries = malloc(window->entry_count * sizeof *window->entries);
    if (!window->entries) {
        window->entry_count = 0;
        return -1;
    }
    gp_histogram_export(histogram, window->entries, window->entry_count);
    return 0;
}

/* Once per window, a few µs: file it away, and add what it touched to the total. */
static void close_window(struct gp_recorder *recorder, uint64_t end_ns)
{
    uint64_t began_ns = recorder->current_end_ns - recorder->window_ns;
    struct gp_window *window = append_window(recorder);

    if (window) {
        *window = (struct gp_window){
            .start_ns = began_ns - recorder->start_ns,
            .length_ns = end_ns - began_ns,
            .ok = recorder->current_ok,
            .failed = recorder->current_failed,
        };
    }
    if (!window || export_entries(window, &recorder->current) != 0)
        recorder->out_of_memory = true;
    gp_histogram_add(&recorder->latency, &recorder->current);
    gp_histogram_reset(&recorder->current);
    recorder->current_ok = recorder->current_failed = 0;
    recorder->current_end_ns += recorder->window_ns;
}

/* Close every window that was over at `now_ns`; in a stall there may be many, and they are empty. */
static void rotate(struct gp_recorder *recorder, uint64_t now_ns)
{
    while (now_ns >= recorder->current_end_ns)
        close_window(recorder, recorder->current_end_ns);
}

static void count_in_window(struct gp_recorder *recorder, const struct gp_event *event)
{
    bool ok = event->class == GP_CLASS_OK;

    /* A batch may hold completions a little out of order: one that is late for its window counts in this one.
     */
    if (event->done_ns >= recorder->current_end_ns)
        rotate(recorder, event->done_ns);
    recorder->current_ok += ok;
    recorder->current_failed += !ok;
    recorder->ok_in_window += ok;
    recorder->all_in_window++;
}

void gp_recorder_record(struct gp_recorder *recorder, const struct gp_event *event, bool measured)
{
    bool inside = event->done_ns >= recorder->start_ns && event->done_ns < recorder->end_ns;

    assert((unsigned)event->class < GP_CLASS_COUNT);
    if (inside)
        count_in_window(recorder, event);
    if (!measured)
        return;
    recorder->classes[event->class]++;
    if (event->class == GP_CLASS_IN_FLIGHT_AT_END)
        return;
    if (event->class != GP_CLASS_OK)
        gp_histogram_record(&recorder->errors, event->done_ns - event->sent_ns);
    else
        gp_histogram_record(inside ? &recorder->current : &recorder->latency,
                            event->done_ns - event->sent_ns);
}

void gp_recorder_end(struct gp_recorder *recorder, uint64_t end_ns)
{
    assert(end_ns >= recorder->start_ns);
    recorder->end_ns = end_ns;
    rotate(recorder, end_ns);
    if (end_ns > recorder->current_end_ns - recorder->window_ns ||
        recorder->current_ok + recorder->current_failed > 0)
        close_window(recorder, end_ns);
}

/* Two sorted lists into one. On lack of memory `into` stays as it was. */
static int merge_entries(struct gp_window *into, const struct gp_window *from)
{
    struct gp_histogram_entry *merged;
    size_t a = 0, b = 0, count = 0;

    if (from->entry_count == 0)
        return 0;
    merged = malloc((into->entry_count + from->entry_count) * sizeof *merged);
    if (!merged)
        return -1;
    while (a < into->entry_count || b < from->entry_count) {
        if (b == from->entry_count ||
            (a < into->entry_count && into->entries[a].slot < from->entries[b].slot)) {
            merged[count++] = into->entries[a++];
        } else {
            merged[count] = from->entries[b++];
            if (a < into->entry_count && into->entries[a].slot == merged[count].slot)
                merged[count].count += into->entries[a++].count;
            count++;
        }
    }
    free(into->entries);
    into->entries = merged;
    into->entry_count = count;
    return 0;
}

static int merge_window(struct gp_window *into, const struct gp_window *from)
{
    into->ok += from->ok;
    into->failed += from->failed;
    if (from->length_ns > into->length_ns)
        into->length_ns = from->length_ns;
    return merge_entries(into, from);
}

/* Windows of all threads began together, so they are merged by their index. A thread that ended earlier has
 * fewer. */
static int merge_windows(struct gp_recorder *into, const struct gp_recorder *from)
{
    for (size_t i = 0; i < from->window_count; i++) {
        if (i == into->window_count) {
            struct gp_window *window = append_window(into);

            if (!window)
                return -1;
            *window = (struct gp_window){.start_ns = from->windows[i].start_ns};
        }
        if (merge_window(&into->windows[i], &from->windows[i]) != 0)
            return -1;
    }
    return 0;
}

void gp_recorder_merge(struct gp_recorder *into, const struct gp_recorder *from)
{
    assert(into->start_ns == from->start_ns && into->window_ns == from->window_ns);
    for (size_t i = 0; i < GP_CLASS_COUNT; i++)
        into->classes[i] += from->classes[i];
    gp_histogram_add(&into->latency, &from->latency);
    gp_histogram_add(&into->errors, &from->errors);
    into->ok_in_window += from->ok_in_window;
    into->all_in_window += from->all_in_window;
    if (from->end_ns > into->end_ns)
        into->end_ns = from->end_ns;
    if (merge_windows(into, from) != 0 || from->out_of_memory)
        into->out_of_memory = true;
}

/* A last window of a few µs would tell wild rates: less than half a window joins the one before it. */
static void fold_tail(struct gp_recorder *recorder)
{
    struct gp_window *tail;

    if (recorder->window_count < 2)
        return;
    tail = &recorder->windows[recorder->window_count - 1];
    if (tail->length_ns >= recorder->window_ns / 2)
        return;
    tail[-1].length_ns += tail->length_ns;
    tail->length_ns = 0;
    if (merge_window(&tail[-1], tail) != 0)
        recorder->out_of_memory = true;
    free(tail->entries);
    recorder->window_count--;
}

void gp_recorder_move(struct gp_recorder *recorder, struct gp_run_result *result)
{
    fold_tail(recorder);
    memcpy(result->classes, recorder->classes, sizeof result->classes);
    result->latency = recorder->latency;
    result->errors = recorder->errors;
    result->ok_in_window = recorder->ok_in_window;
    result->all_in_window = recorder->all_in_window;
    result->window_ns = recorder->end_ns - recorder->start_ns;
    result->windows = recorder->windows;
    result->window_count = recorder->window_count;
    gp_histogram_init(&recorder->latency);
    gp_histogram_init(&recorder->errors);
    recorder->windows = NULL;
    recorder->window_count = recorder->window_capacity = 0;
}
