/* The channel between two real processes: this binary again plays the child, well or badly. */
#include "process/control.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "children.h"
#include "control_roles.h"
#include "process/child.h"

/* ---- good children ---- */

static void test_each_request(void)
{
    struct pair pair = open_ready("serve");
    struct gp_error err;
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 1);
    CHECK(ask(pair, ASK(RELEASE), false, &patient, &err) == 0);
    CHECK(ask(pair, ASK(GET_COUNTERS), false, &patient, &err) == 3);
    CHECK(ask(pair, ASK(RESET_PEAKS), false, &patient, &err) == UINT64_MAX);
    CHECK(err.code == GP_ERROR_ENGINE && strcmp(err.message, "no peaks here") == 0);
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 5); /* a failure breaks nothing */
    CHECK(ask(pair, ASK(SHUTDOWN), false, &patient, &err) == 0);
    CHECK(gp_child_wait(pair.child, patient.timeout_ns));
    CHECK(fails(pair, &patient, GP_ERROR_DIED, "server process %d exited with code 0"));
    close_pair(pair);
}

static void test_end_of_file_ends_the_child(void)
{
    struct pair pair = open_ready("serve");
    char reason[64];
    gp_child_stop(pair.child, 20 * GP_NS_PER_S);
    CHECK(gp_child_dead(pair.child, reason, sizeof reason) && strcmp(reason, "exited with code 9") == 0);
    CHECK(fails(pair, &patient, GP_ERROR_DIED, "server process %d was closed by this process"));
    close_pair(pair);
}

static void test_long_message(void)
{
    struct pair pair = open_pair("long-ready");
    struct gp_error err;
    from_child *reply;
    CHECK(gp_control_ready(pair.control, &patient, &reply, &err) == 0);
    CHECK(strlen(reply->ready->versions) == VERSIONS_BYTES);
    FREE(reply);
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 1);
    close_pair(pair);
}

static void test_message_in_drips(void)
{
    struct pair pair = open_ready("drip");
    struct gp_error err;
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 7);
    close_pair(pair);
}

static void test_ready_is_waited_for_once(void)
{
    struct pair pair = open_ready("serve");
    struct gp_error err;
    from_child *reply;
    CHECK(gp_control_ready(pair.control, &patient, &reply, &err) == -1 && err.code == GP_ERROR_INVALID);
    close_pair(pair);
}

/* ---- giving up ---- */

static void test_timeout_and_late_answers(void)
{
    struct pair pair = open_ready("serve");
    struct gp_wait hasty = {.timeout_ns = 50 * GP_NS_PER_MS};
    struct gp_error err;
    uint64_t begin = gp_clock_now_ns();
    CHECK(ask(pair, ASK(SAMPLE), true, &hasty, &err) == UINT64_MAX);
    CHECK(since_ms(begin) >= 50 && since_ms(begin) < SETTLE_MS);
    CHECK(err.code == GP_ERROR_ENGINE && strstr(err.message, "did not answer Sample within 0.05 s"));
    CHECK(ask(pair, ASK(GET_COUNTERS), false, &hasty, &err) == UINT64_MAX); /* two are owed now */
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 3);
    CHECK(ask(pair, ASK(GET_COUNTERS), false, &patient, &err) == 4);
    close_pair(pair);
}

static void test_late_ready(void)
{
    struct pair pair = open_pair("slow-start");
    struct gp_wait hasty = {.timeout_ns = 10 * GP_NS_PER_MS};
    struct gp_error err;
    from_child *reply;
    CHECK(gp_control_ready(pair.control, &hasty, &reply, &err) == -1);
    CHECK(strstr(err.message, "did not become ready within 0.01 s"));
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 1); /* Ready was thrown away */
    close_pair(pair);

    pair = open_pair("slow-start");
    CHECK(gp_control_ready(pair.control, &hasty, &reply, &err) == -1);
    CHECK(gp_control_ready(pair.control, &patient, &reply, &err) == 0); /* Ready was not */
    FREE(reply);
    close_pair(pair);
}

static int third_time(void *times)
{
    return ++*(int *)times == 3;
}

static void test_interrupt(void)
{
    struct pair pair = open_ready("serve");
    int times = 0;
    struct gp_wait wait = {20 * GP_NS_PER_S, third_time, &times};
    struct gp_error err;
    uint64_t begin = gp_clock_now_ns();
    CHECK(ask(pair, ASK(SAMPLE), true, &wait, &err) == UINT64_MAX);
    CHECK(since_ms(begin) >= 20 && since_ms(begin) < SETTLE_MS);
    CHECK(err.code == GP_ERROR_STOPPED && times == 3);
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 2);
    close_pair(pair);
}

