/* One child process: posix_spawn (never fork, for libraries in this process may run threads), a control
 * socket, its output in memory, and an end without loose ones.
 *
 * Output goes to memory files rather than pipes: nobody needs to read them for the child to go on writing.
 * The child is signalled by its pidfd, which never means another process; its process group only while the
 * zombie still owns the number, which is decided under the lock. */
#include "process/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "process/memory_file.h"

#define LAST_WORDS_BYTES 768         /* of stderr in an error message */
#define KILLED_NS (10 * GP_NS_PER_S) /* for the kernel to end a killed process; never needed so far */

/* How it ended, as waitid tells it. */
struct ending {
    int code; /* CLD_EXITED, CLD_KILLED, CLD_DUMPED; LOST when another part of this process reaped it */
    int status;
    bool asked; /* it was alive when gp_child_stop was called */
};
enum { LOST = 0 };

struct gp_child {
    pid_t owner; /* the process that made it, the only one that may wait for it or end it */
    pid_t pid;   /* also the number of its process group */
    int pidfd, control_fd, stdout_fd, stderr_fd;
    pthread_mutex_t lock; /* guards the rest; not held while waiting */
    bool stopped;         /* gp_child_stop found it alive */
    bool reaped;          /* its numbers may be somebody else's by now */
    struct ending ending; /* once reaped */
};

/* In a forked child: the lock may have been held by a thread that does not exist here, so ask this first. */
static bool foreign(const struct gp_child *child)
{
    return child->owner != getpid();
}

static void lock(const struct gp_child *child)
{
    pthread_mutex_lock((pthread_mutex_t *)&child->lock);
}

static void unlock(const struct gp_child *child)
{
    pthread_mutex_unlock((pthread_mutex_t *)&child->lock);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- birth ---- */

/* Out of the way of 0 to 3, which the child's own are put on (one of ours can be there when the host process
 * has closed its stdio). */
static int lift(int fd)
{
    return gp_lift_fd(fd, GP_CHILD_FILES_FD);
}

static int open_control(struct gp_child *child, int *child_end, struct gp_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return gp_error_errno(err, "cannot open a control channel (socketpair)");
    child->control_fd = lift(pair[0]);
    *child_end = lift(pair[1]);
    if (child->control_fd < 0 || *child_end < 0)
        return gp_error_errno(err, "cannot open a control channel (fcntl)");
    return 0;
}

static int open_output(int *fd, const char *name, struct gp_error *err)
{
    *fd = gp_memory_file(name, NULL, 0, GP_CHILD_FILES_FD);
    if (*fd < 0 || fcntl(*fd, F_SETFL, O_APPEND) < 0)
        return gp_error_errno(err, "cannot make a memory file for a child's output");
    return 0;
}

static int set_actions(posix_spawn_file_actions_t *actions, const struct gp_child *child, int control_fd,
                       const int *files, size_t file_count)
{
    int rc = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, child->stdout_fd, 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, child->stderr_fd, 2);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, control_fd, GP_CHILD_CONTROL_FD);
    for (size_t i = 0; rc == 0 && i < file_count; i++)
        rc = posix_spawn_file_actions_adddup2(actions, files[i], GP_CHILD_FILES_FD + (int)i);
#if __GLIBC_PREREQ(2, 34) /* the host process may hold descriptors that are not close-on-exec */
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, GP_CHILD_FILES_FD + (int)file_count);
#endif
    return rc;
}

