/* probe: the sockets of one look at an address, in the order things happen. What the peer says is judged by
 * greeting; this file waits, and turns what happened into one line that names the address and the cause. */
#include "net/probe.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"
#include "net/address.h"
#include "net/greeting.h"

#define SLICE_NS (20 * GP_NS_PER_MS)
#define WORDS_NS                                                                                             \
    (200 * GP_NS_PER_MS) /* for the rest of a text: a server says in the body what it dislikes               \
                          */
#define FAREWELL_NS                                                                                          \
    (100 * GP_NS_PER_MS) /* for the peer to close too, so that no baseline counts this visit */

struct look {
    const char *name; /* the address as it was written */
    const struct gp_wait *wait;
    uint64_t deadline_ns; /* of the whole probe, then of one address */
    uint64_t ask_ns;      /* when the caller is asked next whether to go on */
    uint64_t connected_ns;
    bool connected;
    struct gp_error err;
};

enum ready { READY, LATE, STOPPED };

static uint64_t after(uint64_t now_ns, uint64_t span_ns)
{
    return span_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + span_ns;
}

static bool stopped(struct look *look, uint64_t now_ns)
{
    if (!look->wait->interrupted || now_ns < look->ask_ns)
        return false;
    look->ask_ns = after(now_ns, SLICE_NS);
    if (!look->wait->interrupted(look->wait->context))
        return false;
    gp_error_set(&look->err, GP_ERROR_STOPPED, "stopped while looking at %s", look->name);
    return true;
}

/* Wait for `events` on `fd` (-1: only for the time to pass) until `until_ns`, asking meanwhile. */
static enum ready wait_for(struct look *look, int fd, short events, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns = gp_clock_now_ns();
        if (stopped(look, now_ns))
            return STOPPED;
        if (now_ns >= until_ns)
            return LATE;
        uint64_t left_ns = until_ns - now_ns;
        struct timespec slice = gp_clock_timespec(left_ns < SLICE_NS ? left_ns : SLICE_NS);
        struct pollfd pollfd = {.fd = fd, .events = events};
        if (ppoll(&pollfd, 1, &slice, NULL) > 0)
            return READY;
    }
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(gp_clock_now_ns() - start_ns) / (double)GP_NS_PER_S;
}

static int cannot(struct look *look, const char *cause)
{
    return gp_error_set(&look->err, GP_ERROR_CONNECT, "cannot reach %s: %s", look->name, cause);
}

static int cannot_connect(struct look *look, int os_errno)
{
    char buffer[128];

    cannot(look, os_errno == ECONNREFUSED ? "connection refused (nothing listens there)"
                 : os_errno == ETIMEDOUT  ? "timed out connecting"
                                          : strerror_r(os_errno, buffer, sizeof buffer));
    look->err.os_errno = os_errno;
    return -1;
}

/* A port of the range the kernel gives to clients can be connected to itself when nothing listens there. */
static bool is_own_echo(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;

    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && own.ss_family != AF_UNIX &&
           own_size == peer_size && memcmp(&own, &peer, own_size) == 0;
}

/* A full listen queue: TCP waits by itself, a Unix socket says EAGAIN and is asked again. */
static int begin_connect(struct look *look, int fd, const struct addrinfo *to)
{
    uint64_t start_ns = gp_clock_now_ns();

    while (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        if (errno == EINPROGRESS || errno == EINTR)
            return 0;
        if (errno != EAGAIN || to->ai_family != AF_UNIX)
            return cannot_connect(look, errno);
        uint64_t again_ns = after(gp_clock_now_ns(), SLICE_NS / 4);
        if (again_ns > look->deadline_ns)
            return gp_error_set(&look->err, GP_ERROR_CONNECT,
                                "cannot reach %s: timed out connecting (its queue was full for %.3g s)",
                                look->name, seconds_since(start_ns));
        if (wait_for(look, -1, 0, again_ns) == STOPPED)
            return -1;
    }
    return 0;
}

static int finish_connect(struct look *look, int fd, uint64_t start_ns)
{
    int failure = 0;
    socklen_t size = sizeof failure;

    switch (wait_for(look, fd, POLLOUT, look->deadline_ns)) {
    case STOPPED:
        return -1;
    case LATE:
        return gp_error_set(&look->err, GP_ERROR_CONNECT,
                            "cannot reach %s: timed out connecting (no answer within %.3g s)", look->name,
                            seconds_since(start_ns));
    case READY:
        break;
    }
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure)
        return cannot_connect(look, failure);
    if (is_own_echo(fd))
        return cannot_connect(look, ECONNREFUSED);
    look->connected = true;
    look->connected_ns = gp_clock_now_ns();
    return 0;
}

