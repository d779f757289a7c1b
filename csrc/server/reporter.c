/* The thread that answers the parent. */
#include "server/reporter.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <gnu/libc-version.h>
#include <grpc/grpc.h>

#include "base/error.h"
#include "process/control.h"
#include "server/memstats.h"
#include "server/server.h"

#define PAUSE_MS 20

typedef Grpcperf__Control__FromChild reply_t;

static void send_or_leave(int fd, const reply_t *reply)
{
    if (gp_control_send(fd, reply) < 0)
        _exit(0); /* the parent is gone */
}

static void leave(int fd)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Bye bye = GRPCPERF__CONTROL__BYE__INIT;
    reply.what_case = GRPCPERF__CONTROL__FROM_CHILD__WHAT_BYE;
    reply.bye = &bye;
    gp_control_send(fd, &reply);
    _exit(0);
}

static void say_done(int fd)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Done done = GRPCPERF__CONTROL__DONE__INIT;
    reply.what_case = GRPCPERF__CONTROL__FROM_CHILD__WHAT_DONE;
    reply.done = &done;
    send_or_leave(fd, &reply);
}

static void say_failure(int fd, const char *message)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Failure failure = GRPCPERF__CONTROL__FAILURE__INIT;
    reply.what_case = GRPCPERF__CONTROL__FROM_CHILD__WHAT_FAILURE;
    reply.failure = &failure;
    failure.message = (char *)message;
    send_or_leave(fd, &reply);
}

static bool pause_or_leave(void *context)
{
    struct gp_reporter *reporter = context;
    struct pollfd poll_fd = {.fd = reporter->fd, .events = POLLRDHUP};
    if (poll(&poll_fd, 1, PAUSE_MS) > 0)
        _exit(0); /* the parent is gone */
    return false;
}

static void say_memstats(struct gp_reporter *reporter, bool settle)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__MemStats memstats = GRPCPERF__CONTROL__MEM_STATS__INIT;
    struct gp_error err;
    if (gp_memstats_read(reporter->server, settle, pause_or_leave, reporter, &memstats, &err) < 0) {
        say_failure(reporter->fd, err.message);
        return;
    }
    reply.what_case = GRPCPERF__CONTROL__FROM_CHILD__WHAT_MEMSTATS;
    reply.memstats = &memstats;
    send_or_leave(reporter->fd, &reply);
}

static void say_counters(struct gp_reporter *reporter)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Counters counters = GRPCPERF__CONTROL__COUNTERS__INIT;
    struct gp_counts counts;
    gp_server_counts(reporter->server, &counts);
    counters.running = counts.running;
    counters.peak_running = counts.peak_running;
    counters.parked = counts.parked;
    counters.started = counts.started;
    counters.finished = counts.finished;
    counters.rejected = counts.rejected;
    counters.cancelled = counts.cancelled;
    counters.deadline_exceeded = counts.deadline_exceeded;
    counters.work_after_cancel_us = counts.work_after_cancel_ns / 1000;
    reply.what_case = GRPCPERF__CONTROL__FROM_CHILD__WHAT_COUNTERS;
    reply.counters = &counters;
    send_or_leave(reporter->fd, &reply);
}

static void answer(struct gp_reporter *reporter, const Grpcperf__Control__ToChild *request)
{
    switch (request->what_case) {
    case GRPCPERF__CONTROL__TO_CHILD__WHAT_SAMPLE:
        say_memstats(reporter, request->sample->settle);
        break;
    case GRPCPERF__CONTROL__TO_CHILD__WHAT_RELEASE:
        gp_server_release(reporter->server);
        say_done(reporter->fd);
        break;
    case GRPCPERF__CONTROL__TO_CHILD__WHAT_RESET_PEAKS:
        gp_counters_reset_peaks(&reporter->server->counters);
        say_done(reporter->fd);
        break;
    case GRPCPERF__CONTROL__TO_CHILD__WHAT_GET_COUNTERS:
        say_counters(reporter);
        break;
    case GRPCPERF__CONTROL__TO_CHILD__WHAT_SHUTDOWN:
        leave(reporter->fd);
        break;
    default:
        say_failure(reporter->fd, "this server does not know such a request");
    }
}

static void run(void *argument)
{
    struct gp_reporter *reporter = argument;
    Grpcperf__Control__ToChild *request;
    while ((request = gp_control_receive(reporter->fd)) != NULL) {
        answer(reporter, request);
        grpcperf__control__to_child__free_unpacked(request, NULL);
    }
    _exit(0);
}

static int say_ready(struct gp_reporter *reporter)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Ready ready = GRPCPERF__CONTROL__READY__INIT;
    char versions[128];
    snprintf(versions, sizeof(versions), "grpc-core %s, protobuf-c %s, glibc %s", grpc_version_string(),
             protobuf_c_version(), gnu_get_libc_version());
    ready.port = (uint32_t)reporter->server->port;
    ready.pid = getpid();
    ready.versions = versions;
    reply.what_case = GRPCPERF__CONTROL__FROM_CHILD__WHAT_READY;
    reply.ready = &ready;
    return gp_control_send(reporter->fd, &reply);
}

int gp_reporter_start(struct gp_reporter *reporter, struct gp_server *server, int fd, struct gp_error *err)
{
    *reporter = (struct gp_reporter){.server = server, .fd = fd};
    if (say_ready(reporter) < 0)
        return gp_error_errno(err, "cannot write to the control channel, descriptor %d", fd);
    int error = gp_stacks_thread(&server->stacks, run, reporter);
    if (error)
        return gp_error_set(err, GP_ERROR_ENGINE, "cannot start the control thread: %s", strerror(error));
    return 0;
}