/* Own process group, and no mask and no ignored signal of the host's (Python ignores SIGPIPE). */
static void set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setflags(attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn_with(struct gp_child *child, const struct gp_child_opts *opts, int end, const int *files,
                      struct gp_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int rc = set_actions(&actions, child, end, files, opts->file_count);
    set_attributes(&attributes);
    if (rc == 0)
        rc = posix_spawn(&child->pid, opts->argv[0], &actions, &attributes, (char *const *)opts->argv,
                         opts->env ? (char *const *)opts->env : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (rc == 0)
        return 0;
    errno = rc;
    return gp_error_errno(err, "cannot start %s", opts->argv[0]);
}

/* The files' descriptors are first put above where the child finds any of them, so that none is overwritten
 * before its turn. */
static int spawn(struct gp_child *child, const struct gp_child_opts *opts, int end, struct gp_error *err)
{
    const int low = GP_CHILD_FILES_FD + (int)GP_CHILD_FILES_MAX;
    int files[GP_CHILD_FILES_MAX];
    if (gp_memory_files("grpcperf-file", opts->files, opts->file_count, low, files) < 0)
        return gp_error_errno(err, "cannot make a memory file for a child");
    int status = spawn_with(child, opts, end, files, err);
    for (size_t i = 0; i < opts->file_count; i++)
        close_fd(&files[i]);
    return status;
}

/* A handle on the process that stays true when its number is reused. Without one the child is ended again. */
static int open_pidfd(struct gp_child *child, struct gp_error *err)
{
    siginfo_t info;
    child->pidfd = syscall(SYS_pidfd_open, child->pid, 0);
    if (child->pidfd >= 0 &&
        (waitid(P_PIDFD, child->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno == ECHILD))
        return 0;
    if (child->pidfd >= 0 || errno == ENOSYS)
        gp_error_set(err, GP_ERROR_ENGINE, "child processes need Linux 5.4 or later (waitable pidfds)");
    else
        gp_error_errno(err, "pidfd_open for process %d", (int)child->pid);
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    return -1;
}

static void close_descriptors(struct gp_child *child)
{
    close_fd(&child->pidfd);
    close_fd(&child->control_fd);
    close_fd(&child->stdout_fd);
    close_fd(&child->stderr_fd);
}

int gp_child_create(struct gp_child **child, const struct gp_child_opts *opts, struct gp_error *err)
{
    assert(opts->argv && opts->argv[0] && opts->file_count <= GP_CHILD_FILES_MAX);
    int child_end = -1;
    struct gp_child *c = calloc(1, sizeof *c);
    if (!c)
        return gp_error_errno(err, "cannot start %s", opts->argv[0]);
    c->owner = getpid();
    c->pidfd = c->control_fd = c->stdout_fd = c->stderr_fd = -1;
    bool born = open_control(c, &child_end, err) == 0 &&
                open_output(&c->stdout_fd, "grpcperf-stdout", err) == 0 &&
                open_output(&c->stderr_fd, "grpcperf-stderr", err) == 0 &&
                spawn(c, opts, child_end, err) == 0 && open_pidfd(c, err) == 0;
    close_fd(&child_end);
    if (!born) {
        close_descriptors(c);
        free(c);
        return -1;
    }
    pthread_mutex_init(&c->lock, NULL);
    *child = c;
    return 0;
}

/* ---- life ---- */

pid_t gp_child_pid(const struct gp_child *child)
{
    return child->pid;
}

int gp_child_pidfd(const struct gp_child *child)
{
    return foreign(child) ? -1 : child->pidfd;
}

int gp_child_control_fd(const struct gp_child *child)
{
    return foreign(child) ? -1 : child->control_fd;
}

/* Locked: whether it has ended, and how. WNOWAIT leaves the zombie, so that its numbers stay its own. */
static bool look(const struct gp_child *child, int options, struct ending *ending)
{
    siginfo_t info = {0};
    int rc = waitid(P_PIDFD, child->pidfd, &info, WEXITED | WNOHANG | options);
    if (rc == 0 && info.si_pid == 0)
        return false;
    ending->code = rc < 0 ? LOST : info.si_code;
    ending->status = rc < 0 ? 0 : info.si_status;
    ending->asked = child->stopped;
    return true;
}

static bool find_ending(const struct gp_child *child, struct ending *ending)
{
    lock(child);
    bool ended = child->reaped || look(child, WNOWAIT, ending);
    if (child->reaped)
        *ending = child->ending;
    unlock(child);
    return ended;
}

static void describe(const struct ending *ending, char *reason, size_t size)
{
    const char *signal_name = sigabbrev_np(ending->status);
    if (ending->code == LOST)
        snprintf(reason, size, "gone (its exit status was taken by another part of this process)");
    else if (ending->code == CLD_EXITED)
        snprintf(reason, size, "exited with code %d", ending->status);
    else if (signal_name)
        snprintf(reason, size, "killed by SIG%s", signal_name);
    else
        snprintf(reason, size, "killed by signal %d", ending->status);
}

bool gp_child_dead(const struct gp_child *child, char *reason, size_t size)
{
    struct ending ending;
    if (foreign(child)) {
        snprintf(reason, size, "not of this process: it belongs to process %d", (int)child->owner);
        return true;
    }
    gp_memory_file_trim(child->stdout_fd); /* whoever looks after the child does this, too */
    gp_memory_file_trim(child->stderr_fd);
    if (!find_ending(child, &ending))
        return false;
    describe(&ending, reason, size);
    return true;
}

size_t gp_child_stdout_tail(const struct gp_child *child, char *text, size_t size)
{
    return gp_memory_file_tail(foreign(child) ? -1 : child->stdout_fd, text, size);
}

size_t gp_child_stderr_tail(const struct gp_child *child, char *text, size_t size)
{
    return gp_memory_file_tail(foreign(child) ? -1 : child->stderr_fd, text, size);
}

int gp_child_died(const struct gp_child *child, struct gp_error *err)
{
    struct ending ending;
    char reason[128], words[LAST_WORDS_BYTES];
    int pid = (int)child->pid;
    if (foreign(child))
        return gp_error_set(err, GP_ERROR_ENGINE,
                            "server process %d belongs to process %d; create your own after fork", pid,
                            (int)child->owner);
    if (!find_ending(child, &ending))
        return gp_error_set(err, GP_ERROR_DIED, "server process %d is going away", pid);
    if (ending.asked)
        return gp_error_set(err, GP_ERROR_DIED, "server process %d was closed by this process", pid);
    describe(&ending, reason, sizeof reason);
    size_t length = gp_child_stderr_tail(child, words, sizeof words);
    while (length > 0 && (words[length - 1] == '\n' || words[length - 1] == ' '))
        words[--length] = '\0';
    const char *verb = ending.code == CLD_EXITED ? "" : ending.code == LOST ? "is " : "was ";
    return gp_error_set(err, GP_ERROR_DIED, "server process %d %s%s%s%s", pid, verb, reason,
                        length > 0 ? "; it last said: " : "", words);
}

/* ---- death ---- */

bool gp_child_wait(const struct gp_child *child, uint64_t timeout_ns)
{
    if (foreign(child) || child->pidfd < 0) /* closed: it was reaped */
        return !foreign(child);
    struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};
    uint64_t begin = gp_clock_now_ns(), passed = 0;
    int rc;
    do {
        struct timespec left = gp_clock_timespec(timeout_ns - passed);
        rc = ppoll(&ended, 1, &left, NULL);
        passed = gp_clock_now_ns() - begin;
    } while (rc < 0 && errno == EINTR && passed < timeout_ns);
    return rc > 0;
}

/* What the child started and left behind is still in its process group, whose number the zombie keeps ours:
 * end that first, then let go of the zombie. */
static void reap(struct gp_child *child)
{
    lock(child);
    if (!child->reaped && look(child, WNOWAIT, &child->ending)) {
        if (child->ending.code != LOST)
            kill(-child->pid, SIGKILL);
        waitid(P_PIDFD, child->pidfd, NULL, WEXITED | WNOHANG);
        child->reaped = true;
    }
    unlock(child);
}

/* The socket is shut down, not closed: a thread may be waiting on it, and a copy in a process forked from
 * this one would keep end of file from the child. */
void gp_child_stop(struct gp_child *child, uint64_t grace_ns)
{
    struct ending ending;
    if (foreign(child))
        return gp_child_abandon(child);
    lock(child);
    child->stopped = child->stopped || (!child->reaped && !look(child, WNOWAIT, &ending));
    unlock(child);
    shutdown(child->control_fd, SHUT_RDWR);
    if (!gp_child_wait(child, grace_ns)) {
        syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
        gp_child_wait(child, KILLED_NS);
    }
    reap(child);
}

void gp_child_abandon(struct gp_child *child)
{
    if (foreign(child) || child->reaped)
        close_descriptors(child);
}

void gp_child_destroy(struct gp_child *child)
{
    if (!child)
        return;
    gp_child_stop(child, 0);
    if (!foreign(child))
        pthread_mutex_destroy(&child->lock);
    close_descriptors(child);
    free(child);
}
