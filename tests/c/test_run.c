/* run: whole runs through the C core client against a real server, and every way they can end. */
#include "load/run.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "controlled_server.h"
#include "run_fixture.h"

/* The error of a run that must not come to measure. */
static struct gp_error error_of(struct gp_run *run)
{
    const struct gp_run_result *result;
    struct gp_error err = {0};

    CHECK(gp_run_wait(run, 60 * SECOND));
    CHECK(gp_run_result(run, &result, &err) == -1 && result == NULL);
    return err;
}

static void nap(uint64_t ns)
{
    struct timespec span = gp_clock_timespec(ns);

    nanosleep(&span, NULL);
}

/* --- what is measured --- */

static void test_duration(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    struct gp_run *run;

    opts.warmup_ns = 100 * MS;
    opts.server_pid = server->pid;
    run = started(&opts);
    r = result_of(run);
    CHECK(r->window_ns == 300 * MS && r->windows.count >= 15);
    CHECK(r->classes[GP_CLASS_OK] > 100 && r->classes[GP_CLASS_OK] == sum_of_classes(r));
    CHECK(r->connected == 1 && r->reconnects == 0 && r->alive == 1 && r->connect_ns > 0);
    CHECK(r->client_cpu_known && r->client_cpu_ns > 0 && r->client_cpu_ns < 2 * r->window_ns);
    CHECK(r->server_cpu_known && r->server_cpu_ns > 0 && r->server_cpu_ns < 8 * r->window_ns);
    CHECK(r->messages_received <= r->all_in_window + 8 && r->messages_received + 8 >= r->all_in_window);
    CHECK(r->messages_sent <= sum_of_classes(r) + 8 && r->messages_sent + 8 >= sum_of_classes(r));
    CHECK(!r->server_died && !r->stopped);
    CHECK(r->latency.min_ns > 0 && r->latency.max_ns < 5 * SECOND);
    gp_run_destroy(run);
}

/* Against the server's own count. */
static void test_calls_are_exact(void)
{
    struct controlled_server server;
    uint64_t before = 0;

    controlled_server_start(&server);
    for (uint64_t calls = 1; calls < 3000; calls = calls * 3 + 1) {
        struct gp_run_opts opts = opts_for(server.target);
        const struct gp_run_result *r;
        struct gp_run *run;

        opts.duration_ns = 0;
        opts.calls = calls;
        opts.threads = 3; /* more threads than calls, at first */
        opts.client.connections = 3;
        run = started(&opts);
        r = result_of(run);
        CHECK(r->classes[GP_CLASS_OK] == calls && sum_of_classes(r) == calls && r->ok_in_window == calls);
        CHECK(controlled_server_counters(&server).started - before == calls);
        before += calls;
        gp_run_destroy(run);
    }
    controlled_server_stop(&server);
}

static void test_think_time(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    struct gp_run *run;

    opts.think_ns = 50 * MS;
    run = started(&opts);
    r = result_of(run);
    CHECK(r->classes[GP_CLASS_OK] >= 8 && r->classes[GP_CLASS_OK] <= 8 * 6);
    gp_run_destroy(run);
}

static void test_endless_streams(const struct test_server *server)
{
    static const struct {
        enum gp_kind kind;
        const char *method;
    } rows[] = {{GP_KIND_BIDI, TEST_BIDI},
                {GP_KIND_BIDI_FREE, TEST_BIDI_FREE},
                {GP_KIND_SERVER_STREAM, TEST_SERVER_STREAM},
                {GP_KIND_CLIENT_STREAM, TEST_CLIENT_STREAM}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gp_run_opts opts = opts_for(server->target);
        const struct gp_run_result *r;
        struct gp_run *run;

        opts.client.request.kind = rows[i].kind;
        opts.client.request.method = rows[i].method;
        opts.warmup_ns = 50 * MS;
        run = started(&opts);
        r = result_of(run);
        CHECK(r->classes[GP_CLASS_OK] == 8 && sum_of_classes(r) == 8);
        CHECK(r->messages_sent + r->messages_received > 50);
        gp_run_destroy(run);
    }
}

static void test_endless_streams_need_a_duration(void)
{
    struct gp_run_opts opts = opts_for("ipv4:127.0.0.1:1");
    struct gp_error err = {0};
    struct gp_run *run;

    opts.client.request.kind = GP_KIND_BIDI;
    opts.duration_ns = 0;
    opts.calls = 10;
    CHECK(gp_run_create(&run, &opts, &err) == -1 && run == NULL);
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, "calls=10"));
}

