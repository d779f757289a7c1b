/* usage: threads that bear the library's names and burn CPU, against the sum that clients claim. */
#include "client/usage.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"

#define BURN_NS (30 * GP_NS_PER_MS)
#define SLACK_NS (10 * GP_NS_PER_MS) /* for starting threads, and for looking at them */

static void burn(uint64_t cpu_ns)
{
    uint64_t until_ns = gp_clock_thread_cpu_ns() + cpu_ns;

    while (gp_clock_thread_cpu_ns() < until_ns)
        continue;
}

/* A thread of that name: burns CPU, says so, and stays until it may go. */
struct worker {
    const char *name;
    pthread_t thread;
    sem_t burnt, go;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    pthread_setname_np(pthread_self(), worker->name);
    burn(BURN_NS);
    sem_post(&worker->burnt);
    sem_wait(&worker->go);
    return NULL;
}

static void start(struct worker *worker, const char *name)
{
    worker->name = name;
    sem_init(&worker->burnt, 0, 0);
    sem_init(&worker->go, 0, 0);
    CHECK(pthread_create(&worker->thread, NULL, work, worker) == 0);
    sem_wait(&worker->burnt);
}

static void finish(struct worker *worker)
{
    sem_post(&worker->go);
    CHECK(pthread_join(worker->thread, NULL) == 0);
}

static bool is_about(uint64_t value_ns, uint64_t expected_ns)
{
    return value_ns >= expected_ns && value_ns < expected_ns + SLACK_NS;
}

/* Only what bears the library's name and is younger than it, and each only once. */
static void library_threads_are_claimed(void)
{
    struct worker old, executor, timer, stranger;
    struct gp_usage first, second;
    uint64_t before, after;

    start(&old, "default-executo");
    gp_usage_begin();
    gp_usage_join(&first, NULL);
    gp_usage_join(&second, NULL);
    before = gp_usage_claim(&first) + gp_usage_claim(&second);
    start(&executor, "default-executo");
    start(&timer, "grpc_global_tim");
    start(&stranger, "python");
    CHECK(is_about(gp_usage_claim(&first) - before, 2 * BURN_NS));
    CHECK(gp_usage_claim(&second) < SLACK_NS); /* the other has it already */

    /* Threads that end take nothing back. */
    before = gp_usage_claim(&first);
    finish(&executor);
    finish(&stranger);
    finish(&old);
    after = gp_usage_claim(&first);
    CHECK(after >= before && after - before < SLACK_NS);
    start(&executor, "resolver-execut"); /* maybe under the number of one that ended */
    CHECK(is_about(gp_usage_claim(&first) - after, BURN_NS));
    finish(&executor);
    finish(&timer);
    gp_usage_leave(&first);
    gp_usage_leave(&second);
}

/* The polling thread counts from when it began to poll, once however many clients it polls, until the last
 * leaves. */
static void polling_threads_are_claimed(void)
{
    struct gp_usage first, second;
    uint64_t before;

    gp_usage_join(&first, NULL);
    gp_usage_join(&second, NULL);
    burn(BURN_NS);
    gp_usage_poller(&first);
    gp_usage_poller(&second);
    gp_usage_poller(&second);
    before = gp_usage_claim(&first);
    CHECK(before < SLACK_NS);
    burn(BURN_NS);
    CHECK(is_about(gp_usage_claim(&first) - before, BURN_NS));
    gp_usage_leave(&first);
    before = gp_usage_claim(&second);
    burn(BURN_NS);
    CHECK(is_about(gp_usage_claim(&second) - before, BURN_NS));
    gp_usage_leave(&second);

    gp_usage_join(&first, NULL);
    gp_usage_claim(&first);
    before = gp_usage_claim(&first);
    burn(BURN_NS); /* nobody polls here any more */
    CHECK(gp_usage_claim(&first) - before < SLACK_NS);
    gp_usage_leave(&first);
}

static void others_at_work_are_known(void)
{
    struct gp_usage mine, mine_too, other;
    int run, another;

    gp_usage_join(&mine, &run);
    gp_usage_join(&mine_too, &run);
    gp_usage_join(&other, &another);
    gp_usage_active(&mine, 2000);
    gp_usage_active(&mine_too, 3000);
    gp_usage_active(&other, 1000);
    CHECK(gp_usage_alone(&mine, 1001)); /* its own kind does not disturb, and the other rested */
    CHECK(!gp_usage_alone(&mine, 1000));
    CHECK(!gp_usage_alone(&other, 1500));

    gp_usage_active(&other, 4000);
    gp_usage_leave(&other); /* one that has gone was there all the same */
    CHECK(!gp_usage_alone(&mine, 4000) && gp_usage_alone(&mine, 4001));
    gp_usage_active(&mine_too, 5000);
    gp_usage_leave(&mine_too);
    CHECK(!gp_usage_alone(&mine, 4000) && gp_usage_alone(&mine, 4001));
    gp_usage_leave(&mine);

    gp_usage_join(&mine, NULL);
    gp_usage_join(&other, NULL);
    gp_usage_active(&other, 6000);
    CHECK(!gp_usage_alone(&mine, 5500)); /* without an owner each stands for itself */
    gp_usage_leave(&other);
    gp_usage_leave(&mine);
}

int main(void)
{
    library_threads_are_claimed();
    polling_threads_are_claimed();
    others_at_work_are_known();
    return 0;
}
