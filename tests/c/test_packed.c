/* packed: what comes out is what went in, and two together are what one would have been. */
#include "load/packed.h"

#include "base/random.h"
#include "check.h"

#define MOST 4000u

static void check_same(const struct gp_packed *packed, const struct gp_histogram_entry *entries, size_t count)
{
    struct gp_packed_reader reader = gp_packed_read(packed);
    struct gp_histogram_entry entry;
    size_t i = 0;

    CHECK(packed->count == count);
    while (gp_packed_next(&reader, &entry)) {
        CHECK(i < count && entry.slot == entries[i].slot && entry.count == entries[i].count);
        i++;
    }
    CHECK(i == count);
}

static void numbers_of_every_length_come_back(void)
{
    struct gp_histogram_entry entries[64 + 1];
    struct gp_packed packed;
    size_t count = 0;

    entries[count++] = (struct gp_histogram_entry){0, 1};
    for (unsigned bit = 0; bit < 64; bit++)
        entries[count++] = (struct gp_histogram_entry){1 + bit * 500, (UINT64_C(1) << bit) | 1};
    CHECK(gp_packed_init(&packed, entries, count) == 0);
    check_same(&packed, entries, count);
    gp_packed_fini(&packed);
    entries[0] = (struct gp_histogram_entry){GP_HISTOGRAM_SLOTS - 1, UINT64_MAX};
    CHECK(gp_packed_init(&packed, entries, 1) == 0);
    check_same(&packed, entries, 1);
    gp_packed_fini(&packed);
}

static void nothing_is_nothing(void)
{
    struct gp_packed packed, other = {0};
    struct gp_histogram histogram;

    gp_histogram_init(&histogram);
    CHECK(gp_packed_from_histogram(&packed, &histogram) == 0 && packed.bytes == NULL);
    check_same(&packed, NULL, 0);
    CHECK(gp_packed_add(&packed, &other) == 0);
    check_same(&packed, NULL, 0);
    gp_packed_fini(&packed);
}

static void record_some(struct gp_random *random, struct gp_histogram *histogram, struct gp_histogram *also)
{
    for (uint64_t i = gp_random_below(random, 3000); i > 0; i--) {
        uint64_t value_ns = 1 + (uint64_t)(gp_random_exponential(random) * 1e5);

        gp_histogram_record(histogram, value_ns);
        gp_histogram_record(also, value_ns);
    }
}

static void adding_is_recording_it_all_in_one(void)
{
    static struct gp_histogram_entry entries[MOST];
    struct gp_random random;

    gp_random_init(&random, 3);
    for (int round = 0; round < 50; round++) {
        struct gp_histogram parts[2], whole;
        struct gp_packed packed[2];
        size_t count;

        gp_histogram_init(&whole);
        for (int i = 0; i < 2; i++) {
            gp_histogram_init(&parts[i]);
            record_some(&random, &parts[i], &whole);
            CHECK(gp_packed_from_histogram(&packed[i], &parts[i]) == 0);
        }
        CHECK(gp_packed_add(&packed[0], &packed[1]) == 0);
        count = gp_histogram_export(&whole, entries, MOST);
        CHECK(count <= MOST);
        check_same(&packed[0], entries, count);
        for (int i = 0; i < 2; i++) {
            gp_histogram_fini(&parts[i]);
            gp_packed_fini(&packed[i]);
        }
        gp_histogram_fini(&whole);
    }
}

/* A second of calls: what it is for. */
static void a_window_takes_few_bytes(void)
{
    struct gp_histogram histogram;
    struct gp_random random;
    struct gp_packed packed;

    gp_random_init(&random, 4);
    gp_histogram_init(&histogram);
    for (int i = 0; i < 200000; i++)
        gp_histogram_record(&histogram, 50000 + (uint64_t)(gp_random_exponential(&random) * 1e5));
    CHECK(gp_packed_from_histogram(&packed, &histogram) == 0);
    CHECK(packed.count > 2000 && packed.size < 3 * packed.count);
    gp_packed_fini(&packed);
    gp_histogram_fini(&histogram);
}

int main(void)
{
    numbers_of_every_length_come_back();
    nothing_is_nothing();
    adding_is_recording_it_all_in_one();
    a_window_takes_few_bytes();
    return 0;
}
