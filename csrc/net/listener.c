/* listener: socket, bind, listen, accept. */
#include "net/listener.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define QUEUE 4096 /* connections not yet accepted; the kernel cuts it to somaxconn */

int gp_listener_refused(const char *text, const char *reason, struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_ENGINE, "cannot listen on %s: %c%s", text, tolower(*reason),
                        reason + 1);
}

static const char *unix_path(const char *text)
{
    return strncmp(text, "unix:", 5) == 0 ? text + 5 : NULL;
}

/* A socket and the address of a path; -1 with errno. */
static int unix_socket(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address->sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address->sun_path, path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool gp_listener_in_use(const char *text)
{
    struct sockaddr_un address;
    const char *path = unix_path(text);
    int fd = path ? unix_socket(path, &address) : -1;

    if (fd < 0)
        return false;
    bool in_use = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN;
    close(fd);
    return in_use;
}

/* 0, or the errno. */
static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t size)
{
    return bind(fd, address, size) != 0 || listen(fd, QUEUE) != 0 ? errno : 0;
}

static int open_unix(struct gp_listener *listener, const char *text)
{
    struct sockaddr_un address;
    struct stat found;
    const char *path = unix_path(text);

    listener->fd = unix_socket(path, &address);
    if (listener->fd < 0)
        return errno;
    if (stat(path, &found) == 0 && S_ISSOCK(found.st_mode) && !gp_listener_in_use(text))
        unlink(path);
    return bind_and_listen(listener->fd, (struct sockaddr *)&address, sizeof(address));
}

static int open_tcp(struct gp_listener *listener, const struct addrinfo *at)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    int on = 1;

    listener->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return errno;
    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted ones inherit it */
    int error = bind_and_listen(listener->fd, at->ai_addr, at->ai_addrlen);
    if (error == 0 && getsockname(listener->fd, (struct sockaddr *)&bound, &size) == 0)
        listener->port = ntohs(at->ai_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                         : ((struct sockaddr_in *)&bound)->sin_port);
    return error;
}

/* The host's addresses, or NULL and the reason. */
static struct addrinfo *resolve(const char *text, const char **reason)
{
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    bool brackets = size > 2 && text[0] == '[' && text[size - 1] == ']';
    char host[256];

    if (size == 0 || size >= sizeof(host)) {
        *reason = "it is not HOST:PORT";
        return NULL;
    }
    memcpy(host, text + brackets, size - 2 * brackets);
    host[size - 2 * brackets] = 0;
    int unknown = getaddrinfo(host, colon + 1, &hints, &found);
    *reason = unknown ? gai_strerror(unknown) : NULL;
    return unknown ? NULL : found;
}

/* The reason why not, or NULL. */
static const char *try_to_open(struct gp_listener *listener, const char *text)
{
    const char *reason;

    if (unix_path(text)) {
        int error = open_unix(listener, text);
        return error ? strerror(error) : NULL;
    }
    struct addrinfo *found = resolve(text, &reason);
    if (found) {
        int error = open_tcp(listener, found);
        reason = error ? strerror(error) : NULL;
        freeaddrinfo(found);
    }
    return reason;
}

int gp_listener_open(struct gp_listener *listener, const char *text, struct gp_error *err)
{
    *listener = (struct gp_listener){.fd = -1, .spare = -1};
    const char *reason = try_to_open(listener, text);
    if (!reason) {
        listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return 0;
    }
    gp_listener_refused(text, reason, err);
    gp_listener_close(listener);
    return -1;
}

void gp_listener_close(struct gp_listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->spare >= 0)
        close(listener->spare);
    listener->fd = listener->spare = -1;
}

static void turn_away(struct gp_listener *listener)
{
    close(listener->spare);
    int fd = accept(listener->fd, NULL, NULL);
    if (fd >= 0)
        close(fd);
    listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int gp_listener_accept(struct gp_listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && listener->spare >= 0)
        turn_away(listener);
    return fd;
}
