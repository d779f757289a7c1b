/* socket: the system calls of a client's sockets, each turned into one word. No waiting here. */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define LOOPBACK_SOURCES 250u

/* --- where to ---------------------------------------------------------------------------------- */

static int no_endpoint(const char *spelled, struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_INVALID,
                        "target \"%s\": expected \"ipv4:ADDRESS:PORT\", \"ipv6:[ADDRESS]:PORT\" or "
                        "\"unix:PATH\", as the probe resolves an address",
                        spelled);
}

static bool parse_port(const char *text, in_port_t *port)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    *port = htons((in_port_t)number);
    return *text >= '0' && *text <= '9' && *end == '\0' && number > 0 && number <= 65535;
}

static bool parse_ipv4(const char *text, struct gp_endpoint *endpoint)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&endpoint->address;
    const char *colon = strrchr(text, ':');
    char host[INET_ADDRSTRLEN];

    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    in->sin_family = AF_INET;
    endpoint->size = sizeof *in;
    return inet_pton(AF_INET, host, &in->sin_addr) == 1 && parse_port(colon + 1, &in->sin_port);
}

/* "[fe80::1%25eth0]:1": the zone's percent sign is written as a URI has it. */
static bool parse_ipv6(const char *text, struct gp_endpoint *endpoint)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&endpoint->address;
    const char *close = strrchr(text, ']');
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 4];

    if (text[0] != '[' || !close || close[1] != ':' || (size_t)(close - text) > sizeof host)
        return false;
    memcpy(host, text + 1, (size_t)(close - text - 1));
    host[close - text - 1] = '\0';
    char *zone = strchr(host, '%');
    if (zone) {
        *zone = '\0';
        in6->sin6_scope_id = if_nametoindex(strncmp(zone + 1, "25", 2) == 0 ? zone + 3 : zone + 1);
        if (in6->sin6_scope_id == 0)
            return false;
    }
    in6->sin6_family = AF_INET6;
    endpoint->size = sizeof *in6;
    return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1 && parse_port(close + 2, &in6->sin6_port);
}

static int digit(char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c ? strchr(digits, c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c) : NULL;

    return at ? (int)(at - digits) : -1;
}

static bool parse_unix(const char *text, struct gp_endpoint *endpoint)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&endpoint->address;
    size_t length = 0;

    for (; *text; text++, length++) {
        int high = text[0] == '%' ? digit(text[1]) : -1;
        int low = high >= 0 ? digit(text[2]) : -1;

        if (length + 1 >= sizeof un->sun_path)
            return false;
        un->sun_path[length] = low >= 0 ? (char)(high * 16 + low) : *text;
        text += low >= 0 ? 2 : 0;
    }
    un->sun_family = AF_UNIX;
    endpoint->size = sizeof *un;
    return length > 0;
}

int gp_endpoint_parse(const char *spelled, struct gp_endpoint *endpoint, struct gp_error *err)
{
    bool good = false;

    *endpoint = (struct gp_endpoint){0};
    if (strncmp(spelled, "ipv4:", 5) == 0)
        good = parse_ipv4(spelled + 5, endpoint);
    else if (strncmp(spelled, "ipv6:", 5) == 0)
        good = parse_ipv6(spelled + 5, endpoint);
    else if (strncmp(spelled, "unix:", 5) == 0)
        good = parse_unix(spelled + 5, endpoint);
    return good ? 0 : no_endpoint(spelled, err);
}

int gp_endpoint_loopback_source(const struct gp_endpoint *to, unsigned number, struct gp_endpoint *from)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&to->address;

    if (in->sin_family != AF_INET || ntohl(in->sin_addr.s_addr) >> 24 != 127 || number > LOOPBACK_SOURCES)
        return -1;
    *from = (struct gp_endpoint){.size = sizeof *in};
    *(struct sockaddr_in *)&from->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + number)};
    return 0;
}

/* --- connecting -------------------------------------------------------------------------------- */

static enum gp_io begin_connect(int fd, const struct gp_endpoint *to, const struct gp_endpoint *from)
{
    int on = 1;

