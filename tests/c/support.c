/* support: a server process for tests, by posix_spawn (the tests run gRPC, which does not live through a
 * fork). */
#include "support.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define ARGUMENTS_MAX 32
#define START_MS 20000
#define STOP_MS 10000

#define SERVERS_MAX 8

extern char **environ;

/* Those that run: a test that fails (abort) or is given up (SIGTERM) must not leave its servers behind. */
static volatile pid_t running[SERVERS_MAX];

static void take_along(int number)
{
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (running[i] > 0)
            kill(running[i], SIGKILL);
    signal(number, SIG_DFL);
    raise(number);
}

/* Exchange one entry: (0, pid) when it has started, (pid, 0) when it is gone. */
static void note(pid_t old, pid_t new)
{
    signal(SIGABRT, take_along);
    signal(SIGTERM, take_along);
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (running[i] == old) {
            running[i] = new;
            return;
        }
    CHECK(!"room for another server");
}

static void build_argv(const char **argv, const char *const *arguments)
{
    size_t count = 0;

    argv[count++] = getenv("GP_SERVER");
    CHECK(argv[0] != NULL);
    for (; arguments && *arguments; arguments++) {
        CHECK(count + 1 < ARGUMENTS_MAX);
        argv[count++] = *arguments;
    }
    argv[count] = NULL;
}

/* The first line that the server writes. Reads byte by byte so as not to wait for more. */
static void read_line(int fd, char *line, size_t size)
{
    size_t length = 0;

    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};

        CHECK(poll(&ready, 1, START_MS) == 1);
        CHECK(length + 1 < size && read(fd, line + length, 1) == 1);
        if (line[length] == '\n')
            break;
        length++;
    }
    line[length] = 0;
}

void test_server_start(struct test_server *server, const char *const *arguments)
{
    const char *argv[ARGUMENTS_MAX];
    posix_spawn_file_actions_t actions;
    char line[256];
    int out[2], pid;

    build_argv(argv, arguments);
    CHECK(pipe(out) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    posix_spawn_file_actions_addclose(&actions, out[1]);
    CHECK(posix_spawn(&server->pid, argv[0], &actions, NULL, (char **)argv, environ) == 0);
    note(0, server->pid);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    read_line(out[0], line, sizeof line);
    close(out[0]);
    CHECK(sscanf(line, "listening on 127.0.0.1:%u pid %d", &server->port, &pid) == 2 && pid == server->pid);
    snprintf(server->target, sizeof server->target, "ipv4:127.0.0.1:%u", server->port);
}

static void reap(struct test_server *server)
{
    int pidfd = (int)syscall(SYS_pidfd_open, server->pid, 0);
    struct pollfd ready = {.fd = pidfd, .events = POLLIN};

    CHECK(pidfd >= 0 && poll(&ready, 1, STOP_MS) == 1);
    close(pidfd);
    CHECK(waitpid(server->pid, NULL, 0) == server->pid);
    note(server->pid, 0);
    server->pid = 0;
}

void test_server_stop(struct test_server *server)
{
    if (server->pid == 0)
        return;
    kill(server->pid, SIGTERM);
    reap(server);
}

void test_server_kill(struct test_server *server)
{
    kill(server->pid, SIGKILL);
    reap(server);
}

/* Field 2, response_size, as a varint. */
size_t test_request(uint8_t *buffer, uint32_t response_bytes)
{
    size_t size = 0;

    buffer[size++] = 0x10;
    for (; response_bytes >= 0x80; response_bytes >>= 7)
        buffer[size++] = (uint8_t)(response_bytes | 0x80);
    buffer[size++] = (uint8_t)response_bytes;
    return size;
}
