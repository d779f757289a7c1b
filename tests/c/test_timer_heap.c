/* timer_heap: against a list that is searched, through random additions and removals. */
#include <stdlib.h>

#include "base/random.h"
#include "check.h"
#include "base/timer_heap.h"

#define TIMERS 500
#define STEPS 50000

static struct gp_timer timers[TIMERS];

static const struct gp_timer *earliest(void)
{
    const struct gp_timer *found = NULL;
    for (unsigned i = 0; i < TIMERS; i++)
        if (timers[i].place && (!found || timers[i].at_ns < found->at_ns))
            found = &timers[i];
    return found;
}

static void check_against_list(struct gp_timer_heap *heap, size_t count)
{
    const struct gp_timer *first = gp_timer_heap_first(heap), *expected = earliest();
    CHECK(heap->count == count);
    CHECK((first == NULL) == (expected == NULL));
    CHECK(!first || first->at_ns == expected->at_ns);
}

static void test_random_steps(void)
{
    struct gp_timer_heap heap;
    struct gp_random random;
    size_t count = 0;
    gp_random_init(&random, 3);
    gp_timer_heap_init(&heap);
    for (unsigned i = 0; i < STEPS; i++) {
        struct gp_timer *timer = &timers[gp_random_below(&random, TIMERS)];
        if (timer->place) {
            CHECK(gp_timer_heap_remove(&heap, timer));
            count--;
        } else {
            CHECK(gp_timer_heap_add(&heap, timer, gp_random_below(&random, 100)) == 0); /* equal times too */
            count++;
        }
        if (i % 16 == 0)
            check_against_list(&heap, count);
    }
    uint64_t last = 0;
    for (struct gp_timer *first; (first = gp_timer_heap_first(&heap)); count--) {
        CHECK(first->at_ns >= last);
        last = first->at_ns;
        CHECK(gp_timer_heap_remove(&heap, first));
    }
    CHECK(count == 0);
    free(heap.entries);
}

static void test_edges(void)
{
    struct gp_timer_heap heap;
    struct gp_timer timer = {0};
    gp_timer_heap_init(&heap);
    CHECK(gp_timer_heap_first(&heap) == NULL);
    CHECK(!gp_timer_heap_remove(&heap, &timer));
    CHECK(gp_timer_heap_add(&heap, &timer, 5) == 0 && gp_timer_heap_first(&heap) == &timer);
    CHECK(gp_timer_heap_remove(&heap, &timer) && !gp_timer_heap_remove(&heap, &timer));
    free(heap.entries);
}

static void test_memory_comes_back(void)
{
    static struct gp_timer many[20000];
    struct gp_timer_heap heap;
    gp_timer_heap_init(&heap);
    for (unsigned i = 0; i < 20000; i++)
        CHECK(gp_timer_heap_add(&heap, &many[i], 20000 - i) == 0);
    CHECK(heap.capacity >= 20000);
    for (unsigned i = 0; i < 20000; i++)
        CHECK(gp_timer_heap_remove(&heap, &many[i]));
    CHECK(heap.capacity <= 64);
    free(heap.entries);
}

int main(void)
{
    test_random_steps();
    test_edges();
    test_memory_comes_back();
    return 0;
}
