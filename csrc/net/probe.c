/* probe: the sockets of one look at an address, in the order things happen. What the peer says is judged by
 * greeting; this file waits, and turns what happened into one line that names the address and the cause. */
#include "net/probe.h"

#include <errno.h>
#include <netdb.h>
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
#include "net/stream.h"
#include "net/tls.h"

#define SLICE_NS (20 * GP_NS_PER_MS)
#define WORDS_NS (200 * GP_NS_PER_MS)    /* for a text to end: it says what the server dislikes */
#define FAREWELL_NS (100 * GP_NS_PER_MS) /* for the peer to close too: no baseline counts this visit */

struct look {
    const char *name; /* the address as it was written */
    const struct gp_wait *wait;
    uint64_t deadline_ns;              /* of the whole probe, then of one address */
    uint64_t ask_ns;                   /* when the caller is asked next whether to go on */
    uint64_t connected_ns, greeted_ns; /* the connection is there; TLS is */
    bool connected;
    struct gp_tls *tls; /* NULL: plaintext */
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

    cannot(look, gp_socket_cause(os_errno, buffer, sizeof buffer));
    look->err.os_errno = os_errno;
    return -1;
}

/* A full listen queue: TCP waits by itself, a Unix socket says so and is asked again. */
static int begin_connect(struct look *look, const struct gp_endpoint *to, int *fd)
{
    uint64_t start_ns = gp_clock_now_ns();

    for (;;) {
        enum gp_io io = gp_socket_connect(to, NULL, fd);
        if (io == GP_IO_ERROR)
            return cannot_connect(look, errno);
        if (*fd >= 0)
            return 0;
        uint64_t again_ns = after(gp_clock_now_ns(), SLICE_NS / 4);
        if (again_ns > look->deadline_ns)
            return gp_error_set(&look->err, GP_ERROR_CONNECT,
                                "cannot reach %s: timed out connecting (its queue was full for %.3g s)",
                                look->name, seconds_since(start_ns));
        if (wait_for(look, -1, 0, again_ns) == STOPPED)
            return -1;
    }
}

static int finish_connect(struct look *look, int fd, uint64_t start_ns)
{
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
    if (gp_socket_finish(fd) == GP_IO_ERROR)
        return cannot_connect(look, errno);
    look->connected = true;
    look->connected_ns = gp_clock_now_ns();
    return 0;
}

static int no_tls(struct look *look, const char *cause)
{
    return gp_error_set(&look->err, GP_ERROR_CONNECT, "no TLS with %s: %s", look->name, cause);
}

static int greet(struct look *look, struct gp_stream *stream)
{
    struct gp_error err;
    enum gp_io io;

    while ((io = gp_stream_handshake(stream, &err)) == GP_IO_AGAIN) {
        short events = gp_stream_blocked(stream) ? POLLOUT : POLLIN;

        switch (wait_for(look, stream->fd, events, look->deadline_ns)) {
        case STOPPED:
            return -1;
        case LATE:
            return no_tls(look, "it accepted the connection and said nothing in time");
        case READY:
            break;
        }
    }
    look->greeted_ns = gp_clock_now_ns();
    return io == GP_IO_OK ? 0 : no_tls(look, err.message);
}

/* Fits any fresh socket's buffer. A failure is no verdict: what the peer said before it
 * closed can still be read. */
static void say_hello(struct gp_stream *stream)
{
    const struct iovec piece = {GP_GREETING_HELLO, sizeof GP_GREETING_HELLO};
    size_t written;

    gp_stream_write(stream, &piece, 1, &written, NULL);
}

