/* Tests of net/socket: endpoints as text, and connections to peers of every sort. */
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "base/error.h"
#include "check.h"
#include "net/address.h"
#include "scripted_peer.h"

static struct gp_endpoint endpoint_of(const char *spelled)
{
    struct gp_endpoint endpoint;
    struct gp_error err = {0};

    if (gp_endpoint_parse(spelled, &endpoint, &err) != 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(err.code == GP_ERROR_NONE);
    return endpoint;
}

/* What address.c spells is read back as the same. */
static void spelling_is_read_back(void)
{
    static const char *const spelled[] = {"ipv4:127.0.0.1:50051",     "ipv6:[::1]:1",
                                          "ipv6:[2001:db8::7]:65535", "ipv6:[fe80::1%25lo]:80",
                                          "unix:/tmp/a%20socket%25",  "unix:relative"};

    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        struct gp_endpoint endpoint = endpoint_of(spelled[i]);
        char text[352];

        gp_address_spell((struct sockaddr *)&endpoint.address, text, sizeof text);
        CHECK(strcmp(text, spelled[i]) == 0);
    }
}

static void nonsense_is_refused(void)
{
    static const char *const wrong[] = {
        "",
        "127.0.0.1:80",
        "dns:localhost:80",
        "ipv4:127.0.0.1",
        "ipv4:127.0.0.1:0",
        "ipv4:127.0.0.1:65536",
        "ipv4:127.0.0.1:-1",
        "ipv4:127.0.0.1:80x",
        "ipv4:localhost:80",
        "ipv4:127.0.0.1.127.0.0.1:80",
        "ipv6:::1:80",
        "ipv6:[::1]",
        "ipv6:[::1:80",
        "ipv6:[::1%25nosuchzone]:80",
        "ipv6:[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:80",
        "unix:"};
    char long_path[200] = "unix:";
    struct gp_endpoint endpoint;
    struct gp_error err;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(gp_endpoint_parse(wrong[i], &endpoint, &err) == -1);
        CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, wrong[i]));
    }
    memset(long_path + 5, 'x', 108);
    CHECK(gp_endpoint_parse(long_path, &endpoint, NULL) == -1);
    long_path[5 + 107] = '\0';
    CHECK(gp_endpoint_parse(long_path, &endpoint, NULL) == 0);
}

/* The word and the descriptor of a connection that has been waited for. */
static enum gp_io connect_to(const struct gp_endpoint *to, const struct gp_endpoint *from, int *fd)
{
    enum gp_io io = gp_socket_connect(to, from, fd);
    struct pollfd writable = {.fd = *fd, .events = POLLOUT};

    if (io != GP_IO_AGAIN || *fd < 0)
        return io;
    CHECK(poll(&writable, 1, 5000) == 1);
    return gp_socket_finish(*fd);
}

static size_t read_all(int fd, char *data, size_t size)
{
    size_t sum = 0, got;

    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};

        CHECK(poll(&readable, 1, 5000) == 1);
        switch (gp_socket_read(fd, data + sum, size - sum, &got)) {
        case GP_IO_OK:
            sum += got;
            break;
        case GP_IO_AGAIN:
            break;
        case GP_IO_CLOSED:
            return sum;
        case GP_IO_ERROR:
            CHECK(!"no error here");
        }
    }
}

static void check_exchange(struct peer *peer, const char *target)
{
    struct gp_endpoint to = endpoint_of(target);
    const struct iovec pieces[] = {{(void *)"one ", 4}, {(void *)"", 0}, {(void *)"two", 3}};
    char data[64];
    size_t count;
    int fd;

    CHECK(connect_to(&to, NULL, &fd) == GP_IO_OK);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(gp_socket_read(fd, data, sizeof data, &count) == GP_IO_AGAIN && count == 0);
    CHECK(gp_socket_write(fd, pieces, 3, &count) == GP_IO_OK && count == 7);
    CHECK(read_all(fd, data, sizeof data) == 5 && memcmp(data, "hello", 5) == 0);
    close(fd);
    stop_peer(peer);
    CHECK(peer->heard_size == 7 && memcmp(peer->heard, "one two", 7) == 0);
}

