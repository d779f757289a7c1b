/* clock: reading the kernel's clocks as plain nanoseconds. No state and no waiting. */
#include "base/clock.h"

static uint64_t to_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * GP_NS_PER_S + (uint64_t)time.tv_nsec;
}

/* For clocks that every Linux process has: reading them cannot fail. */
static uint64_t read_own(clockid_t clock)
{
    struct timespec time = {0};

    clock_gettime(clock, &time);
    return to_ns(time);
}

uint64_t gp_clock_now_ns(void)
{
    return read_own(CLOCK_MONOTONIC);
}

struct timespec gp_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / GP_NS_PER_S), .tv_nsec = (long)(ns % GP_NS_PER_S)};
}

uint64_t gp_clock_thread_cpu_ns(void)
{
    return read_own(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t gp_clock_process_cpu_ns(void)
{
    return read_own(CLOCK_PROCESS_CPUTIME_ID);
}

static int read_other(clockid_t clock, uint64_t *cpu_ns)
{
    struct timespec time;

    if (clock_gettime(clock, &time) != 0)
        return -1;
    *cpu_ns = to_ns(time);
    return 0;
}

int gp_clock_pid_cpu_ns(pid_t pid, uint64_t *cpu_ns)
{
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0)
        return -1;
    return read_other(clock, cpu_ns);
}

/* The kernel's own encoding of "CPU clock of this thread" (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED in
 * linux/posix-timers.h). pthread_getcpuclockid gives the same, but only for a pthread_t, which threads of
 * libraries do not hand out. */
int gp_clock_tid_cpu_ns(pid_t tid, uint64_t *cpu_ns)
{
    return read_other((clockid_t)((~(unsigned)tid << 3) | 6u), cpu_ns);
}
