/* What the load threads of one run share: when it began, where its measured window lies, whether to cease,
 * and what was read at the two ends of the window. */
#ifndef GP_LOAD_TIMELINE_H
#define GP_LOAD_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Why to end before the run's own end. A later one overrides an earlier one, never the other way round. */
enum gp_cease {
    GP_CEASE_NOT = 0,
    GP_CEASE_STOP,    /* somebody asked: drain shortly, for who presses Ctrl-C does not want to wait */
    GP_CEASE_DIED,    /* the server is gone: wait only for the news to come back from the client */
    GP_CEASE_ABANDON, /* nobody wants the result */
};

struct gp_timeline {
    uint64_t warmup_ns, duration_ns; /* duration 0: the window ends by count alone */
    unsigned threads;
    pid_t server_pid; /* 0: not known */

    atomic_int cease;          /* enum gp_cease; an int, for it is what gp_client_connect looks at */
    _Atomic uint64_t begin_ns; /* the first send of the run; 0 before it */
    atomic_uint entered, left; /* threads that have entered, left the measured window */
    uint64_t
        server_cpu_ns[2]; /* at the ends of the window: one writer each, read after the threads are joined */
    bool server_cpu_known[2];
};

void gp_timeline_init(struct gp_timeline *timeline);

/* A thread is about to send its first call; whichever is first sets the time for all. Returns the begin. */
uint64_t gp_timeline_begin(struct gp_timeline *timeline);
uint64_t gp_timeline_start_ns(const struct gp_timeline *timeline,
                              uint64_t begin_ns); /* of the measured window */
uint64_t gp_timeline_end_ns(const struct gp_timeline *timeline,
                            uint64_t begin_ns); /* UINT64_MAX: by count alone */

/* A thread enters, leaves the measured window. The server's CPU is read by the first that enters and the last
 * that leaves. A thread that has not entered does not leave. */
void gp_timeline_enter(struct gp_timeline *timeline);
void gp_timeline_leave(struct gp_timeline *timeline);

void gp_timeline_cease(struct gp_timeline *timeline, enum gp_cease why);
enum gp_cease gp_timeline_ceasing(const struct gp_timeline *timeline);

#endif
