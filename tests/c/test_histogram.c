/* Tests of base/histogram: the layout, and everything read back against the sorted values themselves. */
#include "base/histogram.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "check.h"

static void slots_tile_the_range(void)
{
    CHECK(gp_histogram_slot_low_ns(0) == 0 && gp_histogram_slot_high_ns(0) == 0);
    for (uint32_t slot = 0; slot + 1 < GP_HISTOGRAM_SLOTS; slot++)
        CHECK(gp_histogram_slot_high_ns(slot) + 1 == gp_histogram_slot_low_ns(slot + 1));
    CHECK(gp_histogram_slot_high_ns(GP_HISTOGRAM_SLOTS - 1) >= GP_HISTOGRAM_MAX_NS);
    CHECK(gp_histogram_slot(GP_HISTOGRAM_MAX_NS) < GP_HISTOGRAM_SLOTS);
    for (uint64_t value = 0; value < 2048; value++)
        CHECK(gp_histogram_slot(value) == value);
}

static void slots_find_their_values_within_a_thousandth(void)
{
    for (uint32_t slot = 0; slot < GP_HISTOGRAM_SLOTS; slot++) {
        uint64_t low = gp_histogram_slot_low_ns(slot), high = gp_histogram_slot_high_ns(slot);

        if (low > GP_HISTOGRAM_MAX_NS)
            break;
        CHECK(gp_histogram_slot(low) == slot);
        if (high <= GP_HISTOGRAM_MAX_NS)
            CHECK(gp_histogram_slot(high) == slot);
        CHECK((high - low) * 1024 <= low); /* the error of taking any value of the slot for any other */
    }
}

static void empty_is_empty(void)
{
    struct gp_histogram histogram;

    gp_histogram_init(&histogram);
    CHECK(histogram.counts == NULL && histogram.count == 0);
    CHECK(histogram.min_ns == UINT64_MAX && histogram.max_ns == 0 && histogram.low >= histogram.high);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.5) == 0);
    CHECK(gp_histogram_export(&histogram, NULL, 0) == 0);
    gp_histogram_reset(&histogram);
    gp_histogram_fini(&histogram);
    gp_histogram_fini(&histogram);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Spread evenly over the orders of magnitude, so that every bucket is met. */
static uint64_t any_value(struct gp_random *random)
{
    return (uint64_t)exp(gp_random_unit(random) * log((double)GP_HISTOGRAM_MAX_NS));
}

static void check_quantiles(const struct gp_histogram *histogram, const uint64_t *sorted, uint64_t n)
{
    for (uint64_t rank = 1; rank <= n; rank++) {
        uint64_t got = gp_histogram_quantile_ns(histogram, (double)rank / (double)n);
        uint64_t truth = sorted[rank - 1];

        CHECK(got >= truth && (got - truth) * 1024 <= truth);
        CHECK(got >= sorted[0] && got <= sorted[n - 1]);
    }
    CHECK(gp_histogram_quantile_ns(histogram, 0) == sorted[0]);
    CHECK(gp_histogram_quantile_ns(histogram, 1) == sorted[n - 1]);
}

static void quantiles_are_nearest_rank(void)
{
    static const uint64_t sizes[] = {1, 2, 3, 7, 10, 99, 100, 101, 1000};
    struct gp_random random;
    uint64_t values[1000];
    struct gp_histogram histogram;

    gp_random_init(&random, 5);
    gp_histogram_init(&histogram);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s], sum = 0;

        for (uint64_t i = 0; i < n; i++) {
            values[i] = any_value(&random);
            sum += values[i];
            gp_histogram_record(&histogram, values[i]);
        }
        qsort(values, n, sizeof *values, by_value);
        CHECK(histogram.count == n && histogram.sum_ns == sum && histogram.overflow == 0);
        CHECK(histogram.min_ns == values[0] && histogram.max_ns == values[n - 1]);
        check_quantiles(&histogram, values, n);
        gp_histogram_reset(&histogram);
    }
    gp_histogram_fini(&histogram);
}

/* Small values are exact, so ranks can be told apart: 1..100, where 0.07 * 100 is
 * a hair above 7 in doubles. */
