/* due: whatever order slots come in, they leave by their time. */
#include "load/due.h"

#include <stdbool.h>

#include "base/random.h"
#include "check.h"

#define CAPACITY 257

static void test_leaves_in_order_of_time(void)
{
    struct gp_random random;
    struct gp_due due;
    bool waiting[CAPACITY] = {false};
    uint64_t due_at[CAPACITY] = {0};
    size_t inside = 0;

    gp_random_init(&random, 7);
    CHECK(gp_due_init(&due, CAPACITY) == 0);
    CHECK(gp_due_next_ns(&due) == UINT64_MAX);
    for (int step = 0; step < 20000; step++) {
        uint64_t id = gp_random_below(&random, CAPACITY);

        if (!waiting[id] && gp_random_below(&random, 3) > 0) {
            due_at[id] = gp_random_below(&random, 100); /* many are equal */
            waiting[id] = true;
            gp_due_push(&due, due_at[id], id);
            inside++;
        } else if (inside > 0) {
            uint64_t next_ns = gp_due_next_ns(&due), popped = gp_due_pop(&due);

            CHECK(waiting[popped] && due_at[popped] == next_ns);
            for (size_t other = 0; other < CAPACITY; other++)
                CHECK(!waiting[other] || due_at[other] >= next_ns);
            waiting[popped] = false;
            inside--;
        }
        CHECK(due.count == inside);
    }
    gp_due_fini(&due);
}

static void test_takes_all_it_was_made_for(void)
{
    struct gp_due due;

    CHECK(gp_due_init(&due, CAPACITY) == 0);
    for (uint64_t id = 0; id < CAPACITY; id++)
        gp_due_push(&due, CAPACITY - id, id);
    for (uint64_t id = CAPACITY; id-- > 0;)
        CHECK(gp_due_pop(&due) == id);
    CHECK(gp_due_next_ns(&due) == UINT64_MAX);
    gp_due_fini(&due);
    gp_due_fini(&due); /* as often as one likes */
}

int main(void)
{
    test_leaves_in_order_of_time();
    test_takes_all_it_was_made_for();
    return 0;
}