/* --- calls that do not end well --- */

static void test_failures_are_data(const struct test_server *server)
{
    static const struct gp_metadata status = {"grpcperf-status", "8"},
                                    delay = {"grpcperf-delay-us", "900000"};
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    struct gp_run *run;

    opts.client.request.metadata = &status;
    opts.client.request.metadata_count = 1;
    run = started(&opts);
    r = result_of(run);
    CHECK(r->classes[GP_CLASS_RESOURCE_EXHAUSTED] > 100 && r->latency.count == 0 && r->ok_in_window == 0);
    CHECK(r->errors.count == sum_of_classes(r) && r->all_in_window > 100);
    gp_run_destroy(run);

    opts.client.request.metadata = &delay;
    opts.client.request.deadline_ns = 50 * MS;
    run = started(&opts);
    r = result_of(run);
    CHECK(r->classes[GP_CLASS_DEADLINE_EXCEEDED] >= 8 && r->latency.count == 0);
    gp_run_destroy(run);
}

static const struct gp_metadata hold = {"grpcperf-hold", "1"};

static void test_drain_runs_out(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    uint64_t began_ns = gp_clock_now_ns();
    const struct gp_run_result *r;
    struct gp_run *run;

    opts.client.request.metadata = &hold;
    opts.client.request.metadata_count = 1;
    opts.drain_ns = 150 * MS;
    run = started(&opts);
    r = result_of(run);
    CHECK(gp_clock_now_ns() - began_ns < 3 * SECOND);
    CHECK(r->classes[GP_CLASS_IN_FLIGHT_AT_END] == 8 && sum_of_classes(r) == 8);
    CHECK(r->drain_ns >= 150 * MS && r->drain_ns < 500 * MS && r->all_in_window == 0);
    gp_run_destroy(run);
}

static int open_pidfd(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    CHECK(pidfd >= 0);
    return pidfd;
}

static void test_server_dies(void)
{
    struct test_server server;
    struct gp_run_opts opts;
    const struct gp_run_result *r;
    struct gp_run *run;
    uint64_t died_ns;

    test_server_start(&server, NULL);
    opts = opts_for(server.target);
    opts.threads = 2;
    opts.client.connections = 2;
    opts.duration_ns = 20 * SECOND;
    opts.drain_ns = 10 * SECOND;
    opts.server_pid = server.pid;
    opts.server_pidfd = open_pidfd(server.pid);
    run = started(&opts);
    nap(400 * MS);
    kill(server.pid, SIGKILL);
    died_ns = gp_clock_now_ns();
    r = result_of(run);
    CHECK(gp_clock_now_ns() - died_ns < SECOND);
    CHECK(r->server_died && !r->stopped && r->classes[GP_CLASS_OK] > 100);
    CHECK(r->window_ns > 300 * MS && r->window_ns < 2 * SECOND);
    CHECK(sum_of_classes(r) < r->classes[GP_CLASS_OK] + 8 * 12); /* no flood of failures */
    gp_run_destroy(run);
    test_server_kill(&server);
    close(opts.server_pidfd);
}

/* Nobody knows of its death: the run goes on, but not in a frenzy. */
static void test_server_dies_unseen(void)
{
    struct test_server server;
    struct gp_run_opts opts;
    const struct gp_run_result *r;
    struct gp_run *run;

    test_server_start(&server, NULL);
    opts = opts_for(server.target);
    opts.duration_ns = 1200 * MS;
    run = started(&opts);
    nap(200 * MS);
    test_server_kill(&server);
    r = result_of(run);
    CHECK(r->window_ns == 1200 * MS && !r->server_died);
    CHECK(r->classes[GP_CLASS_UNAVAILABLE] >= 8 && r->classes[GP_CLASS_UNAVAILABLE] < 8 * 40);
    gp_run_destroy(run);
}

/* --- runs that never come to measure --- */

