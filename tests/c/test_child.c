/* Children of every kind of behaviour: /bin/sh, or this binary again with the name of a part to play. */
#include "process/child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "children.h"

#define SELF "/proc/self/exe"
#define LEAVES_WITH_7 "read x <&3; exit 7"
#define STRAY_FD 57

/* ---- how it ended ---- */

static void test_exit_code_and_last_words(void)
{
    struct gp_child *child = shell("echo starting >&2; echo 'port 80: not permitted' >&2; exit 1");
    CHECK(gp_child_wait(child, SOON));
    CHECK(reason_is(child, "exited with code 1"));
    CHECK(died_as(child, "exited with code 1; it last said: starting\nport 80: not permitted"));
    gp_child_stop(child, 0);
    CHECK(reason_is(child, "exited with code 1")); /* known after the reaping, and not taken for our doing */
    CHECK(died_as(child, "exited with code 1; it last said: starting\nport 80: not permitted"));
    gp_child_destroy(child);
}

static void test_signals(void)
{
    struct gp_child *killed = shell("kill -KILL $$"), *odd = shell("kill -40 $$");
    CHECK(gp_child_wait(killed, SOON) && gp_child_wait(odd, SOON));
    CHECK(reason_is(killed, "killed by SIGKILL"));
    CHECK(died_as(killed, "was killed by SIGKILL"));
    CHECK(reason_is(odd, "killed by signal 40"));
    gp_child_destroy(killed);
    gp_child_destroy(odd);
}

static void test_status_taken_by_somebody_else(void)
{
    struct gp_child *child = shell("exit 3");
    CHECK(waitpid(gp_child_pid(child), NULL, 0) == gp_child_pid(child));
    CHECK(reason_is(child, "gone (its exit status was taken by another part of this process)"));
    CHECK(died_as(child, "is gone (its exit status was taken by another part of this process)"));
    CHECK(stop_takes(child, SOON) < GP_NS_PER_S);
    gp_child_destroy(child);
}

static void test_alive(void)
{
    struct gp_child *child = shell(LEAVES_WITH_7);
    char reason[64];
    CHECK(!gp_child_dead(child, reason, sizeof reason));
    CHECK(!gp_child_wait(child, 20 * GP_NS_PER_MS));
    CHECK(!ends(gp_child_pidfd(child), 0));
    CHECK(fcntl(gp_child_pidfd(child), F_GETFD) == FD_CLOEXEC);
    gp_child_destroy(child);
}

static void test_no_such_executable(void)
{
    const char *argv[] = {"/nowhere/grpcperf-server", NULL};
    struct gp_child *child;
    struct gp_error err;
    CHECK(gp_child_create(&child, &(struct gp_child_opts){.argv = argv}, &err) == -1);
    CHECK(err.code == GP_ERROR_ENGINE && err.os_errno == ENOENT);
    CHECK(strcmp(err.message, "cannot start /nowhere/grpcperf-server: No such file or directory") == 0);
}

/* ---- what it is born with ---- */

static int play_newborn(void)
{
    sigset_t blocked;
    struct sigaction action;
    struct stat st;
    char byte;
    CHECK(getpgrp() == getpid());
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, SIGUSR1) == 0);
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(read(0, &byte, 1) == 0 && write(1, "x", 1) == 1);
    CHECK(fstat(GP_CHILD_CONTROL_FD, &st) == 0 && S_ISSOCK(st.st_mode));
    CHECK(count_fds() == 2 + 4 + 1); /* two dots, four descriptors, and the one that counts */
    CHECK(strcmp(getenv("WHO"), "newborn") == 0 && !getenv("PATH"));
    return 0;
}

/* From a host that ignores, blocks and leaks, as hosts do. */
static void test_birth(void)
{
    const char *argv[] = {SELF, "newborn", NULL}, *env[] = {"WHO=newborn", NULL};
    struct gp_child *child;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    CHECK(dup2(2, STRAY_FD) == STRAY_FD);
    CHECK(gp_child_create(&child, &(struct gp_child_opts){.argv = argv, .env = env}, NULL) == 0);
    CHECK(gp_child_wait(child, SOON));
    CHECK(died_as(child, "exited with code 0"));
    gp_child_destroy(child);
    close(STRAY_FD);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &usr1, NULL);
}

