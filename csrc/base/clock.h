/* The engine's clocks, all in nanoseconds. */
#ifndef GP_BASE_CLOCK_H
#define GP_BASE_CLOCK_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define GP_NS_PER_US UINT64_C(1000)
#define GP_NS_PER_MS UINT64_C(1000000)
#define GP_NS_PER_S UINT64_C(1000000000)

uint64_t gp_clock_now_ns(void);                       /* CLOCK_MONOTONIC: the one time line of a run */
struct timespec gp_clock_timespec(uint64_t ns);       /* a time or span as the system calls want it */
uint64_t gp_clock_thread_cpu_ns(void);                /* CPU of the calling thread */
uint64_t gp_clock_process_cpu_ns(void);               /* CPU of this process, all threads */
int gp_clock_pid_cpu_ns(pid_t pid, uint64_t *cpu_ns); /* CPU of another process; -1 when it is gone */
int gp_clock_tid_cpu_ns(pid_t tid, uint64_t *cpu_ns); /* CPU of a thread of this process; -1 when gone */

#endif
