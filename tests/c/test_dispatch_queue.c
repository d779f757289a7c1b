/* dispatch_queue: the order of messages, who may go on when, and that nothing is lost between threads. */
#include "load/dispatch_queue.h"

#include <pthread.h>

#include "base/clock.h"
#include "check.h"

static struct gp_offer offer_of(uint32_t number)
{
    return (struct gp_offer){.sequence = number + 1, .offered_ns = 100 + number, .writer = number};
}

static bool offer(struct gp_dispatch_queue *queue, uint32_t number)
{
    const struct gp_offer offer = offer_of(number);

    return gp_dispatch_queue_offer(queue, &offer);
}

static void test_unbuffered(void)
{
    struct gp_dispatch_queue queue;
    struct gp_offer taken, freed;

    CHECK(gp_dispatch_queue_init(&queue, 4, 0) == 0);
    CHECK(gp_dispatch_queue_oldest_ns(&queue) == UINT64_MAX);
    for (uint32_t round = 0; round < 3; round++) { /* round the ring */
        for (uint32_t i = 0; i < 4; i++)
            CHECK(!offer(&queue, i));
        CHECK(gp_dispatch_queue_oldest_ns(&queue) == 100);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK(gp_dispatch_queue_take(&queue, 0, &taken, &freed));
            CHECK(taken.sequence == i + 1 && freed.sequence == i + 1 && freed.writer == i);
        }
        CHECK(!gp_dispatch_queue_expire(&queue, 102, &taken));
        CHECK(gp_dispatch_queue_expire(&queue, 103, &taken) && taken.writer == 3);
        CHECK(!gp_dispatch_queue_expire(&queue, UINT64_MAX, &taken));
    }
    CHECK(!gp_dispatch_queue_take(&queue, 0, &taken, &freed) && freed.sequence == 0);
    CHECK(!gp_dispatch_queue_unbuffer(&queue, &taken));
    CHECK(queue.locked > 0 && queue.contended == 0);
    gp_dispatch_queue_fini(&queue);
    gp_dispatch_queue_fini(&queue);
}

/* Two go into the buffer; the others wait, and move up one by one. */
static void test_buffered(void)
{
    struct gp_dispatch_queue queue;
    struct gp_offer taken, freed;

    CHECK(gp_dispatch_queue_init(&queue, 5, 2) == 0);
    CHECK(offer(&queue, 0) && offer(&queue, 1) && !offer(&queue, 2) && !offer(&queue, 3));
    CHECK(gp_dispatch_queue_oldest_ns(&queue) == 102); /* those in the buffer do not expire */
    CHECK(gp_dispatch_queue_take(&queue, 0, &taken, &freed) && taken.writer == 0 && freed.writer == 2);
    CHECK(gp_dispatch_queue_expire(&queue, 1000, &taken) && taken.writer == 3);
    CHECK(gp_dispatch_queue_take(&queue, 0, &taken, &freed) && taken.writer == 1 && freed.sequence == 0);
    CHECK(gp_dispatch_queue_unbuffer(&queue, &taken) && taken.writer == 2);
    CHECK(!gp_dispatch_queue_take(&queue, 0, &taken, &freed));
    gp_dispatch_queue_fini(&queue);
}

static void test_take_waits(void)
{
    struct gp_dispatch_queue queue;
    struct gp_offer taken, freed;
    uint64_t began_ns = gp_clock_now_ns();

    CHECK(gp_dispatch_queue_init(&queue, 1, 0) == 0);
    CHECK(!gp_dispatch_queue_take(&queue, began_ns + 20 * GP_NS_PER_MS, &taken, &freed));
    CHECK(gp_clock_now_ns() - began_ns >= 20 * GP_NS_PER_MS);
    gp_dispatch_queue_fini(&queue);
}

/* --- threads ----------------------------------------------------------------------------------- */

#define EACH 20000u
#define THREADS 4u

static struct gp_dispatch_queue shared;
static uint64_t sums[THREADS], counts[THREADS];

static void *offer_many(void *first)
{
    for (uint32_t i = 0; i < EACH; i++) {
        const struct gp_offer offer = {.sequence = (uintptr_t)first * EACH + i + 1};

        gp_dispatch_queue_offer(&shared, &offer);
    }
    return NULL;
}

static void *take_many(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    struct gp_offer taken, freed;

    while (gp_dispatch_queue_take(&shared, gp_clock_now_ns() + GP_NS_PER_S, &taken, &freed)) {
        if (taken.sequence == UINT64_MAX)
            break;
        sums[number] += taken.sequence;
        counts[number]++;
    }
    return NULL;
}

static void test_many_threads(void)
{
    pthread_t writers[THREADS], streams[THREADS];
    const struct gp_offer last = {.sequence = UINT64_MAX};
    uint64_t all = THREADS * EACH, sum = 0, count = 0;

    CHECK(gp_dispatch_queue_init(&shared, THREADS * EACH + THREADS, 10) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&streams[i], NULL, take_many, (void *)i) == 0);
        CHECK(pthread_create(&writers[i], NULL, offer_many, (void *)i) == 0);
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(writers[i], NULL) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        gp_dispatch_queue_offer(&shared, &last);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(streams[i], NULL) == 0);
        sum += sums[i];
        count += counts[i];
    }
    CHECK(count == all && sum == all * (all + 1) / 2);
    CHECK(shared.locked >= 2 * all && (shared.contended > 0) == (shared.contended_ns > 0));
    fprintf(stderr, "lock taken %llu times, %llu of them not free\n", (unsigned long long)shared.locked,
            (unsigned long long)shared.contended);
    gp_dispatch_queue_fini(&shared);
}

int main(void)
{
    test_unbuffered();
    test_buffered();
    test_take_waits();
    test_many_threads();
    return 0;
}