/* The connection preface (RFC 9113, 3.4): the magic and an empty SETTINGS. Fits any fresh socket's buffer. A
 * failure is no verdict: what the peer said before it closed can still be read. */
static void say_hello(int fd)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";

    _Static_assert(sizeof hello == 24 + 9, "the final zero is part of it");
    send(fd, hello, sizeof hello, MSG_NOSIGNAL);
}

static int silent(struct look *look, size_t size, bool ended)
{
    const char *name = look->name;

    if (size == 0 && ended)
        return gp_error_set(
            &look->err, GP_ERROR_CONNECT,
            "%s closed the connection without a word (a TLS server or a proxy?); plaintext gRPC was "
            "expected",
            name);
    if (size == 0)
        return gp_error_set(
            &look->err, GP_ERROR_CONNECT,
            "%s accepted the connection and said nothing for %.3g s (a stopped server, or not gRPC?)", name,
            seconds_since(look->connected_ns));
    return gp_error_set(&look->err, GP_ERROR_CONNECT,
                        "%s %s in the middle of its greeting (%zu bytes), not gRPC", name,
                        ended ? "closed the connection" : "fell silent", size);
}

static int verdict(struct look *look, const struct gp_greeting *greeting, size_t size, bool ended)
{
    const char *name = look->name, *words = greeting->words;
    struct gp_error *err = &look->err;

    switch (greeting->kind) {
    case GP_GREETING_HTTP2:
        return 0;
    case GP_GREETING_UNFINISHED:
        return silent(look, size, ended);
    case GP_GREETING_GOAWAY:
        return gp_error_set(err, GP_ERROR_CONNECT,
                            "%s answers HTTP/2 but turns the connection away (GOAWAY, error %s)", name,
                            words);
    case GP_GREETING_HTTP1:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers HTTP/1 (%s), not gRPC", name, words);
    case GP_GREETING_HTTPS:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers TLS; plaintext was asked for (it says: %s)",
                            name, words);
    case GP_GREETING_TLS:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers TLS; plaintext was asked for", name);
    case GP_GREETING_TEXT:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers \"%s\", not gRPC", name, words);
    case GP_GREETING_BINARY:
        return gp_error_set(err, GP_ERROR_CONNECT,
                            "%s answers the bytes %s, which do not begin HTTP/2: not gRPC", name, words);
    }
    return gp_error_set(err, GP_ERROR_CONNECT, "%s is not gRPC", name);
}

static bool is_words(enum gp_greeting_kind kind)
{
    return kind == GP_GREETING_HTTP1 || kind == GP_GREETING_TEXT;
}

