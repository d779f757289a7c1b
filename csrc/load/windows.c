/* windows: the list of windows that are over. A window once appended is not changed while others may read it;
 * when the array is outgrown the old one stays for those who are in it. */
#include "load/windows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 40u

struct gp_window_block {
    struct gp_window_block *outgrown; /* the one before */
    size_t capacity;
    struct gp_window windows[];
};

static struct gp_window_block *grow(struct gp_windows *windows, struct gp_window_block *old, size_t count)
{
    size_t capacity = old ? 2 * old->capacity : FIRST_CAPACITY;
    struct gp_window_block *block = malloc(sizeof *block + capacity * sizeof *block->windows);

    if (!block)
        return NULL;
    block->outgrown = old;
    block->capacity = capacity;
    if (old)
        memcpy(block->windows, old->windows, count * sizeof *block->windows);
    atomic_store_explicit(&windows->block, block, memory_order_release);
    return block;
}

int gp_windows_append(struct gp_windows *windows, const struct gp_window *window,
                      const struct gp_histogram *latencies)
{
    size_t count = atomic_load_explicit(&windows->count, memory_order_relaxed);
    struct gp_window_block *block = atomic_load_explicit(&windows->block, memory_order_relaxed);
    int status;

    if (!block || count == block->capacity)
        block = grow(windows, block, count);
    if (!block)
        return -1;
    block->windows[count] = *window;
    status = gp_packed_from_histogram(&block->windows[count].latencies, latencies);
    atomic_store_explicit(&windows->count, count + 1, memory_order_release);
    return status;
}

size_t gp_windows_read(struct gp_windows *windows, size_t from, struct gp_histogram *into)
{
    /* In this order: the block is then at least as new as the count. */
    size_t count = atomic_load_explicit(&windows->count, memory_order_acquire);
    struct gp_window_block *block = atomic_load_explicit(&windows->block, memory_order_acquire);

    for (size_t i = from; i < count; i++) {
        struct gp_packed_reader reader = gp_packed_read(&block->windows[i].latencies);
        struct gp_histogram_entry entry;

        while (gp_packed_next(&reader, &entry))
            gp_histogram_record_many(into, gp_histogram_slot_high_ns((uint32_t)entry.slot), entry.count);
    }
    return count;
}

struct gp_window *gp_windows_at(const struct gp_windows *windows, size_t index)
{
    assert(index < windows->count);
    return &atomic_load_explicit(&windows->block, memory_order_relaxed)->windows[index];
}

static int merge_window(struct gp_window *into, const struct gp_window *from)
{
    into->sent += from->sent;
    into->ok += from->ok;
    into->failed += from->failed;
    if (from->length_ns > into->length_ns)
        into->length_ns = from->length_ns;
    return gp_packed_add(&into->latencies, &from->latencies);
}

/* A thread that ended earlier has fewer. */
int gp_windows_merge(struct gp_windows *into, const struct gp_windows *from)
{
    static const struct gp_histogram nothing = {.low = GP_HISTOGRAM_SLOTS};

    for (size_t i = 0; i < from->count; i++) {
        const struct gp_window *window = gp_windows_at(from, i);

        if (i == into->count &&
            gp_windows_append(into, &(struct gp_window){.start_ns = window->start_ns}, &nothing) != 0)
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
    tail->length_ns = 0;
    status = merge_window(&tail[-1], tail);
    gp_packed_fini(&tail->latencies);
    windows->count--;
    return status;
}

void gp_windows_fini(struct gp_windows *windows)
{
    struct gp_window_block *block = windows->block;

    for (size_t i = 0; i < windows->count; i++)
        gp_packed_fini(&gp_windows_at(windows, i)->latencies);
    while (block) {
        struct gp_window_block *outgrown = block->outgrown;

        free(block);
        block = outgrown;
    }
    windows->block = NULL;
    windows->count = 0;
}
