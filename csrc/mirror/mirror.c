/* mirror: one loop over all descriptors. */
#include "mirror/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <gnu/libc-version.h>
#include <nghttp2/nghttp2.h>

#include "base/error.h"
#include "process/arguments.h"

#define ACCEPTED_AT_ONCE 64u

/* --- what the parent asks */

/* No calls run by themselves: nothing moves while it is being looked at. */
static int read_memstats(void *context, bool settle, Grpcperf__Control__MemStats *memstats,
                         struct gp_error *err)
{
    const struct gp_mirror *mirror = context;

    memstats->running = mirror->counts.running;
    memstats->streams = mirror->counts.running;
    memstats->threadless = mirror->counts.running;
    return gp_report_memory(settle, memstats, err);
}

static void read_counters(void *context, Grpcperf__Control__Counters *counters)
{
    const struct gp_responder_counts *counts = &((struct gp_mirror *)context)->counts;

    counters->running = counts->running;
    counters->peak_running = counts->peak_running;
    counters->started = counts->started;
    counters->finished = counts->finished;
    counters->rejected = counts->rejected;
    counters->cancelled = counts->cancelled;
}

static void reset_peaks(void *context)
{
    struct gp_mirror *mirror = context;

    mirror->counts.peak_running = mirror->counts.running;
}

int gp_mirror_report(struct gp_mirror *mirror, int fd, struct gp_error *err)
{
    char versions[128];

    snprintf(versions, sizeof(versions), "grpcperf-mirror %s, nghttp2 %s, glibc %s", GP_VERSION,
             nghttp2_version(0)->version_str, gnu_get_libc_version());
    mirror->report = (struct gp_report){
        .fd = fd,
        .context = mirror,
        .memstats = read_memstats,
        .counters = read_counters,
        .reset_peaks = reset_peaks,
    };
    if (gp_report_ready(&mirror->report, mirror->listener.port, versions) < 0)
        return gp_error_errno(err, "cannot write to the control channel, descriptor %d", fd);
    return gp_poller_add(&mirror->poller, fd, &mirror->report, false, err);
}

/* --- connections */

static void welcome(struct gp_mirror *mirror)
{
    for (unsigned i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = gp_listener_accept(&mirror->listener);
        if (fd < 0)
            return;
        struct gp_visitor *visitor = gp_visitor_create(fd, &mirror->poller, &mirror->counts);
        if (!visitor)
            continue;
        visitor->next = mirror->visitors.next;
        visitor->previous = &mirror->visitors;
        visitor->next->previous = visitor;
        mirror->visitors.next = visitor;
        gp_visitor_serve(visitor, &mirror->poller, mirror->buffer, false); /* SETTINGS, without being asked */
    }
}

static void say_goodbye(struct gp_mirror *mirror, struct gp_visitor *visitor)
{
    visitor->next->previous = visitor->previous;
    visitor->previous->next = visitor->next;
    gp_visitor_destroy(visitor, &mirror->poller);
}

/* --- its life */

int gp_mirror_start(struct gp_mirror *mirror, const struct gp_arguments *arguments, struct gp_error *err)
{
    mirror->visitors.next = mirror->visitors.previous = &mirror->visitors;
    mirror->buffer = malloc(GP_VISITOR_READ_BYTES);
    if (!mirror->buffer)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    if (gp_arguments_use_cpus(arguments, err) < 0)
        return -1;
    gp_arguments_raise_fd_limit();
    if (gp_poller_init(&mirror->poller, false, err) < 0 ||
        gp_listener_open(&mirror->listener, arguments->listen, err) < 0)
        return -1;
    return gp_poller_add(&mirror->poller, mirror->listener.fd, &mirror->listener, false, err);
}

void gp_mirror_run(struct gp_mirror *mirror)
{
    for (;;) {
        uint64_t now_ns;
        size_t count = gp_poller_wait(&mirror->poller, UINT64_MAX, &now_ns);
        for (size_t i = 0; i < count; i++) {
            const struct gp_ready *ready = &mirror->poller.ready[i];
            if (ready->owner == &mirror->report) {
                if (!gp_report_answer(&mirror->report))
                    return;
            } else if (ready->owner == &mirror->listener) {
                welcome(mirror);
            } else if (!gp_visitor_serve(ready->owner, &mirror->poller, mirror->buffer, ready->readable)) {
                say_goodbye(mirror, ready->owner);
            }
        }
    }
}