static int ask_again(void *pair)
{
    struct gp_error err;
    CHECK(ask(*(struct pair *)pair, ASK(SAMPLE), false, &patient, &err) == UINT64_MAX);
    return err.code == GP_ERROR_ENGINE && strstr(err.message, "this thread waits for another answer already");
}

static void test_asking_from_within(void)
{
    struct pair pair = open_ready("serve");
    struct gp_wait wait = {20 * GP_NS_PER_S, ask_again, &pair};
    struct gp_error err;
    CHECK(ask(pair, ASK(SAMPLE), true, &wait, &err) == UINT64_MAX);
    CHECK(err.code == GP_ERROR_STOPPED);
    close_pair(pair);
}

/* ---- bad children ---- */

static void test_deaths(void)
{
    static const char *const parts[][2] = {
        {"crash", "server process %d was killed by SIGKILL"},
        {"complain", "server process %d exited with code 3; it last said: out of luck"},
        {"half", "server process %d exited with code 5"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct pair pair = open_ready(parts[i][0]);
        CHECK(fails(pair, &patient, GP_ERROR_DIED, parts[i][1]));
        CHECK(fails(pair, &patient, GP_ERROR_DIED, parts[i][1]));
        close_pair(pair);
    }
}

static void test_last_message_of_the_dead_counts(void)
{
    struct pair pair = open_ready("say-and-leave");
    struct gp_error err;
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 1);
    CHECK(fails(pair, &patient, GP_ERROR_DIED, "server process %d exited with code 4"));
    close_pair(pair);
}

static void test_death_before_ready(void)
{
    struct pair refused = open_pair("cannot-start"), broken = open_pair("breaks-down");
    struct gp_error err;
    from_child *reply;
    CHECK(gp_child_wait(refused.child, patient.timeout_ns));
    CHECK(gp_control_ready(refused.control, &patient, &reply, &err) == -1);
    CHECK(err.code == GP_ERROR_ENGINE && strcmp(err.message, "cannot listen on port 80") == 0);
    CHECK(gp_control_ready(broken.control, &patient, &reply, &err) == -1);
    CHECK(err.code == GP_ERROR_DIED && strstr(err.message, "exited with code 1; it last said: no memory"));
    close_pair(refused);
    close_pair(broken);
}

static void test_broken_messages(void)
{
    static const char *const parts[] = {"huge", "garbage", "empty", "mistaken"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct pair pair = open_ready(parts[i]);
        CHECK(fails(pair, &patient, GP_ERROR_ENGINE, "the control channel of server process %d is broken"));
        CHECK(fails(pair, &patient, GP_ERROR_ENGINE, "the control channel of server process %d is broken"));
        close_pair(pair);
    }
}

static void test_child_that_hangs_up_and_lives(void)
{
    struct pair pair = open_ready("hang-up");
    uint64_t begin = gp_clock_now_ns(), begin_cpu = gp_clock_thread_cpu_ns();
    CHECK(fails(pair, &patient, GP_ERROR_DIED, "server process %d closed its control channel and lives on"));
    CHECK(since_ms(begin) < 4000);
    CHECK(gp_clock_thread_cpu_ns() - begin_cpu < 500 * GP_NS_PER_MS); /* it slept */
    close_pair(pair);
}

/* Requests that nobody reads: the socket fills up, and giving up stays possible. */
static void test_child_that_does_not_read(void)
{
    struct pair pair = open_ready("mute");
    struct gp_wait none = {.timeout_ns = 0};
    struct gp_error err;
    for (int i = 0; i < 3000; i++)
        CHECK(ask(pair, ASK(SAMPLE), true, &none, &err) == UINT64_MAX && err.code == GP_ERROR_ENGINE);
    CHECK(kill(gp_child_pid(pair.child), SIGKILL) == 0);
    CHECK(fails(pair, &patient, GP_ERROR_DIED, "server process %d was killed by SIGKILL"));
    close_pair(pair);
}

/* ---- threads and forks ---- */

struct worker {
    struct pair pair;
    Grpcperf__Control__ToChild__WhatCase what;
    struct gp_wait wait;
    uint64_t took_ms;
    struct gp_error err;
    pthread_t thread;
};