static void tcp_goes_both_ways(int family)
{
    struct peer peer = {.says = "hello", .size = 5, .reads = 7};
    char target[200];

    peer.listener = listen_tcp(family, peer.address, sizeof peer.address);
    if (peer.listener < 0 && family == AF_INET6)
        return; /* a machine without IPv6 */
    start_peer(&peer);
    snprintf(target, sizeof target, "%s:%s", family == AF_INET ? "ipv4" : "ipv6", peer.address);
    check_exchange(&peer, target);
}

static void unix_sockets_go_both_ways(void)
{
    struct peer peer = {.says = "hello", .size = 5, .reads = 7};
    char directory[] = "/tmp/gp-socket-XXXXXX", target[200];
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    CHECK(mkdtemp(directory));
    snprintf(un.sun_path, sizeof un.sun_path, "%s/s", directory);
    snprintf(target, sizeof target, "unix:%s", un.sun_path);
    peer.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(peer.listener, (struct sockaddr *)&un, sizeof un) == 0 && listen(peer.listener, 1) == 0);
    start_peer(&peer);
    check_exchange(&peer, target);
    unlink(un.sun_path);
    rmdir(directory);
}

static void delay_is_off(void)
{
    struct peer peer = {.linger = true};
    struct gp_endpoint to;
    char target[200];
    int fd, on = 0;
    socklen_t size = sizeof on;

    start_peer(&peer);
    snprintf(target, sizeof target, "ipv4:%s", peer.address);
    to = endpoint_of(target);
    CHECK(connect_to(&to, NULL, &fd) == GP_IO_OK);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size) == 0 && on);
    close(fd);
    stop_peer(&peer);
}

static void what_failed_is_told(void)
{
    struct gp_endpoint to;
    char address[64], target[80], buffer[200];
    int fd;

    close(listen_tcp(AF_INET, address, sizeof address));
    snprintf(target, sizeof target, "ipv4:%s", address);
    to = endpoint_of(target);
    CHECK(connect_to(&to, NULL, &fd) == GP_IO_ERROR && errno == ECONNREFUSED);
    CHECK(strstr(gp_socket_cause(errno, buffer, sizeof buffer), "refused"));
    if (fd >= 0)
        close(fd);
    to = endpoint_of("unix:/nosuch/socket");
    CHECK(gp_socket_connect(&to, NULL, &fd) == GP_IO_ERROR && fd == -1 && errno == ENOENT);
    CHECK(strcmp(gp_socket_cause(errno, buffer, sizeof buffer), "No such file or directory") == 0);
}

static void a_reset_is_an_error(void)
{
    struct peer peer = {.reads = 1, .reset = true};
    const struct iovec byte = {(void *)"x", 1};
    struct pollfd readable = {.events = POLLIN};
    struct gp_endpoint to;
    char target[200], data[8], buffer[200];
    size_t count;

    start_peer(&peer);
    snprintf(target, sizeof target, "ipv4:%s", peer.address);
    to = endpoint_of(target);
    CHECK(connect_to(&to, NULL, &readable.fd) == GP_IO_OK);
    CHECK(gp_socket_write(readable.fd, &byte, 1, &count) == GP_IO_OK);
    CHECK(poll(&readable, 1, 5000) == 1);
    CHECK(gp_socket_read(readable.fd, data, sizeof data, &count) == GP_IO_ERROR && errno == ECONNRESET);
    CHECK(strstr(gp_socket_cause(errno, buffer, sizeof buffer), "reset"));
    CHECK(gp_socket_write(readable.fd, &byte, 1, &count) == GP_IO_ERROR &&
          errno == EPIPE); /* and no signal */
    close(readable.fd);
    stop_peer(&peer);
}

/* A Unix listener whose queue is full says so at once; there is no descriptor to wait on. */
static void a_full_queue_is_asked_again(void)
{
    char path[] = "/tmp/gp-socket-XXXXXX";
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct gp_endpoint to = {.size = sizeof un};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), fds[4];

    CHECK(mkdtemp(path));
    snprintf(un.sun_path, sizeof un.sun_path, "%s/full", path);
    memcpy(&to.address, &un, sizeof un);
    CHECK(bind(listener, (struct sockaddr *)&un, sizeof un) == 0 && listen(listener, 0) == 0);
    CHECK(gp_socket_connect(&to, NULL, &fds[0]) == GP_IO_OK);
    CHECK(gp_socket_connect(&to, NULL, &fds[1]) == GP_IO_AGAIN && fds[1] == -1);
    CHECK(accept(listener, NULL, NULL) >= 0);
    CHECK(gp_socket_connect(&to, NULL, &fds[2]) == GP_IO_OK);
    close(fds[0]);
    close(fds[2]);
    close(listener);
    unlink(un.sun_path);
    rmdir(path);
}

