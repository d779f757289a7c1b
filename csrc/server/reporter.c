/* The thread that answers the parent. */
#include "server/reporter.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <gnu/libc-version.h>
#include <grpc/grpc.h>

#include "base/error.h"
#include "server/memstats.h"
#include "server/server.h"

#define PAUSE_MS 20

static bool pause_or_leave(void *context)
{
    struct gp_reporter *reporter = context;
    struct pollfd poll_fd = {.fd = reporter->report.fd, .events = POLLRDHUP};
    if (poll(&poll_fd, 1, PAUSE_MS) > 0)
        _exit(0); /* the parent is gone */
    return false;
}

static int read_memstats(void *context, bool settle, Grpcperf__Control__MemStats *memstats,
                         struct gp_error *err)
{
    struct gp_reporter *reporter = context;
    return gp_memstats_read(reporter->server, settle, pause_or_leave, reporter, memstats, err);
}

static void read_counters(void *context, Grpcperf__Control__Counters *counters)
{
    struct gp_reporter *reporter = context;
    struct gp_counts counts;
    gp_server_counts(reporter->server, &counts);
    counters->running = counts.running;
    counters->peak_running = counts.peak_running;
    counters->parked = counts.parked;
    counters->queued = counts.queued;
    counters->started = counts.started;
    counters->finished = counts.finished;
    counters->rejected = counts.rejected;
    counters->pruned = counts.pruned;
    counters->threads_exhausted = counts.threads_exhausted;
    counters->degraded = counts.degraded;
    counters->cancelled = counts.cancelled;
    counters->deadline_exceeded = counts.deadline_exceeded;
    counters->work_after_cancel_us = counts.work_after_cancel_ns / 1000;
}

static void release(void *context)
{
    struct gp_reporter *reporter = context;
    gp_server_release(reporter->server);
}

static void reset_peaks(void *context)
{
    struct gp_reporter *reporter = context;
    gp_counters_reset_peaks(&reporter->server->counters);
}

static void run(void *argument)
{
    struct gp_reporter *reporter = argument;
    while (gp_report_answer(&reporter->report))
        ;
    _exit(0);
}

int gp_reporter_start(struct gp_reporter *reporter, struct gp_server *server, int fd, struct gp_error *err)
{
    char versions[128];
    snprintf(versions, sizeof(versions), "grpc-core %s, protobuf-c %s, glibc %s", grpc_version_string(),
             protobuf_c_version(), gnu_get_libc_version());
    *reporter = (struct gp_reporter){
        .server = server,
        .report = {fd, reporter, read_memstats, read_counters, release, reset_peaks},
    };
    if (gp_report_ready(&reporter->report, server->port, versions) < 0)
        return gp_error_errno(err, "cannot write to the control channel, descriptor %d", fd);
    int error = gp_stacks_thread(&server->stacks, run, reporter);
    if (error)
        return gp_error_set(err, GP_ERROR_ENGINE, "cannot start the control thread: %s", strerror(error));
    return 0;
}
