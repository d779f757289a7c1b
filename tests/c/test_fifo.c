/* fifo: against an array in which everything is moved by hand, through random additions and removals. */
#include <string.h>

#include "base/random.h"
#include "check.h"
#include "server/fifo.h"

#define LINKS 100
#define STEPS 50000

static struct gp_fifo_link links[LINKS];

static void test_order_of_coming(void)
{
    struct gp_fifo fifo = {0};
    CHECK(gp_fifo_pop(&fifo) == NULL);
    for (unsigned i = 0; i < LINKS; i++)
        gp_fifo_push(&fifo, &links[i]);
    CHECK(fifo.count == LINKS);
    for (unsigned i = 0; i < LINKS; i++)
        CHECK(gp_fifo_pop(&fifo) == &links[i] && !links[i].in);
    CHECK(gp_fifo_pop(&fifo) == NULL && fifo.count == 0 && !fifo.first && !fifo.last);
}

static void test_only_one_of_its_own_is_removed(void)
{
    struct gp_fifo fifo = {0}, other = {0};
    gp_fifo_push(&fifo, &links[0]);
    CHECK(!gp_fifo_remove(&other, &links[0]) && fifo.count == 1);
    CHECK(gp_fifo_remove(&fifo, &links[0]) && !gp_fifo_remove(&fifo, &links[0]));
    CHECK(fifo.count == 0 && !fifo.first && !fifo.last);
}

static void test_all_at_once(void)
{
    struct gp_fifo fifo = {0};
    CHECK(gp_fifo_take_all(&fifo) == NULL);
    for (unsigned i = 0; i < 3; i++)
        gp_fifo_push(&fifo, &links[i]);
    const struct gp_fifo_link *link = gp_fifo_take_all(&fifo);
    CHECK(fifo.count == 0 && !fifo.first && !fifo.last);
    for (unsigned i = 0; i < 3; i++, link = link->next)
        CHECK(link == &links[i] && !link->in);
    CHECK(link == NULL);
    gp_fifo_push(&fifo, &links[1]); /* the same one again, with what it has left in itself */
    CHECK(gp_fifo_pop(&fifo) == &links[1] && fifo.count == 0);
}

static size_t index_of(struct gp_fifo_link *const *order, size_t count, const struct gp_fifo_link *link)
{
    size_t i = 0;
    while (i < count && order[i] != link)
        i++;
    return i;
}

static void test_random_steps(void)
{
    struct gp_fifo fifo = {0};
    struct gp_fifo_link *order[LINKS];
    struct gp_random random;
    size_t count = 0;
    gp_random_init(&random, 7);
    for (unsigned i = 0; i < STEPS; i++) {
        struct gp_fifo_link *link = &links[gp_random_below(&random, LINKS)];
        size_t at = index_of(order, count, link);
        if (at == count) {
            gp_fifo_push(&fifo, link);
            order[count++] = link;
        } else {
            if (gp_random_below(&random, 2)) {
                CHECK(gp_fifo_remove(&fifo, link));
            } else {
                at = 0;
                CHECK(gp_fifo_pop(&fifo) == order[0]);
            }
            memmove(&order[at], &order[at + 1], (--count - at) * sizeof(*order));
        }
        CHECK(fifo.count == count && fifo.first == (count ? order[0] : NULL) &&
              fifo.last == (count ? order[count - 1] : NULL));
    }
}

int main(void)
{
    test_order_of_coming();
    test_only_one_of_its_own_is_removed();
    test_all_at_once();
    test_random_steps();
    return 0;
}
