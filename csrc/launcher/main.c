/* grpcperf-launch: runs a command that knows nothing of us, so that it lives and dies as our own servers do.
 *
 *   grpcperf-launch --control 3 [--environment 4] [--folder DIR] [--cpus 0,1] -- COMMAND [ARGUMENT ...]
 *
 *   start the command in our process group -> Ready{its pid}
 *     -> move its output into descriptors 1 and 2, which keep the end of it, until
 *          the command ends                  -> all that descends from it is killed
 *          the control channel says so, or is at its end (the parent is gone)
 *                                            -> SIGTERM to the group, a grace, then the same
 *     -> end as the command did: with its exit code, or by its signal
 *
 * Signals are blocked for good: SIGTERM to the group is for the others in it. Descriptors from 5
 * on are the command's to read. Exit codes of its own: 1 the command cannot be run, 2 the
 * command line makes no sense. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "launcher/command.h"
#include "launcher/family.h"
#include "process/arguments.h"
#include "process/environment.h"
#include "process/report.h"

#define GRACE_NS GP_NS_PER_S         /* between SIGTERM and SIGKILL: the parent waits 1.5 s for all of it */
#define KILL_NS (400 * GP_NS_PER_MS) /* for the kernel to end what was killed */

struct launcher {
    struct gp_arguments arguments;
    struct gp_command_opts opts;
    int environment_fd;
    struct gp_report report;
    struct gp_command command;
    int children_fd; /* readable when a child has ended */
    bool ended;
    int status;
};

static int fail(int code, const char *message)
{
    fprintf(stderr, "grpcperf-launch: %s\n", message);
    if (code == 2)
        fputs("usage: grpcperf-launch " GP_ARGUMENTS_USAGE
              " [--environment FD] [--folder DIR] -- COMMAND [ARGUMENT ...]\n",
              stderr);
    return code;
}

static int set_environment(void *context, const char *value, struct gp_error *err)
{
    long fd;
    if (!gp_arguments_number(value, 0, 1024, &fd))
        return gp_arguments_bad(err, "--environment", value, "a file descriptor");
    ((struct launcher *)context)->environment_fd = (int)fd;
    return 0;
}

static int set_folder(void *context, const char *value, struct gp_error *err)
{
    ((struct launcher *)context)->opts.folder = value;
    return 0;
}

static int parse(struct launcher *launcher, int argc, char **argv, struct gp_error *err)
{
    static const struct gp_argument own[] = {
        {"--environment", set_environment},
        {"--folder", set_folder},
        {NULL, NULL},
    };
    int own_count = 1;
    while (own_count < argc && strcmp(argv[own_count], "--") != 0)
        own_count++;
    if (own_count + 1 >= argc)
        return gp_error_set(err, GP_ERROR_INVALID, "a command is to follow --");
    launcher->environment_fd = -1;
    launcher->opts = (struct gp_command_opts){.argv = argv + own_count + 1, .stdout_fd = 1, .stderr_fd = 2};
    return gp_arguments_parse(&launcher->arguments, own_count, argv, own, launcher, err);
}

static int prepare(struct launcher *launcher, struct gp_error *err)
{
    sigset_t all, child;
    sigfillset(&all);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0); /* as our parent has seen to; by hand from a script it is to be so, too */
    launcher->report.fd = launcher->arguments.control_fd;
    launcher->opts.env = environ;
    launcher->children_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launcher->children_fd < 0 || gp_family_adopt() < 0)
        return gp_error_errno(err, "cannot watch over a command");
    if (launcher->report.fd >= 0 && fcntl(launcher->report.fd, F_SETFD, FD_CLOEXEC) < 0)
        return gp_error_errno(err, "--control %d", launcher->report.fd);
    if (launcher->environment_fd >= 0) {
        launcher->opts.env = gp_environment_read(launcher->environment_fd);
        if (!launcher->opts.env)
            return gp_error_errno(err, "--environment %d", launcher->environment_fd);
        close(launcher->environment_fd);
    }
    return gp_arguments_use_cpus(&launcher->arguments, err);
}

static int start(struct launcher *launcher, struct gp_error *err)
{
    if (prepare(launcher, err) < 0 || gp_command_start(&launcher->command, &launcher->opts, err) < 0)
        return -1;
    launcher->report.pid = launcher->command.pid;
    if (launcher->report.fd >= 0)
        gp_report_ready(&launcher->report, 0, ""); /* nobody there to hear it: seen as end of file, soon */
    return 0;
}

/* Wait until something happens, for at most timeout_ms (-1: no bound). False: the
 * parent wants the end of it. */
static bool attend(struct launcher *launcher, int timeout_ms)
{
    struct gp_command *command = &launcher->command;
    struct pollfd fds[] = {
        {.fd = launcher->report.fd, .events = POLLIN},
        {.fd = launcher->children_fd, .events = POLLIN},
        {.fd = command->out.from, .events = POLLIN},
        {.fd = command->err.from, .events = POLLIN},
    };
    struct signalfd_siginfo info;

    poll(fds, sizeof fds / sizeof *fds, timeout_ms);
    if (read(launcher->children_fd, &info, sizeof info) > 0)
        launcher->ended = gp_family_reap(command->pid, &launcher->status) || launcher->ended;
    gp_command_drain(command);
    return !fds[0].revents || gp_report_answer(&launcher->report);
}

/* Ask the whole group to leave, also those in it that are stopped. */
static void ask_to_leave(struct launcher *launcher)
{
    uint64_t begin = gp_clock_now_ns(), passed = 0;
    launcher->report.fd = -1;
    kill(0, SIGTERM);
    kill(0, SIGCONT);
    while (!launcher->ended && passed < GRACE_NS) {
        attend(launcher, (int)((GRACE_NS - passed) / GP_NS_PER_MS) + 1);
        passed = gp_clock_now_ns() - begin;
    }
}

/* By a signal as the command's, or with its code. No dump of our own memory beside the command's. */
static int end_like(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    sigset_t its;
    sigemptyset(&its);
    sigaddset(&its, WTERMSIG(status));
    prctl(PR_SET_DUMPABLE, 0);
    raise(WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &its, NULL);
    return 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    static struct launcher launcher;
    struct gp_error err;

    if (parse(&launcher, argc, argv, &err) < 0)
        return fail(2, err.message);
    if (start(&launcher, &err) < 0) {
        if (launcher.report.fd < 0 || gp_report_failure(&launcher.report, err.message) < 0)
            fail(1, err.message);
        return 1;
    }
    bool wanted = true;
    while (wanted && !launcher.ended)
        wanted = attend(&launcher, -1);
    if (!launcher.ended)
        ask_to_leave(&launcher);
    if (gp_family_kill(launcher.command.pid, &launcher.status, KILL_NS))
        launcher.ended = true;
    gp_command_drain(&launcher.command);
    return launcher.ended ? end_like(launcher.status) : 1;
}
