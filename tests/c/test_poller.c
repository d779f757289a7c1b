/* Tests of net/poller: what is ready, when it wakes, and that the timer is left alone as long as it may. */
#include "net/poller.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"

static struct gp_poller poller;

struct pair {
    int ours, theirs;
};

static struct pair make_pair(void)
{
    int fds[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    return (struct pair){fds[0], fds[1]};
}

static void close_pair(struct pair pair)
{
    gp_poller_remove(&poller, pair.ours);
    close(pair.ours);
    close(pair.theirs);
}

static size_t look(void)
{
    uint64_t now_ns;

    return gp_poller_wait(&poller, 0, &now_ns);
}

static void what_is_ready_is_told(void)
{
    struct pair pair = make_pair();
    char byte;

    CHECK(gp_poller_add(&poller, pair.ours, &pair, true, NULL) == 0);
    CHECK(look() == 1);
    CHECK(poller.ready[0].owner == &pair && poller.ready[0].writable && !poller.ready[0].readable);
    gp_poller_want(&poller, pair.ours, &pair, false);
    CHECK(look() == 0);
    CHECK(write(pair.theirs, "x", 1) == 1);
    for (int again = 0; again < 2; again++) { /* level-triggered: until it is read */
        CHECK(look() == 1);
        CHECK(poller.ready[0].readable && !poller.ready[0].writable);
    }
    CHECK(read(pair.ours, &byte, 1) == 1);
    CHECK(look() == 0);
    gp_poller_want(&poller, pair.ours, &pair, true);
    CHECK(look() == 1 && poller.ready[0].writable);
    close_pair(pair);
    CHECK(look() == 0);
}

static void an_end_is_readable_and_writable(void)
{
    struct pair pair = make_pair();

    CHECK(gp_poller_add(&poller, pair.ours, &pair, false, NULL) == 0);
    CHECK(shutdown(pair.theirs, SHUT_RDWR) == 0);
    CHECK(look() == 1 && poller.ready[0].readable && poller.ready[0].writable);
    close_pair(pair);
}

static void a_closed_descriptor_is_refused(void)
{
    struct gp_error err = {0};
    struct pair pair = make_pair();

    close(pair.ours);
    CHECK(gp_poller_add(&poller, pair.ours, &pair, false, &err) == -1);
    CHECK(err.code == GP_ERROR_ENGINE && strstr(err.message, "Bad file descriptor"));
    close(pair.theirs);
}

/* By the calls that set the timer: the kernel is asked what it is set to. */
static uint64_t timer_left_ns(void)
{
    struct itimerspec left;

    CHECK(timerfd_gettime(poller.timer, &left) == 0);
    return (uint64_t)left.it_value.tv_sec * GP_NS_PER_S + (uint64_t)left.it_value.tv_nsec;
}

static void wait_until(uint64_t until_ns)
{
    uint64_t now_ns = 0;

    do
        CHECK(gp_poller_wait(&poller, until_ns, &now_ns) == 0);
    while (now_ns < until_ns);
}

/* Most wakings lie within a millisecond of their time, and none before it, however long ago the last was. */
static void it_wakes_at_its_time(void)
{
    unsigned near = 0;

    for (unsigned i = 0; i < 40; i++) {
        uint64_t until_ns = gp_clock_now_ns() + (i % 5) * 300 * GP_NS_PER_US;

        wait_until(until_ns);
        near += gp_clock_now_ns() - until_ns < GP_NS_PER_MS;
    }
    CHECK(near >= 20);
}

static void a_time_that_has_passed_is_no_waiting(void)
{
    uint64_t start_ns = gp_clock_now_ns();

    wait_until(start_ns);
    wait_until(start_ns - 5);
    wait_until(1);
    CHECK(gp_clock_now_ns() - start_ns < 100 * GP_NS_PER_MS);
}

static void the_timer_is_set_for_what_is_earlier(void)
{
    struct pair pair = make_pair();
    uint64_t now_ns, base_ns = gp_clock_now_ns() + 10 * GP_NS_PER_S;

    CHECK(gp_poller_add(&poller, pair.ours, &pair, true, NULL) == 0); /* ready at once */
    CHECK(gp_poller_wait(&poller, base_ns, &now_ns) == 1 && poller.armed_ns == base_ns);
    for (unsigned later = 1; later < 5; later++)
        CHECK(gp_poller_wait(&poller, base_ns + later * GP_NS_PER_MS, &now_ns) == 1 &&
              poller.armed_ns == base_ns);
    CHECK(timer_left_ns() > 5 * GP_NS_PER_S);
    CHECK(gp_poller_wait(&poller, base_ns - GP_NS_PER_S, &now_ns) == 1);
    CHECK(poller.armed_ns == base_ns - GP_NS_PER_S);
    gp_poller_want(&poller, pair.ours, &pair, false);
    wait_until(gp_clock_now_ns() + 2 * GP_NS_PER_MS);
    CHECK(poller.armed_ns == UINT64_MAX && timer_left_ns() == 0);
    close_pair(pair);
}

/* The moment passed while nobody waited: the next wait is not woken early by it more than once. */
static void a_timer_that_went_off_unseen_does_no_harm(void)
{
    uint64_t now_ns, until_ns = gp_clock_now_ns() + GP_NS_PER_MS;
    struct pair pair = make_pair();

    CHECK(gp_poller_add(&poller, pair.ours, &pair, true, NULL) == 0);
    CHECK(gp_poller_wait(&poller, until_ns, &now_ns) == 1);
    gp_poller_want(&poller, pair.ours, &pair, false);
    usleep(3000);
    until_ns = gp_clock_now_ns() + 20 * GP_NS_PER_MS;
    CHECK(gp_poller_wait(&poller, until_ns, &now_ns) == 0); /* the old one, perhaps */
    if (now_ns < until_ns)
        CHECK(gp_poller_wait(&poller, until_ns, &now_ns) == 0 && now_ns >= until_ns);
    close_pair(pair);
}

static void a_busy_poller_never_sleeps(void)
{
    struct gp_poller busy;
    uint64_t now_ns, start_ns = gp_clock_now_ns(), cpu_ns = gp_clock_thread_cpu_ns();
    struct pair pair = make_pair();

    CHECK(gp_poller_init(&busy, true, NULL) == 0);
    CHECK(gp_poller_wait(&busy, start_ns + 20 * GP_NS_PER_MS, &now_ns) == 0);
    CHECK(now_ns >= start_ns + 20 * GP_NS_PER_MS);
    CHECK(busy.looks > 20 && busy.idle_looks == busy.looks);
    CHECK(gp_clock_thread_cpu_ns() - cpu_ns > GP_NS_PER_MS);
    CHECK(gp_poller_add(&busy, pair.ours, &pair, true, NULL) == 0);
    CHECK(gp_poller_wait(&busy, UINT64_MAX, &now_ns) == 1 && busy.idle_looks == busy.looks - 1);
    gp_poller_fini(&busy);
    close(pair.ours);
    close(pair.theirs);
}

static void sleeping_costs_no_cpu(void)
{
    uint64_t cpu_ns = gp_clock_thread_cpu_ns(), looks = poller.looks;

    wait_until(gp_clock_now_ns() + 50 * GP_NS_PER_MS);
    CHECK(gp_clock_thread_cpu_ns() - cpu_ns < 10 * GP_NS_PER_MS && poller.looks - looks <= 3);
}

static void many_are_told_in_turns(void)
{
    struct pair pairs[300];
    unsigned seen[300] = {0}, rounds = 0;
    uint64_t now_ns;

    for (size_t i = 0; i < 300; i++) {
        pairs[i] = make_pair();
        CHECK(gp_poller_add(&poller, pairs[i].ours, &seen[i], false, NULL) == 0);
        CHECK(write(pairs[i].theirs, "x", 1) == 1);
    }
    for (size_t sum = 0; sum < 600; rounds++) {
        size_t count = gp_poller_wait(&poller, 0, &now_ns);

        CHECK(count > 0 && count <= GP_POLLER_BATCH);
        for (size_t i = 0; i < count; i++)
            ++*(unsigned *)poller.ready[i].owner;
        sum += count;
    }
    for (size_t i = 0; i < 300; i++) {
        CHECK(seen[i] >= 1);
        close_pair(pairs[i]);
    }
}

int main(void)
{
    CHECK(gp_poller_init(&poller, false, NULL) == 0);
    what_is_ready_is_told();
    an_end_is_readable_and_writable();
    a_closed_descriptor_is_refused();
    it_wakes_at_its_time();
    a_time_that_has_passed_is_no_waiting();
    the_timer_is_set_for_what_is_earlier();
    a_timer_that_went_off_unseen_does_no_harm();
    a_busy_poller_never_sleeps();
    sleeping_costs_no_cpu();
    many_are_told_in_turns();
    gp_poller_fini(&poller);
    return 0;
}
