/* windows: the list of windows that are over. One that has been appended is changed only by joining, for
 * which the writer takes the list away from readers; when one of them has it, it is done after a later
 * append. */
#include "load/windows.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>

#define ROOM (2 * GP_WINDOWS_MOST) /* so many may come before the list must be taken away */

static bool try_lock(struct gp_windows *windows)
{
    return !atomic_exchange_explicit(&windows->busy, true, memory_order_acquire);
}

static void lock(struct gp_windows *windows)
{
    while (!try_lock(windows))
        sched_yield();
}

static void unlock(struct gp_windows *windows)
{
    atomic_store_explicit(&windows->busy, false, memory_order_release);
}

static int append_packed(struct gp_windows *windows, const struct gp_window *window)
{
    size_t count = atomic_load_explicit(&windows->count, memory_order_relaxed);

    if (!windows->windows)
        windows->windows = malloc(ROOM * sizeof *windows->windows);
    if (!windows->windows)
        return -1;
    assert(count < ROOM);
    windows->windows[count] = *window;
    atomic_store_explicit(&windows->count, count + 1, memory_order_release);
    return 0;
}

int gp_windows_append(struct gp_windows *windows, const struct gp_window *window,
                      const struct gp_histogram *latencies)
{
    struct gp_window appended = *window;
    int status = gp_packed_from_histogram(&appended.latencies, latencies);

    if (append_packed(windows, &appended) == 0)
        return status;
    gp_packed_fini(&appended.latencies);
    return -1;
}

static void read_packed(const struct gp_packed *packed, struct gp_histogram *into)
{
    struct gp_packed_reader reader = gp_packed_read(packed);
    struct gp_histogram_entry entry;

    while (gp_packed_next(&reader, &entry))
        gp_histogram_record_many(into, gp_histogram_slot_high_ns((uint32_t)entry.slot), entry.count);
}

void gp_windows_read(struct gp_windows *windows, struct gp_histogram *into)
{
    size_t count;

    lock(windows);
    count = atomic_load_explicit(&windows->count, memory_order_acquire);
    read_packed(&windows->unread, into);
    gp_packed_fini(&windows->unread);
    for (; windows->seen < count; windows->seen++)
        read_packed(&windows->windows[windows->seen].latencies, into);
    unlock(windows);
}

struct gp_window *gp_windows_at(const struct gp_windows *windows, size_t index)
{
    assert(index < windows->count);
    return &windows->windows[index];
}

static int add_window(struct gp_window *into, const struct gp_window *from)
{
    into->sent += from->sent;
    into->ok += from->ok;
    into->failed += from->failed;
    return gp_packed_add(&into->latencies, &from->latencies);
}

/* Of a pair of which one has been read, the other will be. */
static int join_seen(struct gp_windows *windows)
{
    int status = 0;

    if (windows->seen % 2 == 1 && windows->seen < windows->count)
        status = gp_packed_add(&windows->unread, &windows->windows[windows->seen].latencies);
    windows->seen = (windows->seen + 1) / 2;
    return status;
}

int gp_windows_join(struct gp_windows *windows)
{
    size_t count = windows->count;
    int status = join_seen(windows);

    for (size_t i = 0; i + 1 < count; i += 2) {
        struct gp_window *pair = &windows->windows[i];

        pair[0].length_ns += pair[1].length_ns;
        if (add_window(&pair[0], &pair[1]) != 0)
            status = -1;
        gp_packed_fini(&pair[1].latencies);
        windows->windows[i / 2] = pair[0];
    }
    if (count % 2 == 1)
        windows->windows[count / 2] = windows->windows[count - 1];
    atomic_store_explicit(&windows->count, (count + 1) / 2, memory_order_release);
    return status;
}

/* By whole pairs, so that all windows stay alike. */
int gp_windows_halve(struct gp_windows *windows)
{
    size_t count = atomic_load_explicit(&windows->count, memory_order_relaxed);
    int status;

    if (count < GP_WINDOWS_MOST || count % 2 == 1)
        return 0;
    if (count == ROOM)
        lock(windows);
    else if (!try_lock(windows))
        return 0;
    status = gp_windows_join(windows);
    unlock(windows);
    return status == 0 ? 1 : -1;
}

static int merge_window(struct gp_window *into, const struct gp_window *from)
{
    if (from->length_ns > into->length_ns)
        into->length_ns = from->length_ns;
    return add_window(into, from);
}

/* A thread that ended earlier has fewer. */
int gp_windows_merge(struct gp_windows *into, const struct gp_windows *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct gp_window *window = gp_windows_at(from, i);

        if (i == into->count && append_packed(into, &(struct gp_window){.start_ns = window->start_ns}) != 0)
            return -1;
        if (merge_window(gp_windows_at(into, i), window) != 0)
            return -1;
    }
    return 0;
}

int gp_windows_fold_tail(struct gp_windows *windows, uint64_t length_ns)
{
    struct gp_window *tail;
    int status;

    if (windows->count < 2)
        return 0;
    tail = gp_windows_at(windows, windows->count - 1);
    if (tail->length_ns >= length_ns / 2)
        return 0;
    tail[-1].length_ns += tail->length_ns;
    status = add_window(&tail[-1], tail);
    gp_packed_fini(&tail->latencies);
    windows->count--;
    return status;
}

void gp_windows_fini(struct gp_windows *windows)
{
    for (size_t i = 0; i < windows->count; i++)
        gp_packed_fini(&gp_windows_at(windows, i)->latencies);
    gp_packed_fini(&windows->unread);
    free(windows->windows);
    windows->windows = NULL;
    windows->count = windows->seen = 0;
}
