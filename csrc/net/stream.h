/* One connection as a stream of bytes that is nonblocking, in plaintext or in TLS: a small table of functions
 * with two implementations.
 *
 *   init  handshake*  ( read | write )*  close
 */
#ifndef GP_NET_STREAM_H
#define GP_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/socket.h"

struct gp_error;
struct gp_stream;
struct gp_tls;

struct gp_stream_ops {
    enum gp_io (*handshake)(struct gp_stream *stream, struct gp_error *err);
    enum gp_io (*read)(struct gp_stream *stream, uint8_t *data, size_t size, size_t *got,
                       struct gp_error *err);
    enum gp_io (*write)(struct gp_stream *stream, const struct iovec *pieces, size_t count, size_t *written,
                        struct gp_error *err);
    bool (*blocked)(const struct gp_stream *stream);
    bool (*resumed)(const struct gp_stream *stream);
    void (*close)(struct gp_stream *stream);
};

struct gp_stream {
    const struct gp_stream_ops *ops; /* NULL when closed */
    int fd;
    struct gp_stream_tls *tls; /* NULL in plaintext */
};

/* Takes the connected descriptor, also when it fails. `tls` NULL: plaintext. */
int gp_stream_init(struct gp_stream *stream, int fd, struct gp_tls *tls, struct gp_error *err);

/* OK: bytes can pass. AGAIN: call again when the descriptor is readable (or writable, if blocked). ERROR: the
 * message is the cause alone ("its certificate expired on ..."), for the caller knows the address. */
static inline enum gp_io gp_stream_handshake(struct gp_stream *stream, struct gp_error *err)
{
    return stream->ops->handshake(stream, err);
}

/* OK: `size` bytes came and there may be more, which the descriptor does not tell. AGAIN: `*got` came, which
 * may be 0, and no more are there now. CLOSED: the end, after `*got`. ERROR as above. */
static inline enum gp_io gp_stream_read(struct gp_stream *stream, uint8_t *data, size_t size, size_t *got,
                                        struct gp_error *err)
{
    return stream->ops->read(stream, data, size, got, err);
}

/* OK: all of it is out. AGAIN: `*written` were taken, and it is to be called again (with nothing, if nothing
 * is left) when the descriptor is writable. After an ERROR there may still be something to read that tells
 * the cause. */
static inline enum gp_io gp_stream_write(struct gp_stream *stream, const struct iovec *pieces, size_t count,
                                         size_t *written, struct gp_error *err)
{
    return stream->ops->write(stream, pieces, count, written, err);
}

/* Whether a handshake that said AGAIN waits to write. */
static inline bool gp_stream_blocked(const struct gp_stream *stream)
{
    return stream->ops->blocked(stream);
}

/* Whether the handshake took up an earlier session. */
static inline bool gp_stream_resumed(const struct gp_stream *stream)
{
    return stream->ops->resumed(stream);
}

/* Of a stream in TLS: the bytes that its socket has carried so far. */
void gp_stream_tls_bytes(const struct gp_stream *stream, uint64_t *sent, uint64_t *received);

/* Says goodbye if that needs no waiting. Closing twice is fine. */
void gp_stream_close(struct gp_stream *stream);

extern const struct gp_stream_ops gp_stream_tls_ops; /* for gp_stream_init alone */
int gp_stream_tls_init(struct gp_stream *stream, struct gp_tls *tls, struct gp_error *err);

#endif
