/* windows: nobody who reads while another appends sees half a window, and nothing is lost or seen twice. */
#include "load/windows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "check.h"

#define WINDOWS 3000u

static struct gp_windows shared;
static atomic_bool done;

static void record(struct gp_histogram *histogram, uint64_t window)
{
    for (uint64_t i = 0; i <= window % 50; i++)
        gp_histogram_record(histogram, 1 + window % 1000 + i * i);
}

static void *append_all(void *unused)
{
    struct gp_histogram latencies;

    gp_histogram_init(&latencies);
    for (uint64_t i = 0; i < WINDOWS; i++) {
        record(&latencies, i);
        CHECK(gp_windows_append(&shared, &(struct gp_window){.start_ns = i, .ok = latencies.count},
                                &latencies) == 0);
        gp_histogram_reset(&latencies);
    }
    gp_histogram_fini(&latencies);
    atomic_store(&done, true);
    return unused;
}

static uint64_t calls_of(size_t windows)
{
    uint64_t calls = 0;

    for (size_t i = 0; i < windows; i++)
        calls += i % 50 + 1;
    return calls;
}

static void reading_while_another_appends(void)
{
    struct gp_histogram seen, all;
    pthread_t writer;
    size_t count = 0;
    bool last;

    gp_histogram_init(&seen);
    gp_histogram_init(&all);
    CHECK(pthread_create(&writer, NULL, append_all, NULL) == 0);
    do {
        last = atomic_load(&done);
        count = gp_windows_read(&shared, count, &seen);
        CHECK(seen.count == calls_of(count));
    } while (!last);
    pthread_join(writer, NULL);
    CHECK(count == WINDOWS);
    for (uint64_t i = 0; i < WINDOWS; i++)
        record(&all, i);
    for (uint64_t value = 0; value < 4000; value++)
        CHECK(seen.counts[gp_histogram_slot(value)] == all.counts[gp_histogram_slot(value)]);
    for (size_t i = 0; i < WINDOWS; i++)
        CHECK(gp_windows_at(&shared, i)->start_ns == i && gp_windows_at(&shared, i)->ok == i % 50 + 1);
    gp_histogram_fini(&seen);
    gp_histogram_fini(&all);
    gp_windows_fini(&shared);
}

static void an_empty_list(void)
{
    struct gp_windows none = {0};
    struct gp_histogram histogram;

    gp_histogram_init(&histogram);
    CHECK(gp_windows_read(&none, 0, &histogram) == 0 && histogram.count == 0);
    CHECK(gp_windows_fold_tail(&none, 100) == 0);
    gp_windows_fini(&none);
}

int main(void)
{
    reading_while_another_appends();
    an_empty_list();
    return 0;
}