static void ranks_survive_rounding(void)
{
    struct gp_histogram histogram;

    gp_histogram_init(&histogram);
    for (uint64_t value = 1; value <= 100; value++)
        gp_histogram_record(&histogram, value);
    for (int percent = 1; percent <= 100; percent++)
        CHECK(gp_histogram_quantile_ns(&histogram, percent / 100.0) == (uint64_t)percent);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.501) == 51);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.999) == 100);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.001) == 1);
    gp_histogram_fini(&histogram);
}

/* One slot, wide: what lies beyond the extremes was never measured and must not be told. */
static void quantiles_stay_inside_min_and_max(void)
{
    struct gp_histogram histogram;
    uint64_t low = gp_histogram_slot_low_ns(30000);

    gp_histogram_init(&histogram);
    for (uint64_t i = 100; i < 200; i++)
        gp_histogram_record(&histogram, low + i);
    for (int percent = 0; percent <= 100; percent++) {
        uint64_t got = gp_histogram_quantile_ns(&histogram, percent / 100.0);
        CHECK(got >= low + 100 && got <= low + 199);
    }
    CHECK(gp_histogram_quantile_ns(&histogram, 0) == low + 100);
    gp_histogram_fini(&histogram);
}

static int equal(const struct gp_histogram *a, const struct gp_histogram *b)
{
    return a->count == b->count && a->overflow == b->overflow && a->sum_ns == b->sum_ns &&
           a->min_ns == b->min_ns && a->max_ns == b->max_ns && a->low == b->low && a->high == b->high &&
           memcmp(a->counts, b->counts, GP_HISTOGRAM_SLOTS * sizeof *a->counts) == 0;
}

static void adding_is_recording_it_all_in_one(void)
{
    struct gp_random random;
    struct gp_histogram parts[3], sum, all, empty;

    gp_random_init(&random, 8);
    gp_histogram_init(&sum);
    gp_histogram_init(&all);
    gp_histogram_init(&empty);
    for (int i = 0; i < 3; i++)
        gp_histogram_init(&parts[i]);
    for (int i = 0; i < 3000; i++) {
        uint64_t value = any_value(&random) + (i % 500 == 0 ? GP_HISTOGRAM_MAX_NS : 0);
        gp_histogram_record(&parts[gp_random_below(&random, 3)], value);
        gp_histogram_record(&all, value);
    }
    for (int i = 0; i < 3; i++)
        gp_histogram_add(&sum, &parts[i]);
    gp_histogram_add(&sum, &empty);
    CHECK(all.overflow == 6);
    CHECK(equal(&sum, &all));
    CHECK(empty.counts == NULL);

    gp_histogram_add(&empty, &sum);
    CHECK(equal(&empty, &all));
    gp_histogram_fini(&sum);
    gp_histogram_fini(&all);
    gp_histogram_fini(&empty);
    for (int i = 0; i < 3; i++)
        gp_histogram_fini(&parts[i]);
}

static void reset_keeps_the_memory_and_nothing_else(void)
{
    struct gp_histogram histogram;

    gp_histogram_init(&histogram);
    gp_histogram_record(&histogram, 0);
    gp_histogram_record(&histogram, GP_HISTOGRAM_MAX_NS);
    gp_histogram_record(&histogram, GP_HISTOGRAM_MAX_NS + 1);
    uint64_t *counts = histogram.counts;
    gp_histogram_reset(&histogram);
    CHECK(histogram.counts == counts && histogram.count == 0 && histogram.overflow == 0 &&
          histogram.sum_ns == 0);
    CHECK(histogram.min_ns == UINT64_MAX && histogram.max_ns == 0 && histogram.low >= histogram.high);
    for (uint32_t slot = 0; slot < GP_HISTOGRAM_SLOTS; slot++)
        CHECK(counts[slot] == 0);
    gp_histogram_record(&histogram, 77);
    CHECK(histogram.low == 77 && histogram.high == 78 && gp_histogram_quantile_ns(&histogram, 0.5) == 77);
    gp_histogram_fini(&histogram);
}