static int silent(struct look *look, size_t size, bool ended)
{
    const char *name = look->name;

    if (size == 0 && ended)
        return gp_error_set(
            &look->err, GP_ERROR_CONNECT,
            look->tls
                ? "%s agreed on TLS and closed the connection without a word (does it want a certificate of "
                  "the client?)"
                : "%s closed the connection without a word (a TLS server or a proxy?); plaintext gRPC "
                  "was expected",
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

static bool is_words(enum gp_greeting_kind kind)
{
    return kind == GP_GREETING_HTTP1 || kind == GP_GREETING_TEXT;
}

/* Read until the greeting is understood, the peer is through, or time is up; then judge. A reset ends it like
 * any other end: what came before it counts. */
static int hear(struct look *look, struct gp_stream *stream, struct gp_probe *probe)
{
    uint8_t data[GP_GREETING_MOST];
    struct gp_greeting greeting = {.kind = GP_GREETING_UNFINISHED};
    struct gp_error err;
    uint64_t until_ns = look->deadline_ns;
    size_t size = 0, got;
    bool ended = false;

    while (!ended && size < sizeof data) {
        enum ready ready = wait_for(look, stream->fd, POLLIN, until_ns);
        if (ready == STOPPED)
            return -1;
        if (ready == LATE)
            break;
        enum gp_io io = gp_stream_read(stream, data + size, sizeof data - size, &got, &err);
        if (io == GP_IO_AGAIN && got == 0)
            continue;
        if (io == GP_IO_ERROR && look->tls && size == 0)
            return no_tls(look, err.message);
        ended = io == GP_IO_CLOSED || io == GP_IO_ERROR;
        size += got;
        enum gp_greeting_kind before = greeting.kind;
        gp_greeting_read(data, size, &greeting, probe);
        if (greeting.kind != GP_GREETING_UNFINISHED && !is_words(greeting.kind))
            break;
        uint64_t words_ns = after(gp_clock_now_ns(), WORDS_NS);
        if (is_words(greeting.kind) && before == GP_GREETING_UNFINISHED && words_ns < until_ns)
            until_ns = words_ns;
    }
    if (greeting.kind == GP_GREETING_UNFINISHED)
        return silent(look, size, ended);
    return gp_greeting_verdict(&greeting, look->name, &look->err);
}

/* Acknowledge, take leave, and let the peer close first if it does so soon. */
static int say_goodbye(struct look *look, struct gp_stream *stream)
{
    const struct iovec piece = {GP_GREETING_GOODBYE, sizeof GP_GREETING_GOODBYE};
    uint64_t until_ns = after(gp_clock_now_ns(), FAREWELL_NS);
    char rest[4096];
    size_t written;
    enum ready ready;

    gp_stream_write(stream, &piece, 1, &written, NULL);
    shutdown(stream->fd, SHUT_WR);
    if (until_ns > look->deadline_ns)
        until_ns = look->deadline_ns;
    do {
        ready = wait_for(look, stream->fd, POLLIN, until_ns);
        if (ready == STOPPED)
            return -1;
    } while (ready == READY && recv(stream->fd, rest, sizeof rest, 0) > 0);
    return 0;
}

static int visit(struct look *look, const struct gp_endpoint *to, struct gp_probe *probe)
{
    uint64_t start_ns = gp_clock_now_ns();
    struct gp_stream stream;
    int fd;

    look->connected = false;
    if (begin_connect(look, to, &fd) != 0)
        return -1;
    if (finish_connect(look, fd, start_ns) != 0) {
        close(fd);
        return -1;
    }
    if (gp_stream_init(&stream, fd, look->tls, &look->err) != 0)
        return -1;
    int status = greet(look, &stream);
    if (status == 0) {
        say_hello(&stream);
        status = hear(look, &stream, probe);
    }
    if (status == 0)
        status = say_goodbye(look, &stream);
    gp_stream_close(&stream);
    if (status != 0)
        return -1;
    probe->connect_ns = look->connected_ns - start_ns;
    probe->handshake_ns = look->tls ? look->greeted_ns - look->connected_ns : 0;
    gp_address_spell((const struct sockaddr *)&to->address, probe->resolved, sizeof probe->resolved);
    return 0;
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
        struct gp_endpoint endpoint = {.size = to->ai_addrlen};
        memcpy(&endpoint.address, to->ai_addr, to->ai_addrlen);
        if (visit(look, &endpoint, probe) == 0)
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

int gp_probe(const char *address, const struct gp_tls_opts *tls, const struct gp_wait *wait,
             struct gp_probe *probe, struct gp_error *err)
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
    if (tls && gp_tls_create(&look.tls, tls, parsed.authority, err))
        return -1;
    *probe = (struct gp_probe){0};
    strcpy(probe->authority, parsed.authority);
    int status = parsed.is_unix ? visit_unix(&look, &parsed, probe) : visit_named(&look, &parsed, probe);
    gp_tls_destroy(look.tls);
    if (status && err)
        *err = look.err;
    return status;
}
