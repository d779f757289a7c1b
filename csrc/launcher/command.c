/* command: fork and exec rather than posix_spawn, for the signal that a parent's death sends; this process
 * has one thread, so that signal is as true as the process, and fork is safe. */
#include "launcher/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "process/memory_file.h"

#define PIECE_BYTES (64 * 1024) /* what a pipe holds */
#define PIECES_AT_ONCE 16       /* then somebody else has a turn */

/* What a child that could not become the command tells before it ends. */
struct trouble {
    int os_errno;
    bool in_folder;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* In the child. `launcher`: should that be gone before the death signal was set, none will come. */
static void become(const struct gp_command_opts *opts, pid_t launcher, int out, int err, int trouble_fd)
{
    struct trouble trouble = {.in_folder = opts->folder && chdir(opts->folder) < 0};
    sigset_t none;
    sigemptyset(&none);
    if (!trouble.in_folder && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == launcher &&
        dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0) {
        environ = opts->env;
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvp(opts->argv[0], opts->argv);
    }
    trouble.os_errno = errno;
    if (write(trouble_fd, &trouble, sizeof trouble) < 0)
        _exit(126);
    _exit(127);
}

/* What the child has to tell; nothing once it is the command, for the descriptor has closed then. */
static int hear(int trouble_fd, const struct gp_command_opts *opts, struct gp_error *err)
{
    struct trouble trouble;
    ssize_t got;
    do
        got = read(trouble_fd, &trouble, sizeof trouble);
    while (got < 0 && errno == EINTR);
    if (got != sizeof trouble)
        return 0;
    errno = trouble.os_errno;
    if (trouble.in_folder)
        return gp_error_errno(err, "cannot run %s in %s", opts->argv[0], opts->folder);
    return gp_error_errno(err, "cannot run %s", opts->argv[0]);
}

static int fork_command(struct gp_command *command, const struct gp_command_opts *opts, const int *out,
                        const int *err_pipe, struct gp_error *err)
{
    int trouble[2];
    if (pipe2(trouble, O_CLOEXEC) < 0)
        return gp_error_errno(err, "cannot run %s", opts->argv[0]);
    pid_t launcher = getpid();
    command->pid = fork();
    if (command->pid == 0)
        become(opts, launcher, out[1], err_pipe[1], trouble[1]);
    int saved = errno;
    close(trouble[1]);
    errno = saved;
    int status =
        command->pid < 0 ? gp_error_errno(err, "cannot run %s", opts->argv[0]) : hear(trouble[0], opts, err);
    close(trouble[0]);
    return status;
}

int gp_command_start(struct gp_command *command, const struct gp_command_opts *opts, struct gp_error *err)
{
    int out[2] = {-1, -1}, err_pipe[2] = {-1, -1}, status = -1;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err_pipe, O_CLOEXEC) < 0 ||
        fcntl(out[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(err_pipe[0], F_SETFL, O_NONBLOCK) < 0)
        gp_error_errno(err, "cannot run %s: no pipes for its output", opts->argv[0]);
    else
        status = fork_command(command, opts, out, err_pipe, err);
    close_fd(&out[1]);
    close_fd(&err_pipe[1]);
    command->out = (struct gp_command_pipe){out[0], opts->stdout_fd};
    command->err = (struct gp_command_pipe){err_pipe[0], opts->stderr_fd};
    if (status < 0)
        gp_command_fini(command);
    return status;
}

/* A file that takes no more (a limit on sizes, no memory) loses output; the command is not to be held up. */
static void keep(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written <= 0)
            break;
        data += written;
        size -= (size_t)written;
    }
    gp_memory_file_trim(fd);
}

static void drain(struct gp_command_pipe *pipe)
{
    static char piece[PIECE_BYTES];
    for (int i = 0; i < PIECES_AT_ONCE && pipe->from >= 0; i++) {
        ssize_t got = read(pipe->from, piece, sizeof piece);
        if (got < 0)
            break; /* nothing now: EAGAIN */
        if (got == 0)
            close_fd(&pipe->from);
        else
            keep(pipe->to, piece, (size_t)got);
    }
}

void gp_command_drain(struct gp_command *command)
{
    drain(&command->out);
    drain(&command->err);
}

void gp_command_fini(struct gp_command *command)
{
    close_fd(&command->out.from);
    close_fd(&command->err.from);
}
