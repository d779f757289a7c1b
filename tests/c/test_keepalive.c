/* keepalive: TCP's, set on a listening socket for the connections that come from it. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "server/keepalive.h"
#include "server/options.h"

static struct gp_error err;

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0 && listen(fd, 4) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)address, &size) == 0);
    return fd;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);
    CHECK(getsockopt(fd, level, name, &value, &size) == 0);
    return value;
}

static void test_connections_have_it(void)
{
    struct gp_options options = {.tcp_keepalive = {.on = true, .idle_s = 77, .probes = 5}};
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int kernels_own = option(client, IPPROTO_TCP, TCP_KEEPINTVL);
    CHECK(gp_keepalive_start(&options, &err) == 0);
    CHECK(connect(client, (struct sockaddr *)&address, sizeof(address)) == 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK(option(accepted, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(accepted, IPPROTO_TCP, TCP_KEEPIDLE) == 77);
    CHECK(option(accepted, IPPROTO_TCP, TCP_KEEPINTVL) == kernels_own);
    CHECK(option(accepted, IPPROTO_TCP, TCP_KEEPCNT) == 5);
    CHECK(option(client, SOL_SOCKET, SO_KEEPALIVE) == 0); /* which listens to nothing */
    close(accepted);
    close(client);
    close(listener);
}

static void test_not_asked_for(void)
{
    struct gp_options options = {0};
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    CHECK(gp_keepalive_start(&options, &err) == 0 && option(listener, SOL_SOCKET, SO_KEEPALIVE) == 0);
    close(listener);
}

static void test_no_tcp_socket(void)
{
    struct gp_options options = {.tcp_keepalive.on = true};
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* bound to a name of the kernel's choice */
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path)) == 0);
    CHECK(listen(listener, 1) == 0);
    CHECK(gp_keepalive_start(&options, &err) < 0 && err.code == GP_ERROR_INVALID);
    close(listener);
}

int main(void)
{
    test_connections_have_it();
    test_not_asked_for();
    test_no_tcp_socket();
    return 0;
}
