/* The child's side of the control channel: what it is asked, each as a function, and the answers sent. */
#ifndef GP_PROCESS_REPORT_H
#define GP_PROCESS_REPORT_H

#include <stdbool.h>
#include <sys/types.h>

#include "control.pb-c.h"

struct gp_error;

struct gp_report {
    int fd;
    void *context; /* of all that follow; one that is NULL is a request that is not known here */
    /* -1 with `err` is told to the parent, and the child lives on. */
    int (*memstats)(void *context, bool settle, Grpcperf__Control__MemStats *memstats, struct gp_error *err);
    void (*counters)(void *context, Grpcperf__Control__Counters *counters);
    void (*release)(void *context); /* let every parked call go; NULL: none are ever parked */
    void (*reset_peaks)(void *context);
    void (*impair)(void *context, Grpcperf__Control__Impair__How how);
    pid_t pid; /* the process that Ready names; 0: this one */
};

/* For memstats of a child with one thread, in which nothing moves while it is being looked at: its heap, sys
 * and threads. */
int gp_report_memory(bool settle, Grpcperf__Control__MemStats *memstats, struct gp_error *err);

/* The first word of a child. -1 with errno when nobody can hear it. */
int gp_report_ready(const struct gp_report *report, int port, const char *versions);

/* The first word of one that never will be of use: why. */
int gp_report_failure(const struct gp_report *report, const char *message);

/* Wait for a question and answer it. False: the parent has told the child to leave, or is gone; the process
 * ends at once then, and without a word. */
bool gp_report_answer(const struct gp_report *report);

#endif
