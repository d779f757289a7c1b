/* Commands that run, that cannot, and that say much. */
#include "launcher/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "process/memory_file.h"

static int out_fd, err_fd;

static int start_with(struct gp_command *command, const char *script, const char *folder,
                      struct gp_error *err)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL}, *env[] = {"PATH=/usr/bin:/bin", "WORD=bird", NULL};
    struct gp_command_opts opts = {argv, env, folder, out_fd, err_fd};
    return gp_command_start(command, &opts, err);
}

/* Run it to its end, and give its status. */
static int run(const char *script, const char *folder)
{
    struct gp_command command;
    struct gp_error err;
    int status;
    CHECK(start_with(&command, script, folder, &err) == 0);
    while (waitpid(command.pid, &status, WNOHANG) == 0)
        gp_command_drain(&command);
    gp_command_drain(&command);
    gp_command_fini(&command);
    return status;
}

static void check_tail(int fd, const char *expected)
{
    char text[256];
    gp_memory_file_tail(fd, text, sizeof text);
    if (strcmp(text, expected) != 0)
        fprintf(stderr, "%s\nand not %s\n", text, expected);
    CHECK(strcmp(text, expected) == 0);
    CHECK(ftruncate(fd, 0) == 0);
}

static void test_output_and_environment(void)
{
    int status = run("echo $WORD; echo $0 >&2; pwd; exit 5", "/usr");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    check_tail(out_fd, "bird\n/usr\n");
    check_tail(err_fd, "sh\n");
}

static void test_signals_are_as_new(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    int status = run("kill -TERM $$; echo deaf", NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void check_refused(const char *program, const char *folder, int os_errno, const char *message)
{
    char *argv[] = {(char *)program, NULL}, *env[] = {NULL};
    struct gp_command_opts opts = {argv, env, folder, out_fd, err_fd};
    struct gp_command command;
    struct gp_error err;
    CHECK(gp_command_start(&command, &opts, &err) == -1 && err.os_errno == os_errno);
    if (strcmp(err.message, message) != 0)
        fprintf(stderr, "%s\nand not %s\n", err.message, message);
    CHECK(strcmp(err.message, message) == 0);
    CHECK(waitpid(command.pid, NULL, 0) == command.pid);
}

static void test_what_cannot_run(void)
{
    check_refused("/nowhere/server", NULL, ENOENT, "cannot run /nowhere/server: No such file or directory");
    check_refused("/etc/passwd", NULL, EACCES, "cannot run /etc/passwd: Permission denied");
    check_refused("true", "/nowhere", ENOENT, "cannot run true in /nowhere: No such file or directory");
}

/* A hundred megabytes are neither waited for nor kept. */
static void test_much_output(void)
{
    struct stat st;
    int status = run("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end", NULL);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(fstat(out_fd, &st) == 0 && st.st_size == 100000005);
    CHECK((uint64_t)st.st_blocks * 512 <= GP_MEMORY_FILE_MOST + 128 * 1024);
    check_tail(out_fd, "end\n");
}

/* A descendant that keeps the pipe does not keep us. */
static void test_draining_does_not_wait(void)
{
    struct gp_command command;
    struct gp_error err;
    CHECK(start_with(&command, "sleep 100 & echo $!", NULL, &err) == 0);
    CHECK(waitpid(command.pid, NULL, 0) == command.pid);
    uint64_t begin = gp_clock_now_ns();
    gp_command_drain(&command);
    CHECK(gp_clock_now_ns() - begin < GP_NS_PER_S && command.out.from >= 0);
    char text[32];
    gp_memory_file_tail(out_fd, text, sizeof text);
    CHECK(kill(atoi(text), SIGKILL) == 0);
    gp_command_fini(&command);
    CHECK(command.out.from == -1 && ftruncate(out_fd, 0) == 0);
}

/* It dies with the process that started it. */
static void test_it_does_not_outlive_us(void)
{
    int alive[2];
    char byte;
    CHECK(pipe(alive) == 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        struct gp_command command;
        struct gp_error err;
        CHECK(start_with(&command, "echo up; exec sleep 100", NULL, &err) == 0);
        while (lseek(out_fd, 0, SEEK_END) == 0)
            gp_command_drain(&command);
        kill(getpid(), SIGKILL);
    }
    close(alive[1]); /* the other copies are the launcher's and the command's */
    CHECK(read(alive[0], &byte, 1) == 0);
    CHECK(waitpid(launcher, NULL, 0) == launcher);
    close(alive[0]);
}

int main(void)
{
    out_fd = gp_memory_file("test", NULL, 0, 3);
    err_fd = gp_memory_file("test", NULL, 0, 3);
    CHECK(fcntl(out_fd, F_SETFL, O_APPEND) == 0 && fcntl(err_fd, F_SETFL, O_APPEND) == 0);
    test_output_and_environment();
    test_signals_are_as_new();
    test_what_cannot_run();
    test_much_output();
    test_draining_does_not_wait();
    test_it_does_not_outlive_us();
    return 0;
}
