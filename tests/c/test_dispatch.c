/* dispatch: every message accounted for, whichever way it went and whatever broke on the way. */
#include "load/dispatch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "support.h"

#define MS GP_NS_PER_MS
#define SECOND GP_NS_PER_S
#define STREAMS 4u

static const struct gp_metadata slow = {"grpcperf-message-delay-us", "400000"};
static char directory[64];
static struct gp_client_opts streams[STREAMS];
static uint8_t message[TEST_REQUEST_MAX + 2 + GP_DISPATCH_STAMP_BYTES];
static size_t message_bytes;
static struct gp_error err;

/* A SimpleRequest whose last field, the payload's body, has the stamp's room. */
static void make_message(void)
{
    message_bytes = test_request(message, 16);
    message[message_bytes++] = 0x1a; /* payload */
    message[message_bytes++] = 2 + GP_DISPATCH_STAMP_BYTES;
    message[message_bytes++] = 0x12; /* its body */
    message[message_bytes++] = GP_DISPATCH_STAMP_BYTES;
    message_bytes += GP_DISPATCH_STAMP_BYTES;
    CHECK(message_bytes <= sizeof message);
}

static struct gp_dispatch_opts opts_for(const struct test_server *server, uint32_t slow_streams)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        streams[i] = (struct gp_client_opts){
            .transport = "wire",
            .target = server->target,
            .request = {.kind = GP_KIND_BIDI,
                        .method = TEST_BIDI,
                        .message = message,
                        .message_bytes = message_bytes,
                        .metadata = &slow,
                        .metadata_count = i < slow_streams},
        };
    return (struct gp_dispatch_opts){
        .streams = streams,
        .stream_count = STREAMS,
        .policy = GP_DISPATCH_SHARED,
        .writers = 200,
        .period_ns = 500 * MS,
        .duration_ns = 800 * MS,
        .timeout_ns = 120 * MS,
        .drain_ns = 10 * SECOND,
        .connect_timeout_ns = 10 * SECOND,
        .replay_at_end = true,
        .spill = {.directory = directory},
    };
}

static struct gp_dispatch *started(const struct gp_dispatch_opts *opts)
{
    struct gp_dispatch *dispatch;

    CHECK(gp_dispatch_create(&dispatch, opts, &err) == 0);
    CHECK(gp_dispatch_start(dispatch, &err) == 0);
    return dispatch;
}

static const struct gp_dispatch_result *finished(struct gp_dispatch *dispatch)
{
    const struct gp_dispatch_result *r;

    CHECK(gp_dispatch_wait_finished(dispatch, 30 * SECOND));
    CHECK(gp_dispatch_result(dispatch, &r, &err) == 0);
    fprintf(stderr, "sent %llu = %llu + %llu, unsent %llu, replayed %llu, on disk %llu, repeated %llu\n",
            (unsigned long long)r->sent, (unsigned long long)r->delivered, (unsigned long long)r->spilled,
            (unsigned long long)r->unsent, (unsigned long long)r->replayed,
            (unsigned long long)r->spill.waiting, (unsigned long long)r->repeated);
    CHECK(r->sent == r->delivered + r->spilled && r->lost == 0 && r->doubled == 0);
    CHECK(r->spilled == r->spill.appended && r->replayed == r->spill.delivered);
    CHECK(r->spill.waiting == r->spill.recovered + r->spilled - r->replayed);
    CHECK(r->held_up.count == r->sent && r->delivery.count == r->delivered);
    CHECK((r->disk_error != NULL) == (r->spill.refused > 0));
    return r;
}

static double share_spilled(const struct gp_dispatch_result *r)
{
    return (double)r->spilled / (double)r->sent;
}