/* A host without stdio: the descriptors of the handle would fall on 0 to 3. Exit codes, for there is no
 * stderr. */
static int play_without_stdio(void)
{
    char text[64];
    for (int fd = 0; fd <= GP_CHILD_CONTROL_FD; fd++)
        close(fd);
    struct gp_child *child = shell("test -S /dev/fd/3 && echo heard >&2; " LEAVES_WITH_7);
    if (gp_child_control_fd(child) <= GP_CHILD_CONTROL_FD)
        return 2;
    while (gp_child_stderr_tail(child, text, sizeof text) == 0)
        usleep(1000);
    gp_child_stop(child, SOON);
    int code = strcmp(text, "heard\n") == 0 && reason_is(child, "exited with code 7") ? 0 : 3;
    gp_child_destroy(child);
    return code;
}

static void test_host_without_stdio(void)
{
    struct gp_child *child = start(SELF, "without-stdio", NULL);
    CHECK(gp_child_wait(child, SOON));
    CHECK(died_as(child, "exited with code 0"));
    gp_child_destroy(child);
}

/* ---- its words ---- */

static void test_chatty(void)
{
    struct gp_child *child =
        shell("head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo done >&2; exit 0");
    char text[64];
    CHECK(gp_child_wait(child, SOON));
    CHECK(memory_of_stderr() >= 3000000);
    CHECK(reason_is(child, "exited with code 0"));
    CHECK(memory_of_stderr() <= 128 * 1024);
    CHECK(gp_child_stderr_tail(child, text, sizeof text) == 5);
    CHECK(strcmp(text, "done\n") == 0);
    gp_child_destroy(child);
}

static void test_tail_is_cut_at_a_line(void)
{
    struct gp_child *child = shell("printf 'first\\nsecond\\nthird\\n' >&2");
    char text[64], small[11], tiny[4], none[1] = "x";
    CHECK(gp_child_wait(child, SOON));
    CHECK(gp_child_stderr_tail(child, text, sizeof text) == 19 &&
          strcmp(text, "first\nsecond\nthird\n") == 0);
    CHECK(gp_child_stderr_tail(child, small, sizeof small) == 6 && strcmp(small, "third\n") == 0);
    CHECK(gp_child_stderr_tail(child, tiny, sizeof tiny) == 3 && strcmp(tiny, "rd\n") == 0);
    CHECK(gp_child_stderr_tail(child, none, sizeof none) == 0 && none[0] == '\0');
    gp_child_destroy(child);
}

/* Scripts write to /dev/stderr, which opens and truncates it: what follows must not land behind a hole. */
static void test_stderr_opened_by_name(void)
{
    struct gp_child *child = shell("echo all lost >&2; echo kept >/dev/stderr; echo last >&2");
    char text[64];
    CHECK(gp_child_wait(child, SOON));
    CHECK(gp_child_stderr_tail(child, text, sizeof text) == 10 && strcmp(text, "kept\nlast\n") == 0);
    gp_child_destroy(child);
}

static void test_silent(void)
{
    struct gp_child *child = shell("exit 0");
    char text[16] = "before";
    CHECK(gp_child_wait(child, SOON));
    CHECK(gp_child_stderr_tail(child, text, sizeof text) == 0 && text[0] == '\0');
    gp_child_destroy(child);
}

/* ---- its end ---- */

static void test_leaves_at_end_of_file(void)
{
    struct gp_child *child = shell(LEAVES_WITH_7);
    CHECK(stop_takes(child, SOON) < GP_NS_PER_S);
    CHECK(reason_is(child, "exited with code 7"));
    CHECK(died_as(child, "was closed by this process"));
    CHECK(kill(gp_child_pid(child), 0) == -1 && errno == ESRCH); /* no zombie */
    CHECK(stop_takes(child, SOON) < GP_NS_PER_S);
    gp_child_destroy(child);
}

