/* report: each question asked over a real channel, by hand on the parent's side, and its answer. */
#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "process/control.h"
#include "process/report.h"

typedef Grpcperf__Control__FromChild reply_t;
typedef Grpcperf__Control__ToChild request_t;

#define QUESTION(what) GRPCPERF__CONTROL__TO_CHILD__WHAT_##what
#define ANSWER(what) GRPCPERF__CONTROL__FROM_CHILD__WHAT_##what

static int parent;
static struct gp_report report;
static int released, peaks_reset, settles;

static int read_memstats(void *context, bool settle, Grpcperf__Control__MemStats *memstats,
                         struct gp_error *err)
{
    CHECK(context == &parent);
    settles += settle;
    memstats->heap_alloc = 4711;
    return settle ? gp_error_set(err, GP_ERROR_ENGINE, "cannot settle") : 0;
}

static void read_counters(void *context, Grpcperf__Control__Counters *counters)
{
    CHECK(context == &parent);
    counters->running = 5;
}

static void release(void *context)
{
    CHECK(context == &parent);
    released++;
}

static void reset_peaks(void *context)
{
    CHECK(context == &parent);
    peaks_reset++;
}

static void begin(void)
{
    int fds[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    parent = fds[0];
    report = (struct gp_report){fds[1], &parent, read_memstats, read_counters, release, reset_peaks};
}

static void end(void)
{
    close(parent);
    close(report.fd);
}

static void ask(request_t *request)
{
    uint8_t frame[64];
    size_t size = grpcperf__control__to_child__get_packed_size(request);
    uint32_t prefix = htonl((uint32_t)size);

    memcpy(frame, &prefix, 4);
    grpcperf__control__to_child__pack(request, frame + 4);
    CHECK(write(parent, frame, 4 + size) == (ssize_t)(4 + size));
}

static reply_t *hear(Grpcperf__Control__FromChild__WhatCase what)
{
    uint8_t bytes[512];
    uint32_t prefix;

    CHECK(recv(parent, &prefix, 4, MSG_WAITALL) == 4 && ntohl(prefix) <= sizeof bytes);
    CHECK(recv(parent, bytes, ntohl(prefix), MSG_WAITALL) == (ssize_t)ntohl(prefix));
    reply_t *reply = grpcperf__control__from_child__unpack(NULL, ntohl(prefix), bytes);
    CHECK(reply && reply->what_case == what);
    return reply;
}

static void drop(reply_t *reply)
{
    grpcperf__control__from_child__free_unpacked(reply, NULL);
}

static void ready(void)
{
    CHECK(gp_report_ready(&report, 1234, "a 1, b 2") == 0);
    reply_t *reply = hear(ANSWER(READY));
    CHECK(reply->ready->port == 1234 && reply->ready->pid == getpid());
    CHECK(strcmp(reply->ready->versions, "a 1, b 2") == 0);
    drop(reply);
}

static void memstats(bool settle)
{
    Grpcperf__Control__Sample sample = GRPCPERF__CONTROL__SAMPLE__INIT;
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    sample.settle = settle;
    request.what_case = QUESTION(SAMPLE);
    request.sample = &sample;
    ask(&request);
    CHECK(gp_report_answer(&report));
    reply_t *reply = hear(settle ? ANSWER(FAILURE) : ANSWER(MEMSTATS));
    CHECK(settle ? strcmp(reply->failure->message, "cannot settle") == 0
                 : reply->memstats->heap_alloc == 4711);
    CHECK(settles == settle);
    drop(reply);
}

static void counters(void)
{
    Grpcperf__Control__GetCounters get = GRPCPERF__CONTROL__GET_COUNTERS__INIT;
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    request.what_case = QUESTION(GET_COUNTERS);
    request.get_counters = &get;
    ask(&request);
    CHECK(gp_report_answer(&report));
    reply_t *reply = hear(ANSWER(COUNTERS));
    CHECK(reply->counters->running == 5);
    drop(reply);
}

static void releases(int expected)
{
    Grpcperf__Control__Release go = GRPCPERF__CONTROL__RELEASE__INIT;
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    request.what_case = QUESTION(RELEASE);
    request.release = &go;
    ask(&request);
    CHECK(gp_report_answer(&report));
    drop(hear(ANSWER(DONE)));
    CHECK(released == expected);
}

static void resets_peaks(void)
{
    Grpcperf__Control__ResetPeaks reset = GRPCPERF__CONTROL__RESET_PEAKS__INIT;
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    request.what_case = QUESTION(RESET_PEAKS);
    request.reset_peaks = &reset;
    ask(&request);
    CHECK(gp_report_answer(&report));
    drop(hear(ANSWER(DONE)));
    CHECK(peaks_reset == 1);
}

static void unknown(void)
{
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    ask(&request);
    CHECK(gp_report_answer(&report));
    drop(hear(ANSWER(FAILURE)));
}

static void leaves(void)
{
    Grpcperf__Control__Shutdown shutdown_now = GRPCPERF__CONTROL__SHUTDOWN__INIT;
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    request.what_case = QUESTION(SHUTDOWN);
    request.shutdown = &shutdown_now;
    ask(&request);
    CHECK(!gp_report_answer(&report));
    drop(hear(ANSWER(BYE)));
}

static void ask_in_vain(request_t *request, Grpcperf__Control__ToChild__WhatCase what)
{
    request->what_case = what;
    ask(request);
    CHECK(gp_report_answer(&report));
    drop(hear(ANSWER(FAILURE)));
}

/* The launcher: it speaks for another process, and has nothing to tell of itself. */
static void one_without_answers(void)
{
    Grpcperf__Control__Sample sample = GRPCPERF__CONTROL__SAMPLE__INIT;
    Grpcperf__Control__GetCounters get = GRPCPERF__CONTROL__GET_COUNTERS__INIT;
    Grpcperf__Control__ResetPeaks reset = GRPCPERF__CONTROL__RESET_PEAKS__INIT;
    request_t request = GRPCPERF__CONTROL__TO_CHILD__INIT;

    begin();
    report = (struct gp_report){.fd = report.fd, .pid = 99};
    CHECK(gp_report_ready(&report, 0, "") == 0);
    reply_t *reply = hear(ANSWER(READY));
    CHECK(reply->ready->pid == 99);
    drop(reply);
    request.sample = &sample;
    ask_in_vain(&request, QUESTION(SAMPLE));
    request.get_counters = &get;
    ask_in_vain(&request, QUESTION(GET_COUNTERS));
    request.reset_peaks = &reset;
    ask_in_vain(&request, QUESTION(RESET_PEAKS));
    leaves();
    CHECK(gp_report_failure(&report, "cannot run") == 0);
    reply = hear(ANSWER(FAILURE));
    CHECK(strcmp(reply->failure->message, "cannot run") == 0);
    drop(reply);
    end();
}

static void a_parent_that_is_gone(void)
{
    begin();
    shutdown(parent, SHUT_RDWR);
    CHECK(!gp_report_answer(&report));
    CHECK(gp_report_ready(&report, 1, "") == -1);
    end();
    begin();
    CHECK(write(parent, "\0\0\0\1\xff", 5) == 5); /* a message that is none */
    CHECK(!gp_report_answer(&report));
    end();
}

int main(void)
{
    begin();
    ready();
    memstats(false);
    memstats(true);
    counters();
    releases(1);
    report.release = NULL; /* nothing is ever parked */
    releases(1);
    resets_peaks();
    unknown();
    leaves();
    end();
    one_without_answers();
    a_parent_that_is_gone();
    return 0;
}
