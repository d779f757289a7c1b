/* Start a thread of the engine. */
#ifndef GP_LOAD_THREAD_H
#define GP_LOAD_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct gp_error;

/* The thread carries `name` (at most 15 characters) in /proc and debuggers. It blocks every signal: signals
 * are for the program that uses the engine, and Ctrl-C must reach a thread of its own. */
int gp_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *argument,
                    struct gp_error *err);

/* Bind the calling thread to these CPUs. None: leave it free. */
int gp_thread_bind(const int *cpus, size_t count, struct gp_error *err);

/* A condition variable whose timed waits follow gp_clock_now_ns. */
int gp_thread_cond_init(pthread_cond_t *cond);

/* When a wait of timeout_ns from now is over, for pthread_cond_timedwait on such a variable. */
struct timespec gp_thread_until(uint64_t timeout_ns);

#endif