static void test_stopped_child_is_killed_after_grace(void)
{
    struct gp_child *child = shell(LEAVES_WITH_7);
    CHECK(kill(gp_child_pid(child), SIGSTOP) == 0);
    uint64_t took = stop_takes(child, 200 * GP_NS_PER_MS);
    CHECK(took >= 200 * GP_NS_PER_MS && took < 700 * GP_NS_PER_MS);
    CHECK(reason_is(child, "killed by SIGKILL"));
    gp_child_destroy(child);
}

static void test_group_goes_with_it(bool leader_leaves_first)
{
    struct gp_child *child =
        shell(leader_leaves_first ? "sleep 60 & echo $! >&2; exit 0" : "sleep 60 & echo $! >&2; wait");
    int left_behind = syscall(SYS_pidfd_open, number_from(child), 0);
    CHECK(left_behind >= 0);
    if (leader_leaves_first)
        CHECK(gp_child_wait(child, SOON));
    CHECK(!ends(left_behind, 0));
    gp_child_stop(child, 0);
    CHECK(ends(left_behind, 1000));
    close(left_behind);
    gp_child_destroy(child);
}

static int play_parent(void)
{
    struct gp_child *child = shell(LEAVES_WITH_7);
    fprintf(stderr, "%d\n", (int)gp_child_pid(child));
    pause();
    return 1;
}

static void test_child_of_a_killed_parent_leaves(void)
{
    struct gp_child *parent = start(SELF, "parent", NULL);
    int orphan = syscall(SYS_pidfd_open, number_from(parent), 0);
    CHECK(orphan >= 0 && !ends(orphan, 50));
    CHECK(kill(gp_child_pid(parent), SIGKILL) == 0); /* the orphan has a process group of its own */
    CHECK(ends(orphan, 1000));
    close(orphan);
    gp_child_destroy(parent);
}

/* ---- threads and forks ---- */

static void *stop_it(void *child)
{
    gp_child_stop(child, 100 * GP_NS_PER_MS);
    return NULL;
}

static void test_threads(void)
{
    struct gp_child *child = shell("trap '' HUP; while :; do sleep 60; done");
    pthread_t threads[4];
    char reason[64];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, stop_it, child) == 0);
    while (!gp_child_dead(child, reason, sizeof reason))
        usleep(100);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(strcmp(reason, "killed by SIGKILL") == 0);
    gp_child_destroy(child);
}

static void use_in_fork(struct gp_child *child)
{
    char text[128], expected[128];
    struct gp_error err;
    uint64_t begin = gp_clock_now_ns();
    CHECK(gp_child_died(child, &err) == -1 && err.code == GP_ERROR_ENGINE);
    snprintf(expected, sizeof expected, "server process %d belongs to process %d; create your own after fork",
             (int)gp_child_pid(child), (int)getppid());
    CHECK(strcmp(err.message, expected) == 0);
    CHECK(gp_child_dead(child, text, sizeof text) && strstr(text, "belongs to process"));
    CHECK(!gp_child_wait(child, SOON) && gp_clock_now_ns() - begin < GP_NS_PER_S);
    CHECK(gp_child_pidfd(child) == -1 && gp_child_control_fd(child) == -1);
    CHECK(gp_child_stderr_tail(child, text, sizeof text) == 0);
    int before = count_fds();
    CHECK(stop_takes(child, SOON) < GP_NS_PER_S);
    CHECK(count_fds() == before - 4);
    gp_child_abandon(child);
    gp_child_destroy(child);
}

static void test_forked_child_leaves_it_alone(void)
{
    struct gp_child *child = shell(LEAVES_WITH_7);
    int status;
    pid_t forked = fork();
    if (forked == 0) {
        use_in_fork(child);
        _exit(0);
    }
    CHECK(waitpid(forked, &status, 0) == forked && status == 0);
    CHECK(!gp_child_wait(child, 100 * GP_NS_PER_MS)); /* still there */
    gp_child_destroy(child);
}

