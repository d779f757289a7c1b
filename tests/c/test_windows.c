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

/* Windows of equal length, twice as long whenever they have been joined. */
static uint64_t append(struct gp_windows *windows, uint64_t start_ns, uint64_t length_ns, uint64_t number)
{
    struct gp_histogram latencies;
    int halved;

    gp_histogram_init(&latencies);
    record(&latencies, number);
    CHECK(gp_windows_append(windows,
                            &(struct gp_window){.start_ns = start_ns,
                                                .length_ns = length_ns,
                                                .sent = 2 * latencies.count,
                                                .ok = latencies.count,
                                                .failed = 1},
                            &latencies) == 0);
    gp_histogram_fini(&latencies);
    halved = gp_windows_halve(windows);
    CHECK(halved >= 0);
    return halved ? 2 * length_ns : length_ns;
}

static void *append_all(void *unused)
{
    uint64_t start_ns = 0, length_ns = 1;

    for (uint64_t i = 0; i < WINDOWS; i++) {
        uint64_t next_ns = append(&shared, start_ns, length_ns, i);

        start_ns += length_ns;
        length_ns = next_ns;
    }
    atomic_store(&done, true);
    return unused;
}

/* Nothing between them, nothing lost, all alike. */
static void check_windows(const struct gp_windows *windows, uint64_t calls)
{
    uint64_t end_ns = 0, sent = 0, ok = 0, failed = 0;

    CHECK(windows->count >= GP_WINDOWS_MOST / 2 && windows->count < 2 * GP_WINDOWS_MOST);
    for (size_t i = 0; i < windows->count; i++) {
        const struct gp_window *window = gp_windows_at(windows, i);
        struct gp_packed_reader reader = gp_packed_read(&window->latencies);
        struct gp_histogram_entry entry;
        uint64_t recorded = 0;

        CHECK(window->start_ns == end_ns && window->length_ns == gp_windows_at(windows, 0)->length_ns);
        end_ns += window->length_ns;
        sent += window->sent;
        ok += window->ok;
        failed += window->failed;
        while (gp_packed_next(&reader, &entry))
            recorded += entry.count;
        CHECK(recorded == window->ok);
    }
    CHECK(ok == calls && sent == 2 * calls && failed == WINDOWS);
}

static void check_all_seen(const struct gp_histogram *seen)
{
    struct gp_histogram all;

    gp_histogram_init(&all);
    for (uint64_t i = 0; i < WINDOWS; i++)
        record(&all, i);
    CHECK(seen->count == all.count);
    for (uint64_t value = 0; value < 4000; value++)
        CHECK(seen->counts[gp_histogram_slot(value)] == all.counts[gp_histogram_slot(value)]);
    check_windows(&shared, all.count);
    gp_histogram_fini(&all);
}

static void reading_while_another_appends(void)
{
    struct gp_histogram seen;
    pthread_t writer;
    bool last;

    gp_histogram_init(&seen);
    CHECK(pthread_create(&writer, NULL, append_all, NULL) == 0);
    do {
        last = atomic_load(&done);
        gp_windows_read(&shared, &seen);
    } while (!last);
    pthread_join(writer, NULL);
    check_all_seen(&seen);
    gp_histogram_fini(&seen);
    gp_windows_fini(&shared);
}

/* Also when it looks seldom, and between the halves of a pair. */
static void reading_now_and_then(uint64_t every)
{
    struct gp_histogram seen;
    uint64_t start_ns = 0, length_ns = 1;

    gp_histogram_init(&seen);
    for (uint64_t i = 0; i < WINDOWS; i++) {
        uint64_t next_ns = append(&shared, start_ns, length_ns, i);

        start_ns += length_ns;
        length_ns = next_ns;
        if (i % every == every - 1)
            gp_windows_read(&shared, &seen);
    }
    gp_windows_read(&shared, &seen);
    check_all_seen(&seen);
    gp_histogram_fini(&seen);
    gp_windows_fini(&shared);
}

/* The writer does not wait for one who reads. */
static void joining_is_put_off_while_somebody_reads(void)
{
    struct gp_windows windows = {0};

    atomic_store(&windows.busy, true);
    for (uint64_t i = 0; i < GP_WINDOWS_MOST + 1; i++)
        CHECK(append(&windows, i, 1, 0) == 1);
    atomic_store(&windows.busy, false);
    CHECK(windows.count == GP_WINDOWS_MOST + 1);
    CHECK(append(&windows, GP_WINDOWS_MOST + 1, 1, 0) == 2 && windows.count == GP_WINDOWS_MOST / 2 + 1);
    CHECK(!windows.busy);
    gp_windows_fini(&windows);
}

static void an_odd_one_stays_as_it_is(void)
{
    struct gp_windows windows = {0};

    for (uint64_t i = 0; i < 5; i++)
        append(&windows, i, 1, i);
    CHECK(gp_windows_join(&windows) == 0 && windows.count == 3);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK(gp_windows_at(&windows, i)->start_ns == 2 * i);
        CHECK(gp_windows_at(&windows, i)->length_ns == (i < 2 ? 2 : 1));
    }
    CHECK(gp_windows_at(&windows, 2)->ok == 5);
    gp_windows_fini(&windows);
}

static void an_empty_list(void)
{
    struct gp_windows none = {0};
    struct gp_histogram histogram;

    gp_histogram_init(&histogram);
    gp_windows_read(&none, &histogram);
    CHECK(histogram.count == 0 && gp_windows_halve(&none) == 0);
    CHECK(gp_windows_fold_tail(&none, 100) == 0);
    gp_windows_fini(&none);
}

int main(void)
{
    static const uint64_t looks[] = {1, 2, 3, 97, 127, 129, 10000};

    reading_while_another_appends();
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        reading_now_and_then(looks[i]);
    joining_is_put_off_while_somebody_reads();
    an_odd_one_stays_as_it_is();
    an_empty_list();
    return 0;
}
