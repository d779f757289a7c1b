/* counters: sums over tallies, and a peak that many threads cannot make miss. */
#include <pthread.h>

#include "check.h"
#include "server/counters.h"

#define THREADS 8
#define ROUNDS 20000

static struct gp_counters counters;
static struct gp_tally tallies[2];

static struct gp_counts read_all(void)
{
    struct gp_counts counts;
    gp_counters_read(&counters, &counts);
    for (unsigned i = 0; i < 2; i++)
        gp_counts_add(&counts, &tallies[i]);
    return counts;
}

static void test_one_by_one(void)
{
    for (unsigned i = 0; i < 5; i++)
        gp_counters_begin(&counters, &tallies[i % 2]);
    gp_counters_end(&counters, &tallies[0]);
    gp_count(&tallies[0].accepted, 5);
    gp_count(&tallies[1].retired, 1);
    gp_count(&counters.queued, 3);
    gp_count(&tallies[0].rejected, 4);
    gp_count(&tallies[1].rejected, 5);
    gp_count(&tallies[0].pruned, 1);
    gp_count(&tallies[1].threads_exhausted, 2);
    gp_count(&tallies[1].degraded, 6);
    struct gp_counts counts = read_all();
    CHECK(counts.running == 4 && counts.peak_running == 5);
    CHECK(counts.started == 5 && counts.finished == 1 && counts.streams == 4);
    CHECK(counts.queued == 3 && counts.rejected == 9 && counts.pruned == 1 && counts.degraded == 6 &&
          counts.threads_exhausted == 2);
    gp_counters_reset_peaks(&counters);
    CHECK(read_all().peak_running == 4);
    gp_counters_begin(&counters, &tallies[1]);
    CHECK(read_all().peak_running == 5);
    for (unsigned i = 0; i < 5; i++)
        gp_counters_end(&counters, &tallies[1]);
    CHECK(read_all().running == 0 && read_all().started == read_all().finished);
}

static pthread_barrier_t all_inside;

static void *begin_and_end(void *tally)
{
    gp_counters_begin(&counters, tally);
    pthread_barrier_wait(&all_inside); /* all THREADS run at one moment, so the peak is known */
    gp_counters_end(&counters, tally);
    for (unsigned i = 0; i < ROUNDS; i++) {
        gp_counters_begin(&counters, tally);
        gp_counters_end(&counters, tally);
    }
    return NULL;
}

static void test_from_many_threads(void)
{
    pthread_t threads[THREADS];
    uint64_t before = read_all().started;
    gp_counters_reset_peaks(&counters);
    pthread_barrier_init(&all_inside, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, begin_and_end, &tallies[i % 2]) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_inside);
    struct gp_counts counts = read_all();
    CHECK(counts.peak_running == THREADS);
    CHECK(counts.running == 0 && counts.started == counts.finished);
    CHECK(counts.started - before == THREADS * (ROUNDS + 1));
}

int main(void)
{
    test_one_by_one();
    test_from_many_threads();
    return 0;
}
