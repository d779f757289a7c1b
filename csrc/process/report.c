/* report: questions to functions, results to answers (proto/control.proto). */
#include "process/report.h"

#include <malloc.h>
#include <unistd.h>

#include "base/error.h"
#include "process/control.h"
#include "process/heap.h"
#include "process/procfs.h"

typedef Grpcperf__Control__FromChild reply_t;
typedef Grpcperf__Control__ToChild request_t;

#define QUESTION(what) GRPCPERF__CONTROL__TO_CHILD__WHAT_##what
#define ANSWER(what) GRPCPERF__CONTROL__FROM_CHILD__WHAT_##what

static bool say(const struct gp_report *report, reply_t *reply, Grpcperf__Control__FromChild__WhatCase what)
{
    reply->what_case = what;
    return gp_control_send(report->fd, reply) == 0;
}

static bool say_failure(const struct gp_report *report, const char *message)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Failure failure = GRPCPERF__CONTROL__FAILURE__INIT;

    reply.failure = &failure;
    failure.message = (char *)message;
    return say(report, &reply, ANSWER(FAILURE));
}

static bool say_unknown(const struct gp_report *report)
{
    return say_failure(report, "this server does not know such a request");
}

static bool say_done(const struct gp_report *report)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Done done = GRPCPERF__CONTROL__DONE__INIT;

    reply.done = &done;
    return say(report, &reply, ANSWER(DONE));
}

static bool say_memstats(const struct gp_report *report, bool settle)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__MemStats memstats = GRPCPERF__CONTROL__MEM_STATS__INIT;
    struct gp_error err;

    if (!report->memstats)
        return say_unknown(report);
    if (report->memstats(report->context, settle, &memstats, &err) != 0)
        return say_failure(report, err.message);
    reply.memstats = &memstats;
    return say(report, &reply, ANSWER(MEMSTATS));
}

static bool say_counters(const struct gp_report *report)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Counters counters = GRPCPERF__CONTROL__COUNTERS__INIT;

    if (!report->counters)
        return say_unknown(report);
    report->counters(report->context, &counters);
    reply.counters = &counters;
    return say(report, &reply, ANSWER(COUNTERS));
}

static void say_bye(const struct gp_report *report)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Bye bye = GRPCPERF__CONTROL__BYE__INIT;

    reply.bye = &bye;
    say(report, &reply, ANSWER(BYE));
}

static bool answer(const struct gp_report *report, const request_t *request)
{
    switch (request->what_case) {
    case QUESTION(SAMPLE):
        return say_memstats(report, request->sample->settle);
    case QUESTION(RELEASE):
        if (report->release)
            report->release(report->context);
        return say_done(report);
    case QUESTION(RESET_PEAKS):
        if (!report->reset_peaks)
            return say_unknown(report);
        report->reset_peaks(report->context);
        return say_done(report);
    case QUESTION(IMPAIR):
        if (!report->impair)
            return say_unknown(report);
        report->impair(report->context, request->impair->how);
        return say_done(report);
    case QUESTION(GET_COUNTERS):
        return say_counters(report);
    case QUESTION(SHUTDOWN):
        say_bye(report);
        return false;
    default:
        return say_unknown(report);
    }
}

int gp_report_memory(bool settle, Grpcperf__Control__MemStats *memstats, struct gp_error *err)
{
    struct gp_procfs_sample process;

    if (settle)
        malloc_trim(0);
    struct gp_heap heap = gp_heap_read();
    if (gp_procfs_sample(getpid(), GP_PROCFS_MAPS, &process, err) < 0)
        return -1;
    memstats->heap_alloc = heap.alloc;
    memstats->heap_sys = heap.sys;
    memstats->heap_idle = heap.idle;
    memstats->sys = process.writable_bytes;
    memstats->threads = process.threads;
    memstats->own_threads = process.threads;
    memstats->settled = true;
    return 0;
}

int gp_report_ready(const struct gp_report *report, int port, const char *versions)
{
    reply_t reply = GRPCPERF__CONTROL__FROM_CHILD__INIT;
    Grpcperf__Control__Ready ready = GRPCPERF__CONTROL__READY__INIT;

    ready.port = (uint32_t)port;
    ready.pid = report->pid ? report->pid : getpid();
    ready.versions = (char *)versions;
    reply.ready = &ready;
    return say(report, &reply, ANSWER(READY)) ? 0 : -1;
}

int gp_report_failure(const struct gp_report *report, const char *message)
{
    return say_failure(report, message) ? 0 : -1;
}

bool gp_report_answer(const struct gp_report *report)
{
    request_t *request = gp_control_receive(report->fd);
    bool stay = request && answer(report, request);

    grpcperf__control__to_child__free_unpacked(request, NULL);
    return stay;
}