/* A port that nobody listens on (silent = false), or that takes connections and says nothing. */
static int deaf_socket(char *target, size_t size, bool silent)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0);
    CHECK(!silent || listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    snprintf(target, size, "ipv4:127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static void test_nobody_listens(void)
{
    char target[64];
    int fd = deaf_socket(target, sizeof target, false);
    struct gp_run_opts opts = opts_for(target);
    struct gp_run_snapshot snapshot;
    struct gp_error err;
    struct gp_run *run;

    opts.threads = 2;
    opts.client.connections = 2;
    run = started(&opts);
    err = error_of(run);
    CHECK(err.code == GP_ERROR_CONNECT && strstr(err.message, target));
    gp_run_snapshot(run, &snapshot);
    CHECK(snapshot.phase == GP_RUN_ENDED && snapshot.calls == 0 && snapshot.elapsed_ns == 0);
    gp_run_destroy(run);
    close(fd);
}

static void test_stop_while_connecting(void)
{
    char target[64];
    int fd = deaf_socket(target, sizeof target, true);
    struct gp_run_opts opts = opts_for(target);
    struct gp_run_snapshot snapshot;
    struct gp_run *run = started(&opts);
    uint64_t stopped_ns;

    nap(100 * MS);
    gp_run_snapshot(run, &snapshot);
    CHECK(snapshot.phase == GP_RUN_CONNECT && snapshot.elapsed_ns == 0);
    CHECK(!gp_run_wait(run, 0));
    stopped_ns = gp_clock_now_ns();
    gp_run_stop(run);
    CHECK(error_of(run).code == GP_ERROR_STOPPED);
    CHECK(gp_clock_now_ns() - stopped_ns < SECOND);
    gp_run_destroy(run);
    close(fd);
}

static void test_server_dies_while_connecting(void)
{
    char target[64];
    int fd = deaf_socket(target, sizeof target, true);
    struct gp_run_opts opts = opts_for(target);
    struct test_server server;
    struct gp_run *run;

    test_server_start(&server, NULL); /* any process will do */
    opts.server_pidfd = open_pidfd(server.pid);
    run = started(&opts);
    nap(50 * MS);
    test_server_kill(&server);
    CHECK(error_of(run).code == GP_ERROR_DIED);
    gp_run_destroy(run);
    close(opts.server_pidfd);
    close(fd);
}

static void test_impossible_cpu(const struct test_server *server)
{
    static const int cpus[] = {CPU_SETSIZE - 1}, nonsense[] = {-1};
    struct gp_run_opts opts = opts_for(server->target);
    struct gp_error err;
    struct gp_run *run;

    opts.cpus = cpus;
    opts.cpu_count = 1;
    run = started(&opts);
    err = error_of(run);
    CHECK(err.code == GP_ERROR_ENGINE && strstr(err.message, "cpus"));
    gp_run_destroy(run);
    opts.cpus = nonsense;
    run = started(&opts);
    CHECK(error_of(run).code == GP_ERROR_INVALID);
    gp_run_destroy(run);
}

/* --- stop, snapshots, several at once --- */

static void test_stop_keeps_what_was_measured(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    const struct gp_run_result *r;
    uint64_t stopped_ns;
    struct gp_run *run;

    opts.duration_ns = 20 * SECOND;
    run = started(&opts);
    nap(300 * MS);
    stopped_ns = gp_clock_now_ns();
    gp_run_stop(run);
    r = result_of(run);
    CHECK(gp_clock_now_ns() - stopped_ns < SECOND);
    CHECK(r->stopped && !r->server_died && r->classes[GP_CLASS_OK] > 100);
    CHECK(r->window_ns > 200 * MS && r->window_ns < 5 * SECOND);
    gp_run_destroy(run);

    opts.client.request.metadata = &hold; /* calls that will not end keep nobody waiting */
    opts.client.request.metadata_count = 1;
    opts.drain_ns = 10 * SECOND;
    run = started(&opts);
    nap(100 * MS);
    stopped_ns = gp_clock_now_ns();
    gp_run_stop(run);
    r = result_of(run);
    CHECK(gp_clock_now_ns() - stopped_ns < SECOND);
    CHECK(r->stopped && r->classes[GP_CLASS_IN_FLIGHT_AT_END] == 8);
    gp_run_destroy(run);
}

static void test_snapshots_only_rise(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    struct gp_run_snapshot before = {0}, now;
    const struct gp_run_result *r;
    bool seen[GP_RUN_ENDED + 1] = {false};
    struct gp_run *run;

    opts.warmup_ns = 100 * MS;
    run = started(&opts);
    do {
        gp_run_snapshot(run, &now);
        CHECK(now.phase >= before.phase && now.calls >= before.calls && now.ok >= before.ok);
        CHECK(now.phase == GP_RUN_ENDED || now.elapsed_ns >= before.elapsed_ns);
        CHECK(now.phase > GP_RUN_WARMUP || now.sent == 0);
        CHECK(now.sent >= now.calls && now.p50_ns <= now.p99_ns);
        seen[now.phase] = true;
        before = now;
    } while (!gp_run_wait(run, 5 * MS));
    gp_run_snapshot(run, &now);
    r = result_of(run);
    CHECK(seen[GP_RUN_WARMUP] && seen[GP_RUN_MEASURE] && now.phase == GP_RUN_ENDED);
    CHECK(now.calls == sum_of_classes(r) && now.ok == r->classes[GP_CLASS_OK]);
    CHECK(now.elapsed_ns == r->window_ns && now.not_sent == 0);
    CHECK(now.p50_ns > r->latency.min_ns && now.p99_ns < r->latency.max_ns + r->latency.max_ns / 1000);
    gp_run_destroy(run);
}

static void test_two_at_once(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    struct gp_run *a = started(&opts), *b = started(&opts);
    const struct gp_run_result *ra = result_of(a), *rb = result_of(b);

    CHECK(ra->classes[GP_CLASS_OK] > 50 && rb->classes[GP_CLASS_OK] > 50);
    CHECK(!ra->client_cpu_known && !rb->client_cpu_known); /* C core mixes them */
    gp_run_destroy(a);
    gp_run_destroy(b);
}

static bool has_thread(const char *wanted)
{
    DIR *directory = opendir("/proc/self/task");
    bool found = false;

    CHECK(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        found |= fgets(name, sizeof name, file) && strcspn(name, "\n") == strlen(wanted) &&
                 strncmp(name, wanted, strlen(wanted)) == 0;
        fclose(file);
    }
    closedir(directory);
    return found;
}

static void test_destroy_ends_a_run(const struct test_server *server)
{
    static const uint64_t after_ms[] = {0, 5, 50, 250};
    struct gp_run_opts opts = opts_for(server->target);
    struct gp_error err;
    struct gp_run *run;

    opts.warmup_ns = 100 * MS;
    opts.duration_ns = 20 * SECOND;
    opts.drain_ns = 20 * SECOND;
    opts.threads = 2;
    opts.client.connections = 2;
    opts.client.request.metadata = &hold;
    opts.client.request.metadata_count = 1;
    for (size_t i = 0; i < 4; i++) {
        uint64_t destroyed_ns;

        run = started(&opts);
        nap(after_ms[i] * MS);
        if (after_ms[i] == 250)
            CHECK(has_thread("gp-run") && has_thread("gp-load-0") && has_thread("gp-load-1"));
        destroyed_ns = gp_clock_now_ns();
        gp_run_destroy(run);
        CHECK(gp_clock_now_ns() - destroyed_ns < SECOND);
        CHECK(!has_thread("gp-load-0"));
    }
    CHECK(gp_run_create(&run, &opts, &err) == 0);
    gp_run_destroy(run); /* never started */
    gp_run_destroy(NULL);
}

static size_t open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;

    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void test_descriptors_stay_flat(const struct test_server *server)
{
    struct gp_run_opts opts = opts_for(server->target);
    size_t before = 0;

    opts.duration_ns = 0;
    opts.calls = 50;
    opts.client.connections = 3;
    for (int i = 0; i < 30; i++) {
        struct gp_run *run = started(&opts);

        CHECK(result_of(run)->connected == 3);
        gp_run_destroy(run);
        if (i == 5)
            before = open_descriptors();
    }
    CHECK(open_descriptors() <= before + 3); /* C core closes the last ones in its own time */
}

int main(void)
{
    struct test_server server;

    request_bytes = test_request(request, 16);
    test_server_start(&server, NULL);
    test_duration(&server);
    test_calls_are_exact();
    test_think_time(&server);
    test_endless_streams(&server);
    test_endless_streams_need_a_duration();
    test_failures_are_data(&server);
    test_drain_runs_out(&server);
    test_server_dies();
    test_server_dies_unseen();
    test_nobody_listens();
    test_stop_while_connecting();
    test_server_dies_while_connecting();
    test_impossible_cpu(&server);
    test_stop_keeps_what_was_measured(&server);
    test_snapshots_only_rise(&server);
    test_two_at_once(&server);
    test_destroy_ends_a_run(&server);
    test_descriptors_stay_flat(&server);
    test_server_stop(&server);
    return 0;
}
