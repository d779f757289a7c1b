/* queue: order, growth, and entries whose calls have ended. */
#include "wire/queue.h"

#include "check.h"

static bool is_live(const void *owner, struct gp_queue_entry entry)
{
    return ((const uint32_t *)owner)[entry.call] == entry.ticket;
}

static void order_is_kept_through_growth(void)
{
    uint32_t tickets[1000];
    struct gp_queue queue = {0};
    struct gp_queue_entry entry;
    uint32_t pushed = 0, popped = 0;

    for (uint32_t i = 0; i < 1000; i++)
        tickets[i] = i;
    while (popped < 1000) {
        for (int n = 0; n < 3 && pushed < 1000; n++, pushed++)
            CHECK(gp_queue_push(&queue, (struct gp_queue_entry){pushed, pushed}, is_live, tickets) == 0);
        for (int n = 0; n < (pushed < 1000 ? 2 : 9) && popped < pushed; n++, popped++)
            CHECK(gp_queue_pop(&queue, &entry, is_live, tickets) && entry.call == popped);
    }
    CHECK(!gp_queue_pop(&queue, &entry, is_live, tickets) && queue.count == 0);
    gp_queue_fini(&queue);
}

static void stale_entries_are_passed_over_and_swept_out(void)
{
    uint32_t tickets[2] = {7, 0};
    struct gp_queue queue = {0};
    struct gp_queue_entry entry;

    CHECK(gp_queue_push(&queue, (struct gp_queue_entry){0, 7}, is_live, tickets) == 0);
    for (uint32_t i = 1; i < 10000; i++) {
        tickets[1] = i; /* makes all that was pushed before stale */
        CHECK(gp_queue_push(&queue, (struct gp_queue_entry){1, i}, is_live, tickets) == 0);
    }
    CHECK(queue.capacity <= 32);
    CHECK(gp_queue_pop(&queue, &entry, is_live, tickets) && entry.call == 0);
    CHECK(gp_queue_pop(&queue, &entry, is_live, tickets) && entry.call == 1 && entry.ticket == 9999);
    CHECK(!gp_queue_pop(&queue, &entry, is_live, tickets));
    gp_queue_fini(&queue);
}

int main(void)
{
    order_is_kept_through_growth();
    stale_entries_are_passed_over_and_swept_out();
    return 0;
}
