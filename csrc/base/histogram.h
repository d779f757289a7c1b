/* Latencies in the layout of HdrHistogram (Gil Tene): 3 significant digits from 1 ns to 1 h in fixed memory.
 *
 * One writer each; memory (270 KB) is allocated at the first record; merging is addition, so histograms of
 * threads, windows and runs can be joined exactly. A value above an hour is counted as overflow and in the
 * count, the sum and the maximum, but in no bucket. */
#ifndef GP_BASE_HISTOGRAM_H
#define GP_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define GP_HISTOGRAM_SUB_BUCKETS 2048u /* 3 digits: a bucket is at most 1/1024 of its value wide */
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
void gp_histogram_record(struct gp_histogram *histogram, uint64_t value_ns);
void gp_histogram_record_many(struct gp_histogram *histogram, uint64_t value_ns, uint64_t count);
void gp_histogram_add(struct gp_histogram *into, const struct gp_histogram *from);
void gp_histogram_reset(
    struct gp_histogram *histogram); /* to empty; keeps the memory, clears what was touched */

uint32_t gp_histogram_slot(uint64_t value_ns);     /* where a value in range is counted */
uint64_t gp_histogram_slot_low_ns(uint32_t slot);  /* the smallest value counted there */
uint64_t gp_histogram_slot_high_ns(uint32_t slot); /* the largest */

/* The value at or below which a share `q` of what was recorded lies, by nearest rank, inside [min, max].
 * 0 when empty. */
uint64_t gp_histogram_quantile_ns(const struct gp_histogram *histogram, double q);

/* The used slots as (slot, count) pairs in rising order: the sparse form in which histograms are kept and
 * cross into Python. Returns their number; writes at most `capacity` of them (entries may be NULL when
 * capacity is 0). */
size_t gp_histogram_export(const struct gp_histogram *histogram, struct gp_histogram_entry *entries,
                           size_t capacity);

#endif