/* 400 a second, of which one slow stream in four takes three. */
static void test_policies(const struct test_server *server)
{
    struct gp_dispatch_opts opts = opts_for(server, 1);
    const struct gp_dispatch_result *r;
    struct gp_dispatch *dispatch;
    double round_robin;

    opts.policy = GP_DISPATCH_ROUND_ROBIN;
    dispatch = started(&opts);
    r = finished(dispatch);
    round_robin = share_spilled(r);
    CHECK(r->sent > 200 && r->sent <= 600 && r->unsent == 0 && r->connected == STREAMS);
    CHECK(round_robin > 0.1 && round_robin < 0.5 && r->streams_ended == 0);
    CHECK(r->replayed == r->spilled && r->spill.waiting == 0 && r->repeated == 0);
    gp_dispatch_destroy(dispatch);
    for (uint32_t buffer = 0; buffer <= 16; buffer += 16) {
        opts.policy = GP_DISPATCH_SHARED;
        opts.buffer = buffer;
        opts.writer_threads = 1 + buffer / 8;
        dispatch = started(&opts);
        r = finished(dispatch);
        CHECK(r->sent > 200 && r->unsent == 0 && share_spilled(r) < round_robin / 2);
        CHECK(r->spill.waiting == 0 && r->locked > 2 * r->sent);
        gp_dispatch_destroy(dispatch);
    }
}

/* All streams are slow: most goes to the disk, and idle streams deliver from it only if told. */
static void test_overload(const struct test_server *server)
{
    struct gp_dispatch_opts opts = opts_for(server, STREAMS);
    const struct gp_dispatch_result *r;
    struct gp_dispatch *dispatch;
    uint64_t left;

    opts.replay_at_end = false;
    opts.duration_ns = 600 * MS;
    dispatch = started(&opts);
    r = finished(dispatch);
    CHECK(share_spilled(r) > 0.5 && r->replayed == 0);
    left = r->spill.waiting;
    gp_dispatch_destroy(dispatch);

    opts = opts_for(server, 0);
    opts.writers = 20; /* with time to spare */
    opts.replay_at_end = false;
    opts.replay_idle = true;
    dispatch = started(&opts);
    r = finished(dispatch);
    CHECK(r->spill.recovered == left && r->replayed >= left && r->repeated == 0 && r->spill.waiting == 0);
    CHECK(r->first_sequence > UINT64_C(1) << GP_SPILL_EPOCH_SHIFT);
    gp_dispatch_destroy(dispatch);
}

static void nap(uint64_t ns)
{
    struct timespec pause = gp_clock_timespec(ns);

    nanosleep(&pause, NULL);
}

/* The server dies in the middle: what was on its way is on disk, marked; another delivers it. */
static void test_server_dies(const struct test_server *alive)
{
    const struct gp_dispatch_result *r;
    struct gp_dispatch_opts opts;
    struct test_server server;
    struct gp_dispatch *dispatch;
    uint64_t left;

    test_server_start(&server, NULL);
    opts = opts_for(&server, 2);
    opts.buffer = 8; /* which is spilled too */
    opts.drain_ns = 300 * MS;
    dispatch = started(&opts);
    nap(500 * MS);
    test_server_kill(&server);
    r = finished(dispatch);
    CHECK(r->delivered > 0 && r->spilled > 0 && r->replayed == 0 && r->streams_ended >= STREAMS);
    left = r->spill.waiting;
    gp_dispatch_destroy(dispatch);

    opts = opts_for(alive, 0);
    opts.writers = 0;
    dispatch = started(&opts);
    r = finished(dispatch);
    CHECK(r->sent == 0 && r->replayed == left && r->spill.waiting == 0);
    CHECK(r->repeated >= 1 && r->repeated <= STREAMS); /* what the slow ones had in hand */
    gp_dispatch_destroy(dispatch);
}

/* No room on disk: writers wait, and what they cannot say stays with them. */
static void test_disk_full(const struct test_server *server)
{
    struct gp_dispatch_opts opts = opts_for(server, STREAMS);
    struct rlimit limit, small;
    const struct gp_dispatch_result *r;
    struct gp_dispatch *dispatch;

    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    small = limit;
    small.rlim_cur = 1024;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    opts.drain_ns = 700 * MS;
    opts.replay_at_end = false;
    dispatch = started(&opts);
    r = finished(dispatch);
    CHECK(r->spill.refused > 0 && r->spilled > 0 && r->spilled < 40);
    CHECK(r->disk_error && r->disk_error->os_errno == EFBIG);
    CHECK(r->unsent > 100 && r->unsent <= 200 && r->sent < 100); /* one each, which they wait with */
    gp_dispatch_destroy(dispatch);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);

    opts = opts_for(server, 0);
    opts.writers = 0;
    dispatch = started(&opts);
    CHECK(finished(dispatch)->spill.waiting == 0);
    gp_dispatch_destroy(dispatch);
}