    if (to->address.ss_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (from) {
        /* The port is chosen by connect, for this one peer, instead of by bind, for all of them. */
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (const struct sockaddr *)&from->address, from->size) != 0)
            return GP_IO_ERROR;
    }
    if (connect(fd, (const struct sockaddr *)&to->address, to->size) == 0)
        return GP_IO_OK;
    return errno == EINPROGRESS || errno == EINTR || errno == EAGAIN ? GP_IO_AGAIN : GP_IO_ERROR;
}

enum gp_io gp_socket_connect(const struct gp_endpoint *to, const struct gp_endpoint *from, int *fd)
{
    enum gp_io began;
    int saved;

    *fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return GP_IO_ERROR;
    began = begin_connect(*fd, to, from);
    saved = errno;
    if (began == GP_IO_OK || (began == GP_IO_AGAIN && saved != EAGAIN))
        return began;
    close(*fd);
    *fd = -1;
    errno = saved;
    /* Only a Unix socket says EAGAIN for a full queue; of TCP it means that there is no port left. */
    if (began == GP_IO_AGAIN && to->address.ss_family != AF_UNIX) {
        errno = EADDRNOTAVAIL;
        return GP_IO_ERROR;
    }
    return began;
}

static bool is_own_echo(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;

    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && own.ss_family != AF_UNIX &&
           own_size == peer_size && memcmp(&own, &peer, own_size) == 0;
}

enum gp_io gp_socket_finish(int fd)
{
    int failure = 0;
    socklen_t size = sizeof failure;

    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure == 0 && is_own_echo(fd))
        failure = ECONNREFUSED;
    errno = failure;
    return failure == 0 ? GP_IO_OK : GP_IO_ERROR;
}

/* --- bytes ------------------------------------------------------------------------------------- */

static enum gp_io unfinished(void)
{
    return errno == EAGAIN || errno == EINTR ? GP_IO_AGAIN : GP_IO_ERROR;
}

int gp_socket_keepalive(int fd, const struct gp_tcp_keepalive *keepalive)
{
    const struct {
        int level, name, value;
    } wanted[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, keepalive->idle_s},
        {IPPROTO_TCP, TCP_KEEPINTVL, keepalive->interval_s},
        {IPPROTO_TCP, TCP_KEEPCNT, keepalive->probes},
    };

    for (size_t i = 0; keepalive->on && i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i].value &&
            setsockopt(fd, wanted[i].level, wanted[i].name, &wanted[i].value, sizeof wanted[i].value) < 0)
            return -1;
    return 0;
}

enum gp_io gp_socket_read(int fd, void *data, size_t size, size_t *got)
{
    ssize_t count = recv(fd, data, size, 0);

    *got = count > 0 ? (size_t)count : 0;
    if (count < 0)
        return unfinished();
    return count > 0 ? GP_IO_OK : GP_IO_CLOSED;
}

enum gp_io gp_socket_write(int fd, const struct iovec *pieces, size_t count, size_t *written)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = count};
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);

    *written = sent > 0 ? (size_t)sent : 0;
    return sent < 0 ? unfinished() : GP_IO_OK;
}

/* --- words ------------------------------------------------------------------------------------- */

const char *gp_socket_cause(int os_errno, char *buffer, size_t size)
{
    struct rlimit limit = {0};

    switch (os_errno) {
    case ECONNREFUSED:
        return "connection refused (nothing listens there)";
    case ETIMEDOUT:
        return "timed out connecting";
    case ECONNRESET:
    case EPIPE:
        return "connection reset by the peer";
    case EADDRNOTAVAIL:
        return "no local port is left to connect from (net.ipv4.ip_local_port_range)";
    case EMFILE:
        getrlimit(RLIMIT_NOFILE, &limit);
        snprintf(buffer, size, "too many open files: the limit is %llu (raise it with ulimit -n)",
                 (unsigned long long)limit.rlim_cur);
        return buffer;
    default:
        return strerror_r(os_errno, buffer, size);
    }
}
