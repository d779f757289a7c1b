/* What the tests of streams share: one that is connected and greeted, waiting included. */
#ifndef GP_TESTS_STREAM_FIXTURE_H
#define GP_TESTS_STREAM_FIXTURE_H

#include <poll.h>

#include "base/error.h"
#include "check.h"
#include "net/stream.h"
#include "net/tls.h"

static inline void wait_fd(int fd, short events)
{
    struct pollfd pollfd = {.fd = fd, .events = events};

    CHECK(poll(&pollfd, 1, 10000) == 1);
}

static inline int connect_fd(const struct gp_endpoint *to)
{
    int fd;
    enum gp_io io = gp_socket_connect(to, NULL, &fd);

    CHECK(fd >= 0);
    if (io == GP_IO_AGAIN) {
        wait_fd(fd, POLLOUT);
        io = gp_socket_finish(fd);
    }
    CHECK(io == GP_IO_OK);
    return fd;
}

/* OK or ERROR. */
static inline enum gp_io greet(struct gp_stream *stream, struct gp_error *err)
{
    enum gp_io io;

    while ((io = gp_stream_handshake(stream, err)) == GP_IO_AGAIN)
        wait_fd(stream->fd, gp_stream_blocked(stream) ? POLLOUT : POLLIN);
    return io;
}

static inline enum gp_io open_stream(struct gp_stream *stream, const struct gp_endpoint *to,
                                     struct gp_tls *tls, struct gp_error *err)
{
    CHECK(gp_stream_init(stream, connect_fd(to), tls, err) == 0);
    return greet(stream, err);
}

/* Read until `size` bytes are there or the stream has ended. */
static inline enum gp_io read_exactly(struct gp_stream *stream, uint8_t *data, size_t size, size_t *sum,
                                      struct gp_error *err)
{
    *sum = 0;
    while (*sum < size) {
        size_t got;
        enum gp_io io = gp_stream_read(stream, data + *sum, size - *sum, &got, err);

        *sum += got;
        if (io == GP_IO_CLOSED || io == GP_IO_ERROR)
            return io;
        if (io == GP_IO_AGAIN && *sum < size)
            wait_fd(stream->fd, POLLIN);
    }
    return GP_IO_OK;
}

#endif