static void loopback_has_many_sources(void)
{
    struct gp_endpoint to, from;
    struct sockaddr_in seen;
    socklen_t size = sizeof seen;
    char address[64], target[80];
    int listener = listen_tcp(AF_INET, address, sizeof address);
    int fd, accepted;

    snprintf(target, sizeof target, "ipv4:%s", address);
    to = endpoint_of(target);
    for (unsigned number = 0; number <= 250; number += 50) {
        CHECK(gp_endpoint_loopback_source(&to, number, &from) == 0);
        CHECK(connect_to(&to, &from, &fd) == GP_IO_OK);
        accepted = accept(listener, (struct sockaddr *)&seen, &size);
        CHECK(accepted >= 0 && seen.sin_addr.s_addr == htonl(INADDR_LOOPBACK + number));
        close(fd);
        close(accepted);
    }
    close(listener);
    CHECK(gp_endpoint_loopback_source(&to, 251, &from) == -1);
    to = endpoint_of("ipv4:10.0.0.1:80");
    CHECK(gp_endpoint_loopback_source(&to, 0, &from) == -1);
    to = endpoint_of("ipv6:[::1]:80");
    CHECK(gp_endpoint_loopback_source(&to, 0, &from) == -1);
    to = endpoint_of("unix:/tmp/x");
    CHECK(gp_endpoint_loopback_source(&to, 0, &from) == -1);
}

/* A port that nobody listens on, connected to itself: both sides of a simultaneous open. */
static void an_own_echo_is_nobody(void)
{
    struct gp_endpoint to;
    char address[64], target[80];
    int fd;

    close(listen_tcp(AF_INET, address, sizeof address));
    snprintf(target, sizeof target, "ipv4:%s", address);
    to = endpoint_of(target);
    CHECK(connect_to(&to, &to, &fd) == GP_IO_ERROR && errno == ECONNREFUSED && fd >= 0);
    close(fd);
}

static void a_full_peer_says_again(void)
{
    static char bytes[1 << 20];
    const struct iovec piece = {bytes, sizeof bytes};
    char address[64], target[80];
    int listener = listen_tcp(AF_INET, address, sizeof address), fd;
    struct gp_endpoint to;
    size_t written, sum = 0;
    enum gp_io io;

    snprintf(target, sizeof target, "ipv4:%s", address);
    to = endpoint_of(target);
    CHECK(connect_to(&to, NULL, &fd) == GP_IO_OK);
    while ((io = gp_socket_write(fd, &piece, 1, &written)) == GP_IO_OK && sum < (64u << 20))
        sum += written;
    CHECK(io == GP_IO_AGAIN && written == 0 && sum > 0);
    close(fd);
    close(listener);
}

/* The limit on descriptors is named, for it is met as all sorts of other things. */
static void the_descriptor_limit_is_named(void)
{
    struct gp_endpoint to = endpoint_of("ipv4:127.0.0.1:1");
    struct rlimit before, low;
    char buffer[200];
    int fd, error;

    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    low = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    CHECK(gp_socket_connect(&to, NULL, &fd) == GP_IO_ERROR);
    error = errno;
    CHECK(error == EMFILE && strstr(gp_socket_cause(error, buffer, sizeof buffer), "limit is 3"));
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

int main(void)
{
    spelling_is_read_back();
    nonsense_is_refused();
    tcp_goes_both_ways(AF_INET);
    tcp_goes_both_ways(AF_INET6);
    unix_sockets_go_both_ways();
    delay_is_off();
    what_failed_is_told();
    a_reset_is_an_error();
    a_full_queue_is_asked_again();
    loopback_has_many_sources();
    an_own_echo_is_nobody();
    a_full_peer_says_again();
    the_descriptor_limit_is_named();
    return 0;
}