static void test_stopped(const struct test_server *server)
{
    static const uint64_t after_ms[] = {0, 3, 200};
    struct gp_dispatch_opts opts = opts_for(server, 1);
    struct gp_dispatch *dispatch;

    opts.duration_ns = 60 * SECOND;
    for (size_t i = 0; i < 3; i++) {
        const struct gp_dispatch_result *r;
        uint64_t began_ns;

        opts.buffer = i == 1 ? 4 : 0;
        dispatch = started(&opts);
        nap(after_ms[i] * MS);
        began_ns = gp_clock_now_ns();
        gp_dispatch_stop(dispatch);
        CHECK(gp_dispatch_wait_finished(dispatch, 5 * SECOND) && gp_clock_now_ns() - began_ns < 3 * SECOND);
        if (gp_dispatch_result(dispatch, &r, &err) == 0)
            CHECK(r->sent == r->delivered + r->spilled && r->lost == 0 && r->doubled == 0);
        else
            CHECK(err.code == GP_ERROR_STOPPED);
        gp_dispatch_destroy(dispatch);
    }
    CHECK(gp_dispatch_create(&dispatch, &opts, &err) == 0);
    gp_dispatch_destroy(dispatch); /* never started */
    gp_dispatch_destroy(started(&opts));
    gp_dispatch_destroy(NULL);
}

static void test_refused(const struct test_server *server)
{
    struct gp_dispatch_opts opts = opts_for(server, 0), wrong;
    const struct gp_dispatch_result *r;
    struct gp_dispatch *dispatch;

    wrong = opts;
    wrong.stream_count = 0;
    CHECK(gp_dispatch_create(&dispatch, &wrong, &err) < 0 && err.code == GP_ERROR_INVALID && !dispatch);
    wrong = opts;
    wrong.timeout_ns = 0;
    CHECK(gp_dispatch_create(&dispatch, &wrong, &err) < 0 && err.code == GP_ERROR_INVALID);
    wrong = opts;
    wrong.period_ns = 1;
    wrong.duration_ns = 3600 * SECOND;
    CHECK(gp_dispatch_create(&dispatch, &wrong, &err) < 0 && strstr(err.message, "too many"));
    wrong = opts;
    wrong.spill.directory = "/nonexistent";
    CHECK(gp_dispatch_create(&dispatch, &wrong, &err) < 0 && err.code == GP_ERROR_ENGINE);
    streams[0].request.message_bytes = 3;
    CHECK(gp_dispatch_create(&dispatch, &opts, &err) < 0 && strstr(err.message, "3 bytes"));
    opts = opts_for(server, 0);
    streams[2].target = "ipv4:127.0.0.1:1";
    dispatch = started(&opts);
    CHECK(gp_dispatch_wait_finished(dispatch, 20 * SECOND));
    CHECK(gp_dispatch_result(dispatch, &r, &err) < 0 && err.code == GP_ERROR_CONNECT);
    gp_dispatch_destroy(dispatch);
}

int main(void)
{
    char path[96];
    struct test_server server;

    signal(SIGXFSZ, SIG_IGN);
    snprintf(directory, sizeof directory, "/tmp/gp-dispatch-XXXXXX");
    CHECK(mkdtemp(directory));
    make_message();
    test_server_start(&server, NULL);
    test_policies(&server);
    test_overload(&server);
    test_server_dies(&server);
    test_disk_full(&server);
    test_stopped(&server);
    test_refused(&server);
    test_server_stop(&server);
    snprintf(path, sizeof path, "%s/spill.log", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/spill.mark", directory);
    unlink(path);
    CHECK(rmdir(directory) == 0);
    return 0;
}
