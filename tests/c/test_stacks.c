/* stacks: what threads touch of their stacks is seen, and is gone with them. */
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "server/stacks.h"

#define TOUCHED_BYTES (300u << 10)

static struct gp_stacks stacks;
static sem_t touched, leave;

static void touch(void *argument)
{
    volatile char room[TOUCHED_BYTES];
    if (argument)
        for (size_t i = 0; i < sizeof(room); i += 1024)
            room[i] = 1;
    sem_post(&touched);
    sem_wait(&leave);
}

static void wait_until_alone(void)
{
    uint64_t until_ns = gp_clock_now_ns() + 10 * GP_NS_PER_S;
    while (gp_stacks_count(&stacks) > 0) {
        CHECK(gp_clock_now_ns() < until_ns);
        usleep(1000);
    }
}

/* Bytes in use with one thread that touches its stack, or does not. */
static uint64_t inuse_of_one(void *argument)
{
    uint64_t inuse, sys;
    CHECK(gp_stacks_thread(&stacks, touch, argument) == 0);
    CHECK(gp_stacks_count(&stacks) == 1); /* at once */
    sem_wait(&touched);
    CHECK(gp_stacks_count(&stacks) == 1);
    gp_stacks_measure(&stacks, &inuse, &sys);
    CHECK(sys >= 1u << 20 && inuse <= sys && inuse > 0);
    sem_post(&leave);
    wait_until_alone();
    return inuse;
}

static void test_touched_pages_count(void)
{
    uint64_t idle = inuse_of_one(NULL), busy = inuse_of_one(&touched);
    CHECK(busy >= TOUCHED_BYTES);
    CHECK(busy >= idle);
}

static void test_many_and_none(void)
{
    uint64_t inuse, sys;
    for (unsigned i = 0; i < 20; i++)
        CHECK(gp_stacks_thread(&stacks, touch, &touched) == 0);
    gp_stacks_wait(&stacks, 20);
    CHECK(gp_stacks_count(&stacks) == 20);
    for (unsigned i = 0; i < 20; i++)
        sem_wait(&touched);
    CHECK(gp_stacks_count(&stacks) == 20);
    gp_stacks_measure(&stacks, &inuse, &sys);
    CHECK(inuse >= 20 * TOUCHED_BYTES && sys >= 20u << 20);
    for (unsigned i = 0; i < 20; i++)
        sem_post(&leave);
    wait_until_alone();
    gp_stacks_measure(&stacks, &inuse, &sys);
    CHECK(inuse == 0 && sys == 0);
}

int main(void)
{
    gp_stacks_init(&stacks);
    sem_init(&touched, 0, 0);
    sem_init(&leave, 0, 0);
    test_touched_pages_count();
    test_many_and_none();
    return 0;
}
