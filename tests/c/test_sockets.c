/* The kernel's memory for sockets, against bytes that are known to lie in a queue. */
#include "process/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define SENT (128 * 1024)

static uint64_t memory_of(pid_t pid)
{
    uint64_t bytes;
    CHECK(gp_sockets_memory(pid, &bytes) == 0);
    return bytes;
}

static void send_unread(int fd)
{
    static char data[SENT];
    size_t sent = 0;
    while (sent < SENT) {
        ssize_t n = send(fd, data, SENT - sent, MSG_DONTWAIT);
        if (n < 0)
            break;
        sent += (size_t)n;
    }
    CHECK(sent > SENT / 4);
}

static void connect_pair(int family, int pair[2])
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t size = family == AF_INET ? sizeof four : sizeof six;
    int listener = socket(family, SOCK_STREAM, 0);
    CHECK(bind(listener, address, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, address, &size) == 0);
    pair[0] = socket(family, SOCK_STREAM, 0);
    CHECK(connect(pair[0], address, size) == 0);
    pair[1] = accept(listener, NULL, NULL);
    CHECK(pair[1] >= 0);
    close(listener);
}

/* What is sent and not read is charged to the process, and no longer once it is read and closed. */
static void check_queue(int pair[2])
{
    uint64_t idle = memory_of(getpid());
    send_unread(pair[0]);
    CHECK(memory_of(getpid()) > idle + SENT / 4);
    CHECK(memory_of(getpid()) < idle + 16 * SENT);
    close(pair[0]);
    close(pair[1]);
    CHECK(memory_of(getpid()) <= idle + SENT / 8);
}

static void test_tcp(void)
{
    int pair[2];
    connect_pair(AF_INET, pair);
    check_queue(pair);
}

static void test_tcp6(void)
{
    int probe = socket(AF_INET6, SOCK_STREAM, 0), pair[2];
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (probe < 0 || bind(probe, (struct sockaddr *)&loopback, sizeof loopback) < 0)
        return; /* a machine without IPv6 */
    close(probe);
    connect_pair(AF_INET6, pair);
    check_queue(pair);
}

static void test_unix(void)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    check_queue(pair);
}

/* Only the process's own: another that has none is at 0 while we hold much. */
static void test_of_another_process(void)
{
    int pair[2], ready[2];
    char byte;
    connect_pair(AF_INET, pair);
    send_unread(pair[0]);
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 0; fd < 64; fd++)
            if (fd != ready[1])
                close(fd);
        CHECK(write(ready[1], "x", 1) == 1);
        pause();
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(memory_of(child) == 0 && memory_of(getpid()) > SENT / 4);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pair[0]);
    close(pair[1]);
}

/* More descriptors than the list has room for at first, one socket under several numbers. */
static void test_many_descriptors(void)
{
    int pair[2], copies[200];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_unread(pair[0]);
    uint64_t once = memory_of(getpid());
    for (int i = 0; i < 200; i++)
        CHECK((copies[i] = dup(pair[0])) >= 0);
    CHECK(memory_of(getpid()) == once);
    for (int i = 0; i < 200; i++)
        close(copies[i]);
    close(pair[0]);
    close(pair[1]);
}

static void test_no_such_process(void)
{
    uint64_t bytes;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    CHECK(gp_sockets_memory(child, &bytes) == -1 && errno == ENOENT);
}

int main(void)
{
    test_tcp();
    test_tcp6();
    test_unix();
    test_of_another_process();
    test_many_descriptors();
    test_no_such_process();
    return 0;
}