static void overflow_is_counted_but_in_no_slot(void)
{
    struct gp_histogram histogram;
    struct gp_histogram_entry entries[2];
    uint64_t beyond = GP_HISTOGRAM_MAX_NS + 1;

    gp_histogram_init(&histogram);
    gp_histogram_record(&histogram, beyond);
    CHECK(histogram.count == 1 && histogram.overflow == 1 && histogram.low >= histogram.high);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.5) == beyond);
    gp_histogram_record(&histogram, GP_HISTOGRAM_MAX_NS);
    gp_histogram_record(&histogram, 1000);
    CHECK(histogram.count == 3 && histogram.overflow == 1);
    CHECK(histogram.min_ns == 1000 && histogram.max_ns == beyond);
    CHECK(histogram.sum_ns == beyond + GP_HISTOGRAM_MAX_NS + 1000);
    CHECK(gp_histogram_export(&histogram, entries, 2) == 2);
    CHECK(entries[0].slot == 1000 && entries[0].count == 1);
    CHECK(entries[1].slot == gp_histogram_slot(GP_HISTOGRAM_MAX_NS) && entries[1].count == 1);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.3) == 1000);
    CHECK(gp_histogram_quantile_ns(&histogram, 0.6) >= GP_HISTOGRAM_MAX_NS);
    CHECK(gp_histogram_quantile_ns(&histogram, 1) == beyond);
    gp_histogram_fini(&histogram);
}

static void export_holds_every_count(void)
{
    enum { MOST = 4000 };
    struct gp_random random;
    struct gp_histogram histogram, rebuilt;
    static struct gp_histogram_entry entries[MOST];

    gp_random_init(&random, 9);
    gp_histogram_init(&histogram);
    gp_histogram_init(&rebuilt);
    for (int i = 0; i < 4000; i++)
        gp_histogram_record(&histogram, any_value(&random) / 2 + 1);
    size_t used = gp_histogram_export(&histogram, NULL, 0);
    CHECK(used > 100 && used < MOST);
    entries[used].count = 123456;
    CHECK(gp_histogram_export(&histogram, entries, used) == used);
    CHECK(entries[used].count == 123456);

    for (size_t i = 0; i < used; i++) {
        CHECK(entries[i].count > 0 && (i == 0 || entries[i].slot > entries[i - 1].slot));
        for (uint64_t n = 0; n < entries[i].count; n++)
            gp_histogram_record(&rebuilt, gp_histogram_slot_low_ns((uint32_t)entries[i].slot));
    }
    CHECK(rebuilt.count == histogram.count && rebuilt.low == histogram.low && rebuilt.high == histogram.high);
    CHECK(memcmp(rebuilt.counts, histogram.counts, GP_HISTOGRAM_SLOTS * sizeof *rebuilt.counts) == 0);

    entries[1].count = 654321;
    CHECK(gp_histogram_export(&histogram, entries, 1) == used); /* says how many there are, writes one */
    CHECK(entries[1].count == 654321);
    gp_histogram_fini(&histogram);
    gp_histogram_fini(&rebuilt);
}

static void recording_many_is_recording_often(void)
{
    static const uint64_t values[] = {0, 5, 123456, GP_HISTOGRAM_MAX_NS, GP_HISTOGRAM_MAX_NS + 7};
    struct gp_histogram often, many;

    gp_histogram_init(&often);
    gp_histogram_init(&many);
    for (uint64_t count = 0; count < 5; count++) {
        gp_histogram_record_many(&many, values[count], count);
        for (uint64_t n = 0; n < count; n++)
            gp_histogram_record(&often, values[count]);
    }
    CHECK(many.count == 10 && many.count == often.count && many.sum_ns == often.sum_ns);
    CHECK(many.overflow == 4 && often.overflow == 4 && many.min_ns == 5 && many.max_ns == often.max_ns);
    CHECK(many.low == often.low && many.high == often.high);
    CHECK(memcmp(many.counts, often.counts, GP_HISTOGRAM_SLOTS * sizeof *many.counts) == 0);
    gp_histogram_fini(&often);
    gp_histogram_fini(&many);
}

int main(void)
{
    slots_tile_the_range();
    slots_find_their_values_within_a_thousandth();
    empty_is_empty();
    quantiles_are_nearest_rank();
    ranks_survive_rounding();
    quantiles_stay_inside_min_and_max();
    adding_is_recording_it_all_in_one();
    reset_keeps_the_memory_and_nothing_else();
    overflow_is_counted_but_in_no_slot();
    export_holds_every_count();
    recording_many_is_recording_often();
    return 0;
}
