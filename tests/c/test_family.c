/* Descendants that do what they can to get away. */
#include "launcher/family.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"

#define SOON (10 * GP_NS_PER_S)

static int pipe_fd[2]; /* every member of the family holds its writing end: end of file is the end of all */

static void stay(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    CHECK(write(pipe_fd[1], "x", 1) == 1);
    for (;;)
        pause();
}

static void hear(int count)
{
    char byte;
    close(pipe_fd[1]);
    for (int i = 0; i < count; i++)
        CHECK(read(pipe_fd[0], &byte, 1) == 1);
}

static void check_all_gone(void)
{
    char byte;
    CHECK(read(pipe_fd[0], &byte, 1) == 0);
    close(pipe_fd[0]);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* A daemon by the book: its parent ends, its session and group are its own. */
static void test_a_daemon(void)
{
    int status;
    CHECK(pipe(pipe_fd) == 0);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0)
            stay();
        _exit(7);
    }
    hear(1);
    CHECK(gp_family_kill(child, &status, SOON));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    check_all_gone();
}

static void test_generations_that_are_alive(void)
{
    int status;
    CHECK(pipe(pipe_fd) == 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 4 && fork() == 0; i++)
            setpgid(0, 0);
        stay();
    }
    hear(5);
    CHECK(gp_family_kill(child, &status, SOON));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    check_all_gone();
}

static void test_more_than_are_read_at_once(void)
{
    int status;
    CHECK(pipe(pipe_fd) == 0);
    pid_t child = -1;
    for (int i = 0; i < 900; i++)
        if ((child = fork()) == 0)
            stay();
    hear(900);
    CHECK(gp_family_kill(child, &status, SOON));
    check_all_gone();
}

static void test_a_stopped_one(void)
{
    int status;
    CHECK(pipe(pipe_fd) == 0);
    pid_t child = fork();
    if (child == 0)
        stay();
    hear(1);
    kill(child, SIGSTOP);
    CHECK(gp_family_kill(child, &status, SOON) && WTERMSIG(status) == SIGKILL);
    check_all_gone();
}

static void test_reaping_tells_whose_end_it_was(void)
{
    int status = 0;
    pid_t first = fork();
    if (first == 0)
        _exit(1);
    pid_t second = fork();
    if (second == 0) {
        pause();
        _exit(2);
    }
    uint64_t begin = gp_clock_now_ns();
    while (!gp_family_reap(first, &status))
        CHECK(gp_clock_now_ns() - begin < SOON);
    CHECK(WEXITSTATUS(status) == 1 && !gp_family_reap(first, &status) && !gp_family_reap(second, &status));
    CHECK(gp_family_kill(second, &status, SOON) && WTERMSIG(status) == SIGKILL);
    CHECK(!gp_family_kill(second, &status, SOON) && !gp_family_reap(second, &status));
}

int main(void)
{
    CHECK(gp_family_adopt() == 0);
    test_a_daemon();
    test_generations_that_are_alive();
    test_more_than_are_read_at_once();
    test_a_stopped_one();
    test_reaping_tells_whose_end_it_was();
    return 0;
}
