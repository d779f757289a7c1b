/* histogram: where a value is counted, and what can be read back from the counts. One writer, no locks. */
#include "base/histogram.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values below 2048 have a slot each. Every further power of two is cut into 1024: bucket b holds the values
 * v with v >> b in [1024, 2048). The hour, 3.6e12, is below 2^42 = 2048 << 31, hence 32 buckets; the first
 * takes two halves and the others one. */
#define HALF (GP_HISTOGRAM_SUB_BUCKETS / 2)
#define BUCKETS 32u

_Static_assert(GP_HISTOGRAM_SLOTS == (BUCKETS + 1) * HALF, "slots follow from buckets");
_Static_assert(GP_HISTOGRAM_MAX_NS < (uint64_t)GP_HISTOGRAM_SUB_BUCKETS << (BUCKETS - 1), "the hour fits");
_Static_assert(GP_HISTOGRAM_MAX_NS >= (uint64_t)GP_HISTOGRAM_SUB_BUCKETS << (BUCKETS - 2),
               "and needs them all");

void gp_histogram_init(struct gp_histogram *histogram)
{
    *histogram = (struct gp_histogram){.min_ns = UINT64_MAX, .low = GP_HISTOGRAM_SLOTS};
}

void gp_histogram_fini(struct gp_histogram *histogram)
{
    free(histogram->counts);
    gp_histogram_init(histogram);
}

static inline void touch(struct gp_histogram *histogram, uint32_t low, uint32_t high)
{
    if (low < histogram->low)
        histogram->low = low;
    if (high > histogram->high)
        histogram->high = high;
}

static inline void widen(struct gp_histogram *histogram, uint64_t min_ns, uint64_t max_ns)
{
    if (min_ns < histogram->min_ns)
        histogram->min_ns = min_ns;
    if (max_ns > histogram->max_ns)
        histogram->max_ns = max_ns;
}

static inline int has_counts(struct gp_histogram *histogram)
{
    if (__builtin_expect(!histogram->counts, 0))
        histogram->counts = calloc(GP_HISTOGRAM_SLOTS, sizeof *histogram->counts);
    return histogram->counts != NULL;
}

void gp_histogram_record_rare(struct gp_histogram *histogram, uint64_t value_ns)
{
    if (value_ns <= GP_HISTOGRAM_MAX_NS && has_counts(histogram)) {
        gp_histogram_record(histogram, value_ns);
        return;
    }
    histogram->count++;
    histogram->sum_ns += value_ns;
    histogram->overflow++;
    widen(histogram, value_ns, value_ns);
}

void gp_histogram_record_many(struct gp_histogram *histogram, uint64_t value_ns, uint64_t count)
{
    if (count == 0)
        return;
    gp_histogram_record(histogram, value_ns);
    histogram->count += count - 1;
    histogram->sum_ns += (count - 1) * value_ns;
    if (value_ns > GP_HISTOGRAM_MAX_NS || !histogram->counts)
        histogram->overflow += count - 1;
    else
        histogram->counts[gp_histogram_slot(value_ns)] += count - 1;
}

void gp_histogram_add(struct gp_histogram *into, const struct gp_histogram *from)
{
    assert(into != from);
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    into->overflow += from->overflow;
    widen(into, from->min_ns, from->max_ns);
    if (from->low >= from->high)
        return;
    if (!has_counts(into)) {
        into->overflow += from->count - from->overflow;
        return;
    }
    for (uint32_t slot = from->low; slot < from->high; slot++)
        into->counts[slot] += from->counts[slot];
    touch(into, from->low, from->high);
}

void gp_histogram_reset(struct gp_histogram *histogram)
{
    uint64_t *counts = histogram->counts;

    if (histogram->low < histogram->high)
        memset(counts + histogram->low, 0, (histogram->high - histogram->low) * sizeof *counts);
    gp_histogram_init(histogram);
    histogram->counts = counts;
}

static uint32_t bucket_of_slot(uint32_t slot)
{
    return slot < GP_HISTOGRAM_SUB_BUCKETS ? 0 : slot / HALF - 1;
}

uint64_t gp_histogram_slot_low_ns(uint32_t slot)
{
    assert(slot < GP_HISTOGRAM_SLOTS);
    uint32_t bucket = bucket_of_slot(slot);

    return (uint64_t)(slot - bucket * HALF) << bucket;
}

uint64_t gp_histogram_slot_high_ns(uint32_t slot)
{
    return gp_histogram_slot_low_ns(slot) + (UINT64_C(1) << bucket_of_slot(slot)) - 1;
}

/* ceil(q * count), but a product that is a whole number save for rounding counts as that number: 0.07 * 100
 * is 7.000000000000001 in doubles and means rank 7. */
static uint64_t nearest_rank(uint64_t count, double q)
{
    double exact = q * (double)count;
    double whole = nearbyint(exact);
    double rank = fabs(exact - whole) <= exact * 0x1p-51 ? whole : ceil(exact);

    if (rank < 1)
        return 1;
    return rank < (double)count ? (uint64_t)rank : count;
}

uint64_t gp_histogram_quantile_ns(const struct gp_histogram *histogram, double q)
{
    assert(q >= 0 && q <= 1);
    if (histogram->count == 0)
        return 0;
    uint64_t rank = nearest_rank(histogram->count, q);
    if (rank == 1)
        return histogram->min_ns; /* known exactly; so is the last, by the clamp below */

    uint64_t seen = 0;
    for (uint32_t slot = histogram->low; slot < histogram->high; slot++) {
        seen += histogram->counts[slot];
        if (seen >= rank) {
            uint64_t high_ns = gp_histogram_slot_high_ns(slot);
            return high_ns < histogram->max_ns ? high_ns : histogram->max_ns;
        }
    }
    return histogram->max_ns; /* the rank lies among the overflow */
}

size_t gp_histogram_export(const struct gp_histogram *histogram, struct gp_histogram_entry *entries,
                           size_t capacity)
{
    size_t used = 0;

    for (uint32_t slot = histogram->low; slot < histogram->high; slot++) {
        if (histogram->counts[slot] == 0)
            continue;
        if (used < capacity)
            entries[used] = (struct gp_histogram_entry){.slot = slot, .count = histogram->counts[slot]};
        used++;
    }
    return used;
}
