/* handshake: a connection's first steps, in the order in which they happen, and a clock read after each. */
#include "net/handshake.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"
#include "net/greeting.h"
#include "net/stream.h"

#define SLICE_NS (20 * GP_NS_PER_MS)
#define FAREWELL_NS (100 * GP_NS_PER_MS) /* for the peer to close too, so that it is done with this one */

struct visit {
    const struct gp_wait *wait;
    uint64_t deadline_ns;
    struct gp_error *err;
};

static int failed(const struct visit *visit, int os_errno)
{
    char buffer[128];

    return gp_error_set(visit->err, GP_ERROR_CONNECT, "%s", gp_socket_cause(os_errno, buffer, sizeof buffer));
}

static int wait_for(const struct visit *visit, int fd, short events)
{
    for (;;) {
        uint64_t now_ns = gp_clock_now_ns();
        struct pollfd pollfd = {.fd = fd, .events = events};

        if (now_ns >= visit->deadline_ns)
            return gp_error_set(visit->err, GP_ERROR_CONNECT, "no answer in time");
        uint64_t left_ns = visit->deadline_ns - now_ns;
        struct timespec slice = gp_clock_timespec(left_ns < SLICE_NS ? left_ns : SLICE_NS);
        if (ppoll(&pollfd, 1, &slice, NULL) > 0)
            return 0;
        if (visit->wait->interrupted && visit->wait->interrupted(visit->wait->context))
            return gp_error_set(visit->err, GP_ERROR_STOPPED, "stopped while connecting");
    }
}

static int connect_to(const struct visit *visit, const struct gp_endpoint *to, int *fd)
{
    enum gp_io io = gp_socket_connect(to, NULL, fd);

    if (io == GP_IO_AGAIN && *fd >= 0) {
        if (wait_for(visit, *fd, POLLOUT) != 0)
            return -1;
        io = gp_socket_finish(*fd);
    }
    return io == GP_IO_OK ? 0 : failed(visit, io == GP_IO_AGAIN ? EAGAIN : errno);
}

static int agree_on_tls(const struct visit *visit, struct gp_stream *stream)
{
    enum gp_io io;

    while ((io = gp_stream_handshake(stream, visit->err)) == GP_IO_AGAIN)
        if (wait_for(visit, stream->fd, gp_stream_blocked(stream) ? POLLOUT : POLLIN) != 0)
            return -1;
    return io == GP_IO_OK ? 0 : -1;
}

static void say(struct gp_stream *stream, const void *words, size_t size)
{
    const struct iovec piece = {(void *)words, size};
    size_t written;

    gp_stream_write(stream, &piece, 1, &written, NULL);
}

/* 1: it has said something; 0: it has closed; -1: neither in time. */
static int hear(const struct visit *visit, struct gp_stream *stream)
{
    uint8_t data[4096];
    size_t got = 0;

    for (;;) {
        enum gp_io io = gp_stream_read(stream, data, sizeof data, &got, NULL);
        if (got > 0)
            return 1;
        if (io == GP_IO_CLOSED || io == GP_IO_ERROR)
            return 0;
        if (wait_for(visit, stream->fd, POLLIN) != 0)
            return -1;
    }
}

/* Acknowledge its SETTINGS, take leave, and let the peer close first if it does so soon. */
static void part(struct gp_stream *stream)
{
    const struct visit farewell = {.wait = &(struct gp_wait){0},
                                   .deadline_ns = gp_clock_now_ns() + FAREWELL_NS};
    char rest[4096];

    say(stream, GP_GREETING_GOODBYE, sizeof GP_GREETING_GOODBYE);
    shutdown(stream->fd, SHUT_WR);
    while (wait_for(&farewell, stream->fd, POLLIN) == 0 && recv(stream->fd, rest, sizeof rest, 0) > 0)
        ;
}

static int meet(const struct visit *visit, struct gp_stream *stream, uint64_t connected_ns,
                struct gp_handshake *handshake)
{
    if (agree_on_tls(visit, stream) != 0)
        return -1;
    uint64_t agreed_ns = gp_clock_now_ns();
    if (stream->tls) {
        handshake->tls_ns = agreed_ns - connected_ns;
        gp_stream_tls_bytes(stream, &handshake->sent, &handshake->received);
    }
    handshake->resumed = gp_stream_resumed(stream);
    say(stream, GP_GREETING_HELLO, sizeof GP_GREETING_HELLO);
    int heard = hear(visit, stream);
    if (heard > 0) {
        handshake->settings_ns = gp_clock_now_ns() - agreed_ns;
        part(stream);
    }
    return heard < 0 ? -1 : 0;
}

int gp_handshake(const struct gp_endpoint *to, struct gp_tls *tls, const struct gp_wait *wait,
                 struct gp_handshake *handshake, struct gp_error *err)
{
    uint64_t start_ns = gp_clock_now_ns(), most_ns = UINT64_MAX - start_ns;
    const struct visit visit = {
        .wait = wait,
        .deadline_ns = start_ns + (wait->timeout_ns < most_ns ? wait->timeout_ns : most_ns),
        .err = err,
    };
    struct gp_stream stream;
    int fd = -1;

    *handshake = (struct gp_handshake){0};
    if (connect_to(&visit, to, &fd) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    uint64_t connected_ns = gp_clock_now_ns();
    handshake->connect_ns = connected_ns - start_ns;
    if (gp_stream_init(&stream, fd, tls, err) != 0)
        return -1;
    int status = meet(&visit, &stream, connected_ns, handshake);
    gp_stream_close(&stream);
    return status;
}