static void *ask_often(void *context)
{
    struct worker *worker = context;
    uint64_t last = 0;
    for (int i = 0; i < 200; i++) {
        uint64_t number = ask(worker->pair, worker->what, false, &patient, &worker->err);
        CHECK(number != UINT64_MAX && number > last);
        last = number;
    }
    return NULL;
}

static void test_two_threads_ask(void)
{
    struct pair pair = open_ready("serve");
    struct worker workers[] = {{pair, ASK(SAMPLE)}, {pair, ASK(GET_COUNTERS)}};
    struct gp_error err;
    uint64_t begin = gp_clock_now_ns();
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&workers[i].thread, NULL, ask_often, &workers[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);
    CHECK(since_ms(begin) < 400 * 10); /* woken by the answer, not by the end of a slice */
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 401);
    close_pair(pair);
}

static void *ask_once(void *context)
{
    struct worker *worker = context;
    uint64_t begin = gp_clock_now_ns();
    CHECK(ask(worker->pair, ASK(SAMPLE), true, &worker->wait, &worker->err) == UINT64_MAX);
    worker->took_ms = since_ms(begin);
    return NULL;
}

/* While one thread waits for a mute child, another's patience is its own, and closing wakes the first. */
static void test_waiting_behind_a_waiter(void)
{
    struct pair pair = open_ready("mute");
    struct worker worker = {.pair = pair, .wait = patient};
    struct gp_wait hasty = {.timeout_ns = 100 * GP_NS_PER_MS};
    CHECK(pthread_create(&worker.thread, NULL, ask_once, &worker) == 0);
    usleep(50 * 1000);
    uint64_t begin = gp_clock_now_ns();
    CHECK(fails(pair, &hasty, GP_ERROR_ENGINE, "server process %d did not answer Sample within 0.1 s"));
    CHECK(since_ms(begin) >= 100 && since_ms(begin) < 1000);
    gp_child_stop(pair.child, 0);
    pthread_join(worker.thread, NULL);
    CHECK(worker.took_ms < 2000);
    CHECK(worker.err.code == GP_ERROR_DIED && strstr(worker.err.message, "was closed by this process"));
    close_pair(pair);
}

static void test_forked_child_is_refused(void)
{
    struct pair pair = open_ready("serve");
    char expected[128];
    struct gp_error err;
    int status;
    pid_t forked = fork();
    if (forked == 0) {
        snprintf(expected, sizeof expected,
                 "server process %%d belongs to process %d; create your own after fork", (int)getppid());
        CHECK(fails(pair, &patient, GP_ERROR_ENGINE, expected));
        close_pair(pair);
        _exit(0);
    }
    CHECK(waitpid(forked, &status, 0) == forked && status == 0);
    CHECK(ask(pair, ASK(SAMPLE), false, &patient, &err) == 1); /* alive, and still ours */
    close_pair(pair);
}

/* ---- the child's end by itself, and what is left open ---- */

static void test_receive_of_broken_requests(void)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {{"", 0}, {"\0\0", 2}, {"\0\0\0\x04\x0a", 5}, {"\xff\xff\xff\xff", 4}, {"\0\0\0\x01\xff", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int ends[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        CHECK(send(ends[0], cases[i].bytes, cases[i].size, 0) == (ssize_t)cases[i].size);
        close(ends[0]);
        CHECK(gp_control_receive(ends[1]) == NULL);
        from_child nothing = GRPCPERF__CONTROL__FROM_CHILD__INIT;
        CHECK(gp_control_send(ends[1], &nothing) == -1); /* and no SIGPIPE */
        close(ends[1]);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return play(argv[1]);
    int before = count_fds();
    test_each_request();
    test_end_of_file_ends_the_child();
    test_long_message();
    test_message_in_drips();
    test_ready_is_waited_for_once();
    test_timeout_and_late_answers();
    test_late_ready();
    test_interrupt();
    test_asking_from_within();
    test_deaths();
    test_last_message_of_the_dead_counts();
    test_death_before_ready();
    test_broken_messages();
    test_child_that_hangs_up_and_lives();
    test_child_that_does_not_read();
    test_two_threads_ask();
    test_waiting_behind_a_waiter();
    test_forked_child_is_refused();
    test_receive_of_broken_requests();
    gp_control_destroy(NULL);
    CHECK(count_fds() == before);
    return 0;
}
