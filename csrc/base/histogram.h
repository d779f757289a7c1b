/* Latencies in the layout of HdrHistogram (Gil Tene): 3 significant digits from 1 ns to 1 h in fixed memory.
 *
 * One writer each; memory (270 KB) is allocated at the first record; merging is addition, so histograms of
 * threads, windows and runs can be joined exactly. A value above an hour is counted as overflow and in the
 * count, the sum and the maximum, but in no bucket. */
#ifndef GP_BASE_HISTOGRAM_H
#define GP_BASE_HISTOGRAM_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define GP_HISTOGRAM_SUB_BITS 11
#define GP_HISTOGRAM_SUB_BUCKETS                                                                             \
    (1u << GP_HISTOGRAM_SUB_BITS) /* 2048: 3 digits: a bucket is at most 1/1024 of its value wide */
#define GP_HISTOGRAM_MAX_NS UINT64_C(3600000000000)
#define GP_HISTOGRAM_SLOTS 33792u

struct gp_histogram {
    uint64_t *counts;                /* GP_HISTOGRAM_SLOTS of them; NULL until the first record */
    uint64_t count;                  /* everything recorded, overflow included */
    uint64_t overflow;               /* values above GP_HISTOGRAM_MAX_NS, or met when memory ran out */
    uint64_t sum_ns, min_ns, max_ns; /* min_ns is UINT64_MAX while empty */
    uint32_t low, high;              /* the slots touched are in [low, high); low >= high while none is */
};

struct gp_histogram_entry {
    uint64_t slot;
    uint64_t count;
};

void gp_histogram_init(struct gp_histogram *histogram);
void gp_histogram_fini(struct gp_histogram *histogram);
static inline void gp_histogram_record(struct gp_histogram *histogram, uint64_t value_ns);
void gp_histogram_record_many(struct gp_histogram *histogram, uint64_t value_ns, uint64_t count);
void gp_histogram_add(struct gp_histogram *into, const struct gp_histogram *from);
void gp_histogram_reset(struct gp_histogram *histogram); /* to empty; keeps the memory */

static inline uint32_t gp_histogram_slot(uint64_t value_ns); /* where a value in range is counted */
uint64_t gp_histogram_slot_low_ns(uint32_t slot);            /* the smallest value counted there */
uint64_t gp_histogram_slot_high_ns(uint32_t slot);           /* the largest */

/* The value at or below which a share `q` of what was recorded lies, by nearest rank, inside [min, max].
 * 0 when empty. */
uint64_t gp_histogram_quantile_ns(const struct gp_histogram *histogram, double q);

/* The used slots as (slot, count) pairs in rising order: the sparse form in which histograms are kept and
 * cross into Python. Returns their number; writes at most `capacity` of them (entries may be NULL when
 * capacity is 0). */
size_t gp_histogram_export(const struct gp_histogram *histogram, struct gp_histogram_entry *entries,
                           size_t capacity);

/* Here for the compiler's sake, for they are on the path of every call: the rest of the layout is in
 * histogram.c. */

/* The first value, and those that have no slot. */
void gp_histogram_record_rare(struct gp_histogram *histogram, uint64_t value_ns);

static inline uint32_t gp_histogram_slot(uint64_t value_ns)
{
    assert(value_ns <= GP_HISTOGRAM_MAX_NS);
    uint32_t bucket =
        64u - GP_HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(value_ns | (GP_HISTOGRAM_SUB_BUCKETS - 1));

    return bucket * (GP_HISTOGRAM_SUB_BUCKETS / 2) + (uint32_t)(value_ns >> bucket);
}

static inline void gp_histogram_record(struct gp_histogram *histogram, uint64_t value_ns)
{
    if (__builtin_expect(value_ns > GP_HISTOGRAM_MAX_NS || !histogram->counts, 0)) {
        gp_histogram_record_rare(histogram, value_ns);
        return;
    }
    uint32_t slot = gp_histogram_slot(value_ns);

    histogram->counts[slot]++;
    histogram->count++;
    histogram->sum_ns += value_ns;
    if (value_ns < histogram->min_ns)
        histogram->min_ns = value_ns;
    if (value_ns > histogram->max_ns)
        histogram->max_ns = value_ns;
    if (slot < histogram->low)
        histogram->low = slot;
    if (slot >= histogram->high)
        histogram->high = slot + 1;
}

#endif
