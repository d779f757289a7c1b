/* stream: the plaintext implementation, and which one a stream has. */
#include "net/stream.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"

static enum gp_io handshake(struct gp_stream *stream, struct gp_error *err)
{
    return GP_IO_OK;
}

static enum gp_io failed(struct gp_error *err)
{
    int saved = errno;
    char buffer[128];

    gp_error_set(err, GP_ERROR_CONNECT, "%s", gp_socket_cause(saved, buffer, sizeof buffer));
    if (err)
        err->os_errno = saved;
    return GP_IO_ERROR;
}

/* A read that comes short has emptied the socket, and need not be told so by another call. */
static enum gp_io read_some(struct gp_stream *stream, uint8_t *data, size_t size, size_t *got,
                            struct gp_error *err)
{
    enum gp_io io = gp_socket_read(stream->fd, data, size, got);

    if (io == GP_IO_ERROR)
        return failed(err);
    return io == GP_IO_OK && *got < size ? GP_IO_AGAIN : io;
}

static enum gp_io write_some(struct gp_stream *stream, const struct iovec *pieces, size_t count,
                             size_t *written, struct gp_error *err)
{
    size_t wanted = 0;
    enum gp_io io;

    *written = 0;
    if (count == 0)
        return GP_IO_OK;
    for (size_t i = 0; i < count; i++)
        wanted += pieces[i].iov_len;
    io = gp_socket_write(stream->fd, pieces, count, written);
    if (io == GP_IO_ERROR)
        return failed(err);
    return io == GP_IO_OK && *written < wanted ? GP_IO_AGAIN : io;
}

static bool no(const struct gp_stream *stream)
{
    return false;
}

static void close_plain(struct gp_stream *stream)
{
    close(stream->fd);
}

static const struct gp_stream_ops plain = {
    .handshake = handshake,
    .read = read_some,
    .write = write_some,
    .blocked = no,
    .resumed = no,
    .close = close_plain,
};

int gp_stream_init(struct gp_stream *stream, int fd, struct gp_tls *tls, struct gp_error *err)
{
    *stream = (struct gp_stream){.ops = &plain, .fd = fd};
    if (!tls)
        return 0;
    if (gp_stream_tls_init(stream, tls, err) == 0)
        return 0;
    gp_stream_close(stream);
    return -1;
}

void gp_stream_close(struct gp_stream *stream)
{
    if (stream->ops)
        stream->ops->close(stream);
    *stream = (struct gp_stream){.fd = -1};
}
