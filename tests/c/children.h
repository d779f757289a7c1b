/* What the tests of children share. */
#ifndef GP_TESTS_CHILDREN_H
#define GP_TESTS_CHILDREN_H

#include <dirent.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "process/child.h"

#define SOON (10 * GP_NS_PER_S)

static inline struct gp_child *start(const char *path, const char *option, const char *argument)
{
    const char *argv[] = {path, option, argument, NULL};
    struct gp_child *child;
    struct gp_error err = {0};
    if (gp_child_create(&child, &(struct gp_child_opts){.argv = argv}, &err) < 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(err.code == GP_ERROR_NONE);
    return child;
}

static inline struct gp_child *shell(const char *script)
{
    return start("/bin/sh", "-c", script);
}

static inline bool reason_is(const struct gp_child *child, const char *expected)
{
    char reason[128];
    return gp_child_dead(child, reason, sizeof reason) && strcmp(reason, expected) == 0;
}

static inline bool died_as(const struct gp_child *child, const char *what)
{
    char expected[1024];
    struct gp_error err;
    snprintf(expected, sizeof expected, "server process %d %s", (int)gp_child_pid(child), what);
    CHECK(gp_child_died(child, &err) == -1);
    if (strcmp(err.message, expected) != 0)
        fprintf(stderr, "%s\nand not %s\n", err.message, expected);
    return err.code == GP_ERROR_DIED && strcmp(err.message, expected) == 0;
}

static inline uint64_t stop_takes(struct gp_child *child, uint64_t grace_ns)
{
    uint64_t begin = gp_clock_now_ns();
    gp_child_stop(child, grace_ns);
    return gp_clock_now_ns() - begin;
}

/* Wait until a child has written a line, and give it as a number. */
static inline int number_from(const struct gp_child *child)
{
    char text[64];
    uint64_t begin = gp_clock_now_ns();
    do
        gp_child_stderr_tail(child, text, sizeof text);
    while (!strchr(text, '\n') && gp_clock_now_ns() - begin < SOON);
    CHECK(atoi(text) > 0);
    return atoi(text);
}

static inline bool ends(int pidfd, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    return poll(&poll_fd, 1, timeout_ms) == 1;
}

static inline int count_fds(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* What the stderr of the only child takes. */
static inline long memory_of_stderr(void)
{
    char path[64], target[64];
    struct stat st;
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, "grpcperf-stderr"))
            return stat(path, &st) == 0 ? st.st_blocks * 512 : -1;
    }
    return -1;
}

#endif