/* Read until the greeting is understood, the peer is through, or time is up; then judge. */
static int hear(struct look *look, int fd, struct gp_probe *probe)
{
    uint8_t data[GP_GREETING_MOST];
    struct gp_greeting greeting = {.kind = GP_GREETING_UNFINISHED};
    uint64_t until_ns = look->deadline_ns;
    size_t size = 0;
    bool ended = false;

    while (!ended && size < sizeof data) {
        enum ready ready = wait_for(look, fd, POLLIN, until_ns);
        if (ready == STOPPED)
            return -1;
        if (ready == LATE)
            break;
        ssize_t got = recv(fd, data + size, sizeof data - size, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        ended = got <= 0; /* a reset too: what came before it counts */
        size += got > 0 ? (size_t)got : 0;
        enum gp_greeting_kind before = greeting.kind;
        gp_greeting_read(data, size, &greeting, probe);
        if (greeting.kind != GP_GREETING_UNFINISHED && !is_words(greeting.kind))
            break;
        uint64_t words_ns = after(gp_clock_now_ns(), WORDS_NS);
        if (is_words(greeting.kind) && before == GP_GREETING_UNFINISHED && words_ns < until_ns)
            until_ns = words_ns;
    }
    return verdict(look, &greeting, size, ended);
}

/* Acknowledge, take leave, and let the peer close first if it does so soon. */
static int say_goodbye(struct look *look, int fd)
{
    static const char goodbye[] = "\0\0\0\4\1\0\0\0\0"                 /* SETTINGS, ACK */
                                  "\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0"; /* GOAWAY, last stream 0, NO_ERROR */
    _Static_assert(sizeof goodbye == 9 + 17, "the final zero is part of it");
    uint64_t until_ns = after(gp_clock_now_ns(), FAREWELL_NS);
    char rest[4096];
    enum ready ready;

    send(fd, goodbye, sizeof goodbye, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    if (until_ns > look->deadline_ns)
        until_ns = look->deadline_ns;
    do {
        ready = wait_for(look, fd, POLLIN, until_ns);
        if (ready == STOPPED)
            return -1;
    } while (ready == READY && recv(fd, rest, sizeof rest, 0) > 0);
    return 0;
}

static int visit(struct look *look, const struct addrinfo *to, struct gp_probe *probe)
{
    uint64_t start_ns = gp_clock_now_ns();
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int status = -1;

    look->connected = false;
    if (fd < 0 && errno == EAFNOSUPPORT)
        return cannot_connect(look, errno);
    if (fd < 0)
        return gp_error_errno(&look->err, "cannot reach %s: socket", look->name);
    if (begin_connect(look, fd, to) || finish_connect(look, fd, start_ns))
        goto out;
    say_hello(fd);
    if (hear(look, fd, probe) || say_goodbye(look, fd))
        goto out;
    probe->connect_ns = look->connected_ns - start_ns;
    gp_address_spell(to->ai_addr, probe->resolved, sizeof probe->resolved);
    status = 0;
out:
    close(fd);
    return status;
}

/* Each address in turn, as gRPC does, with an even share of the time that is left. When none will do, an
 * answer of the wrong kind tells more than a refusal, and the first tells as much as the last. */
static int visit_all(struct look *look, const struct addrinfo *list, struct gp_probe *probe)
{
    uint64_t deadline_ns = look->deadline_ns;
    struct gp_error best = {0};
    bool best_connected = false;
    unsigned left = 0;

    for (const struct addrinfo *to = list; to; to = to->ai_next)
        left++;
    for (const struct addrinfo *to = list; to; to = to->ai_next, left--) {
        uint64_t now_ns = gp_clock_now_ns();
        look->deadline_ns = now_ns >= deadline_ns ? now_ns : now_ns + (deadline_ns - now_ns) / left;
        if (visit(look, to, probe) == 0)
            return 0;
        if (look->err.code == GP_ERROR_STOPPED)
            return -1;
        if (best.code == GP_ERROR_NONE || (look->connected && !best_connected)) {
            best = look->err;
            best_connected = look->connected;
        }
    }
    look->err = best;
    return -1;
}

static int visit_unix(struct look *look, const struct gp_address *address, struct gp_probe *probe)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct addrinfo only = {.ai_family = AF_UNIX, .ai_addr = (struct sockaddr *)&un, .ai_addrlen = sizeof un};

    strcpy(un.sun_path, address->host); /* parsing saw to the length */
    return visit_all(look, &only, probe);
}

static int visit_named(struct look *look, const struct gp_address *address, struct gp_probe *probe)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    char cause[512], buffer[128];
    int failure = getaddrinfo(address->host, address->port, &hints, &list); /* blocks; nothing to be done */

    if (failure) {
        snprintf(cause, sizeof cause, "unknown host \"%s\" (%s)", address->host,
                 failure == EAI_SYSTEM ? strerror_r(errno, buffer, sizeof buffer) : gai_strerror(failure));
        return cannot(look, cause);
    }
    uint64_t now_ns = gp_clock_now_ns();
    int status = -1;
    if (now_ns >= look->deadline_ns)
        cannot(look, "looking up the host took all the time there was");
    else if (!stopped(look, now_ns))
        status = visit_all(look, list, probe);
    freeaddrinfo(list);
    return status;
}

int gp_probe(const char *address, const struct gp_wait *wait, struct gp_probe *probe, struct gp_error *err)
{
    uint64_t now_ns = gp_clock_now_ns();
    struct look look = {
        .name = address,
        .wait = wait,
        .deadline_ns = after(now_ns, wait->timeout_ns),
        .ask_ns = after(now_ns, SLICE_NS),
    };
    struct gp_address parsed;

    if (gp_address_parse(address, &parsed, err))
        return -1;
    *probe = (struct gp_probe){0};
    strcpy(probe->authority, parsed.authority);
    int status = parsed.is_unix ? visit_unix(&look, &parsed, probe) : visit_named(&look, &parsed, probe);
    if (status && err)
        *err = look.err;
    return status;
}