static void test_end_of_file_in_spite_of_a_forked_copy(void)
{
    struct gp_child *child = shell(LEAVES_WITH_7);
    pid_t forked = fork();
    if (forked == 0) {
        pause();
        _exit(0);
    }
    CHECK(stop_takes(child, SOON) < GP_NS_PER_S);
    CHECK(reason_is(child, "exited with code 7"));
    CHECK(kill(forked, SIGKILL) == 0 && waitpid(forked, NULL, 0) == forked);
    gp_child_destroy(child);
}

/* ---- descriptors ---- */

static void test_no_descriptors_left(void)
{
    const char *nowhere[] = {"/nowhere", NULL};
    struct gp_child *child;
    int before = count_fds();
    for (int i = 0; i < 50; i++) {
        gp_child_destroy(shell(LEAVES_WITH_7));
        CHECK(gp_child_create(&child, &(struct gp_child_opts){.argv = nowhere}, NULL) == -1);
    }
    CHECK(count_fds() == before);
}

/* When it is over, and not before: a thread may be waiting on them. */
static void test_abandoned_when_stopped(void)
{
    int before = count_fds();
    struct gp_child *child = shell("kill -KILL $$");
    CHECK(gp_child_wait(child, SOON));
    gp_child_abandon(child);
    CHECK(count_fds() == before + 4); /* it was not stopped: its last words may be asked for */
    gp_child_stop(child, SOON);
    gp_child_abandon(child);
    CHECK(count_fds() == before && gp_child_pidfd(child) == -1);
    CHECK(reason_is(child, "killed by SIGKILL") && died_as(child, "was killed by SIGKILL"));
    CHECK(gp_child_wait(child, SOON) && stop_takes(child, SOON) < GP_NS_PER_S);
    gp_child_abandon(child);
    gp_child_destroy(child);
    CHECK(count_fds() == before);
}

/* At every limit that is too low: an error, nothing left open, no process left behind. */
static void test_too_few_descriptors(void)
{
    const char *argv[] = {"/bin/sh", "-c", LEAVES_WITH_7, NULL};
    struct rlimit limit, low;
    struct gp_child *child;
    struct gp_error err;
    int third = open("/dev/null", O_RDONLY | O_CLOEXEC), before = count_fds(),
        needed = 0; /* none left below 4 */
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    for (low.rlim_cur = 3;; low.rlim_cur++, needed++) {
        CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
        int rc = gp_child_create(&child, &(struct gp_child_opts){.argv = argv}, &err);
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        if (rc == 0)
            break;
        CHECK(err.code == GP_ERROR_ENGINE && err.os_errno == EMFILE);
        CHECK(count_fds() == before);
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    }
    CHECK(needed >= 5);
    CHECK(fcntl(gp_child_control_fd(child), F_GETFD) == FD_CLOEXEC);
    gp_child_destroy(child);
    close(third);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "newborn") == 0)
        return play_newborn();
    if (argc > 1 && strcmp(argv[1], "without-stdio") == 0)
        return play_without_stdio();
    if (argc > 1 && strcmp(argv[1], "parent") == 0)
        return play_parent();
    test_exit_code_and_last_words();
    test_signals();
    test_status_taken_by_somebody_else();
    test_alive();
    test_no_such_executable();
    test_birth();
    test_host_without_stdio();
    test_chatty();
    test_tail_is_cut_at_a_line();
    test_stderr_opened_by_name();
    test_silent();
    test_leaves_at_end_of_file();
    test_stopped_child_is_killed_after_grace();
    test_group_goes_with_it(true);
    test_group_goes_with_it(false);
    test_child_of_a_killed_parent_leaves();
    test_threads();
    test_forked_child_leaves_it_alone();
    test_end_of_file_in_spite_of_a_forked_copy();
    test_no_descriptors_left();
    test_abandoned_when_stopped();
    test_too_few_descriptors();
    gp_child_destroy(NULL);
    return 0;
}
