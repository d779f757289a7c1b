/* listener: addresses that can be listened on, those that cannot and why, and connections without room. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "net/listener.h"

static struct gp_error err;
static char directory[64] = "/tmp/grpcperf-listener-XXXXXX";

static int visit(int port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static int accept_soon(struct gp_listener *listener)
{
    struct pollfd ready = {.fd = listener->fd, .events = POLLIN};

    CHECK(poll(&ready, 1, 5000) == 1);
    return gp_listener_accept(listener);
}

static void tcp(void)
{
    struct gp_listener listener;
    int delay_off = 0;
    socklen_t size = sizeof delay_off;

    CHECK(gp_listener_open(&listener, "127.0.0.1:0", &err) == 0 && listener.port > 0);
    CHECK(gp_listener_accept(&listener) == -1);
    int client = visit(listener.port), server = accept_soon(&listener);
    CHECK(server >= 0 && fcntl(server, F_GETFL) & O_NONBLOCK && fcntl(server, F_GETFD) & FD_CLOEXEC);
    CHECK(getsockopt(server, IPPROTO_TCP, TCP_NODELAY, &delay_off, &size) == 0 && delay_off);
    CHECK(fcntl(listener.fd, F_GETFD) & FD_CLOEXEC);
    close(client);
    close(server);
    gp_listener_close(&listener);
}

static bool refused(const char *text, const char *reason)
{
    struct gp_listener listener;

    return gp_listener_open(&listener, text, &err) == -1 && strstr(err.message, text) &&
           strstr(err.message, reason) && listener.fd == -1;
}

static void refusals(void)
{
    struct gp_listener listener;
    char text[100];

    CHECK(gp_listener_open(&listener, "127.0.0.1:0", &err) == 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", listener.port);
    CHECK(refused(text, "address already in use"));
    gp_listener_close(&listener);
    CHECK(gp_listener_open(&listener, text, &err) == 0); /* at once: a port that was closed is free */
    gp_listener_close(&listener);
    CHECK(refused("192.0.2.1:0", "annot assign requested address"));
    CHECK(refused("nothing", "HOST:PORT"));
    CHECK(refused("unix:/no/such/folder/socket", "no such file"));
    char longer[200];

    snprintf(longer, sizeof longer, "unix:/%0120d", 0);
    CHECK(refused(longer, "too long"));
}

static void unix_paths(void)
{
    struct gp_listener listener, other;
    char text[100];

    snprintf(text, sizeof text, "unix:%s/s", directory);
    CHECK(!gp_listener_in_use(text) && !gp_listener_in_use("127.0.0.1:1"));
    CHECK(gp_listener_open(&listener, text, &err) == 0 && listener.port == 0);
    CHECK(gp_listener_in_use(text));
    CHECK(refused(text, "address already in use"));
    int server = accept_soon(&listener); /* of in_use and open, which looked */
    CHECK(server >= 0);
    close(server);
    gp_listener_close(&listener);
    CHECK(!gp_listener_in_use(text) && access(text + 5, F_OK) == 0);
    CHECK(gp_listener_open(&other, text, &err) == 0); /* the file is left over, and nobody's */
    gp_listener_close(&other);
    unlink(text + 5);
    int file = open(text + 5, O_CREAT | O_WRONLY, 0600);
    close(file);
    CHECK(refused(text, "address already in use")); /* a file of somebody's is left alone */
    CHECK(unlink(text + 5) == 0);
}

/* Without a descriptor left a connection is closed; it must not stay in the queue and be told of for ever. */
static void no_descriptors(void)
{
    struct gp_listener listener;
    struct rlimit before, none;
    char byte;

    CHECK(gp_listener_open(&listener, "127.0.0.1:0", &err) == 0);
    int client = visit(listener.port);
    struct pollfd ready = {.fd = listener.fd, .events = POLLIN};
    CHECK(poll(&ready, 1, 5000) == 1);
    int highest = dup(0);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = (rlim_t)highest;
    close(highest);
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(gp_listener_accept(&listener) == -1);
    CHECK(poll(&ready, 1, 0) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(read(client, &byte, 1) == 0);
    close(client);
    client = visit(listener.port);
    int server = accept_soon(&listener);
    CHECK(server >= 0 && listener.spare >= 0);
    close(server);
    close(client);
    gp_listener_close(&listener);
}

int main(void)
{
    CHECK(mkdtemp(directory));
    tcp();
    refusals();
    unix_paths();
    no_descriptors();
    rmdir(directory);
    return 0;
}
