/* Tests of base/clock: each clock against a second way to know the same. */
#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void burn(uint64_t cpu_ns)
{
    uint64_t end = gp_clock_thread_cpu_ns() + cpu_ns;

    while (gp_clock_thread_cpu_ns() < end)
        ;
}

static void now_is_monotonic_time(void)
{
    struct timespec time;
    uint64_t before = gp_clock_now_ns();

    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t between = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    uint64_t after = gp_clock_now_ns();
    CHECK(before <= between && between <= after);

    time = (struct timespec){.tv_nsec = 5000000};
    nanosleep(&time, NULL);
    CHECK(gp_clock_now_ns() - after >= 5 * GP_NS_PER_MS);
}

static void timespec_splits_seconds(void)
{
    struct timespec time = gp_clock_timespec(UINT64_C(3599999999999));

    CHECK(time.tv_sec == 3599 && time.tv_nsec == 999999999);
    time = gp_clock_timespec(2 * GP_NS_PER_S);
    CHECK(time.tv_sec == 2 && time.tv_nsec == 0);
    time = gp_clock_timespec(7);
    CHECK(time.tv_sec == 0 && time.tv_nsec == 7);
}

static void cpu_counts_work_and_not_sleep(void)
{
    uint64_t thread = gp_clock_thread_cpu_ns(), process = gp_clock_process_cpu_ns();
    struct timespec nap = {.tv_nsec = 50000000};

    nanosleep(&nap, NULL);
    CHECK(gp_clock_thread_cpu_ns() - thread < 25 * GP_NS_PER_MS);
    thread = gp_clock_thread_cpu_ns();
    burn(20 * GP_NS_PER_MS);
    CHECK(gp_clock_thread_cpu_ns() - thread >= 20 * GP_NS_PER_MS);
    CHECK(gp_clock_process_cpu_ns() - process >= 20 * GP_NS_PER_MS);
}

static void pid_reads_a_process(void)
{
    uint64_t before = gp_clock_process_cpu_ns(), between = 0;

    CHECK(gp_clock_pid_cpu_ns(getpid(), &between) == 0);
    CHECK(before <= between && between <= gp_clock_process_cpu_ns());

    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* should this test fail meanwhile */
        burn(30 * GP_NS_PER_MS);
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    uint64_t cpu_ns = 0;
    CHECK(gp_clock_pid_cpu_ns(child, &cpu_ns) == 0);
    CHECK(cpu_ns >= 30 * GP_NS_PER_MS);

    kill(child, SIGKILL);
    struct rusage usage;
    CHECK(wait4(child, &status, 0, &usage) == child);
    uint64_t total_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
                        (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    CHECK(cpu_ns <= (total_us + 1) * GP_NS_PER_US); /* it did nothing more while stopped, but dying costs */
    CHECK(gp_clock_pid_cpu_ns(child, &cpu_ns) == -1);
}

struct worker {
    atomic_int tid, leave;
};

static void *work_then_wait(void *argument)
{
    struct worker *worker = argument;

    burn(20 * GP_NS_PER_MS);
    worker->tid = (int)syscall(SYS_gettid);
    while (!worker->leave)
        usleep(1000);
    return NULL;
}

static void tid_reads_a_thread(void)
{
    struct worker worker = {0};
    pthread_t thread;
    uint64_t own = gp_clock_thread_cpu_ns(), cpu_ns = 0;

    CHECK(gp_clock_tid_cpu_ns((pid_t)syscall(SYS_gettid), &cpu_ns) == 0);
    CHECK(own <= cpu_ns && cpu_ns <= gp_clock_thread_cpu_ns());

    CHECK(pthread_create(&thread, NULL, work_then_wait, &worker) == 0);
    while (!worker.tid)
        usleep(1000);
    clockid_t clock;
    struct timespec time;
    CHECK(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &time) == 0);
    CHECK(gp_clock_tid_cpu_ns(worker.tid, &cpu_ns) == 0);
    CHECK(cpu_ns >= 20 * GP_NS_PER_MS);
    CHECK(cpu_ns >= (uint64_t)time.tv_sec * GP_NS_PER_S + (uint64_t)time.tv_nsec);

    worker.leave = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    /* join returns when the kernel clears the thread's word, a moment before its id is free */
    for (int tries = 0; gp_clock_tid_cpu_ns(worker.tid, &cpu_ns) == 0; tries++) {
        CHECK(tries < 1000);
        usleep(1000);
    }
}

int main(void)
{
    now_is_monotonic_time();
    timespec_splits_seconds();
    cpu_counts_work_and_not_sleep();
    pid_reads_a_process();
    tid_reads_a_thread();
    return 0;
}
