/* thread: what every thread of the load room has in common. */
#include "load/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "base/error.h"

int gp_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument,
                    struct gp_error *err)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the new thread from its first instruction */
    errno = pthread_create(thread, NULL, body, argument);
    int failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        errno = failed;
        return gp_error_errno(err, "cannot create the thread %s", name);
    }
    pthread_setname_np(*thread, name); /* the name is a convenience: no failure */
    return 0;
}

int gp_thread_bind(const int *cpus, size_t count, struct gp_error *err)
{
    cpu_set_t set;

    if (count == 0)
        return 0;
    CPU_ZERO(&set);
    for (size_t i = 0; i < count; i++) {
        if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE)
            return gp_error_set(err, GP_ERROR_INVALID, "cpus: there is no CPU %d", cpus[i]);
        CPU_SET(cpus[i], &set);
    }
    errno = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    if (errno)
        return gp_error_errno(err,
                              "cpus: cannot bind a load thread to the %zu CPUs asked for (the first is %d)",
                              count, cpus[0]);
    return 0;
}

int gp_thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    if ((errno = pthread_condattr_init(&attributes)))
        return -1;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    errno = pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return errno ? -1 : 0;
}

struct timespec gp_thread_until(uint64_t timeout_ns)
{
    uint64_t now_ns = gp_clock_now_ns();

    return gp_clock_timespec(timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX);
}
