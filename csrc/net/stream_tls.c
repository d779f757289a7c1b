/* stream_tls: the TLS implementation of a stream. OpenSSL reads from the socket and writes into a buffer, so
 * that many records go out in one system call and encrypting never has to stop half way. */
#include "net/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/error.h"
#include "net/tls_shared.h"

#define SEND_BYTES (64u << 10) /* encrypted at a time, before they are sent */

struct gp_stream_tls {
    SSL *ssl;
    struct gp_tls *shared;
    int fd;
    int os_errno;            /* what ended the socket */
    uint64_t sent, received; /* bytes that the socket has carried */
    bool ended;              /* the peer has closed the socket */
    bool drained;            /* the socket was found empty during this call */
    bool established;        /* the handshake is through */
    bool broken;             /* there is nobody left to say goodbye to */
    struct gp_bytes pending; /* encrypted, and not taken by the socket */
};

/* --- OpenSSL's way to the socket --------------------------------------------------------------- */

static int bio_read(BIO *bio, char *data, int size)
{
    struct gp_stream_tls *tls = BIO_get_data(bio);
    enum gp_io io = GP_IO_AGAIN;
    size_t got = 0;

    BIO_clear_retry_flags(bio);
    if (!tls->drained)
        io = gp_socket_read(tls->fd, data, (size_t)size, &got);
    tls->drained = got < (size_t)size;
    tls->received += got;
    switch (io) {
    case GP_IO_OK:
        return (int)got;
    case GP_IO_AGAIN:
        BIO_set_retry_read(bio);
        return -1;
    case GP_IO_CLOSED:
        tls->ended = true;
        return 0;
    case GP_IO_ERROR:
        tls->os_errno = errno;
        return -1;
    }
    return -1;
}

static int bio_write(BIO *bio, const char *data, int size)
{
    struct gp_stream_tls *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    return gp_bytes_append(&tls->shared->out, data, (size_t)size) == 0 ? size : -1;
}

static long bio_control(BIO *bio, int command, long number, void *argument)
{
    const struct gp_stream_tls *tls = BIO_get_data(bio);

    if (command == BIO_CTRL_EOF)
        return tls->ended;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int make_method(struct gp_tls *shared)
{
    if (shared->bio)
        return 0;
    shared->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    if (!shared->bio)
        return -1;
    BIO_meth_set_read(shared->bio, bio_read);
    BIO_meth_set_write(shared->bio, bio_write);
    BIO_meth_set_ctrl(shared->bio, bio_control);
    return 0;
}

/* --- sending what was encrypted ---------------------------------------------------------------- */

static enum gp_io send_bytes(struct gp_stream_tls *tls, struct gp_bytes *bytes)
{
    while (gp_bytes_length(bytes) > 0) {
        struct iovec piece = {.iov_base = bytes->data + bytes->start, .iov_len = gp_bytes_length(bytes)};
        size_t written;
        enum gp_io io = gp_socket_write(tls->fd, &piece, 1, &written);

        if (io == GP_IO_ERROR)
            tls->os_errno = errno;
        if (io != GP_IO_OK)
            return io;
        gp_bytes_take(bytes, written);
        tls->sent += written;
    }
    return GP_IO_OK;
}

/* What the socket does not take is kept with the stream: the shared buffer is empty afterwards. */
static enum gp_io flush(struct gp_stream_tls *tls)
{
    struct gp_bytes *out = &tls->shared->out;
    enum gp_io io = send_bytes(tls, &tls->pending);

    if (io == GP_IO_OK)
        io = send_bytes(tls, out);
    if (io == GP_IO_AGAIN && gp_bytes_append(&tls->pending, gp_bytes_front(out), gp_bytes_length(out)) != 0) {
        tls->os_errno = ENOMEM;
        io = GP_IO_ERROR;
    }
    gp_bytes_clear(out);
    if (io != GP_IO_AGAIN)
        gp_bytes_fini(&tls->pending);
    return io;
}

/* --- words ------------------------------------------------------------------------------------- */

/* `wants` is what SSL_get_error said. What the peer says in TLS tells more than how its socket ended. */
static enum gp_io failed(struct gp_stream_tls *tls, int wants, struct gp_error *err)
{
    char buffer[400];
    const char *cause = buffer;
    int os_errno = 0;

    if (wants == SSL_ERROR_SSL && !tls->ended) {
        gp_tls_cause(tls->shared, buffer, sizeof buffer);
    } else if (tls->os_errno != 0) {
        os_errno = tls->os_errno;
        cause = gp_socket_cause(os_errno, buffer, sizeof buffer);
    } else {
        cause = tls->established ? "the peer closed the connection"
                                 : "the connection was closed in the TLS handshake (a plaintext server?)";
    }
    ERR_clear_error();
    tls->broken = true;
    gp_error_set(err, GP_ERROR_CONNECT, "%s", cause);
    if (err)
        err->os_errno = os_errno;
    return GP_IO_ERROR;
}

/* --- the table --------------------------------------------------------------------------------- */

static enum gp_io check_alpn(struct gp_stream_tls *tls, struct gp_error *err)
{
    const unsigned char *chosen;
    unsigned length;

    SSL_get0_alpn_selected(tls->ssl, &chosen, &length);
    if (tls->shared->without_alpn || (length == 2 && memcmp(chosen, "h2", 2) == 0)) {
        tls->established = true;
        return GP_IO_OK;
    }
    gp_error_set(err, GP_ERROR_CONNECT, "the server speaks TLS but did not agree on HTTP/2 (no ALPN \"h2\")");
    return GP_IO_ERROR;
}

/* A server may renew the ticket as it takes up a session of TLS 1.2. OpenSSL then forbids the old session,
 * and calls nobody for the new one. */
static void keep_renewed(struct gp_stream_tls *tls)
{
    struct gp_tls *shared = tls->shared;

    if (!shared->resume || SSL_version(tls->ssl) != TLS1_2_VERSION || !SSL_session_reused(tls->ssl))
        return;
    SSL_SESSION_free(shared->session);
    shared->session = SSL_get1_session(tls->ssl);
}

static enum gp_io handshake(struct gp_stream *stream, struct gp_error *err)
{
    struct gp_stream_tls *tls = stream->tls;
    enum gp_io sent;
    int done, wants;

    ERR_clear_error();
    tls->drained = false;
    tls->shared->refused[0] = '\0';
    done = SSL_do_handshake(tls->ssl);
    wants = SSL_get_error(tls->ssl, done);
    if (done != 1 && wants != SSL_ERROR_WANT_READ) {
        enum gp_io failure = failed(tls, wants, err);
        flush(tls); /* the alert, which tells the server why */
        return failure;
    }
    sent = flush(tls);
    if (sent == GP_IO_ERROR)
        return failed(tls, SSL_ERROR_SYSCALL, err);
    if (done != 1 || sent == GP_IO_AGAIN)
        return GP_IO_AGAIN;
    keep_renewed(tls);
    return check_alpn(tls, err);
}

/* A peer that closes the socket without a word of TLS is taken at its word: HTTP/2 knows whether something is
 * missing. */
static enum gp_io end_of_reading(struct gp_stream_tls *tls, int wants, struct gp_error *err)
{
    if (wants == SSL_ERROR_WANT_READ)
        return GP_IO_AGAIN;
    if (wants == SSL_ERROR_ZERO_RETURN)
        return GP_IO_CLOSED;
    if (tls->ended) {
        ERR_clear_error();
        tls->broken = true;
        return GP_IO_CLOSED;
    }
    return failed(tls, wants, err);
}

static enum gp_io read_some(struct gp_stream *stream, uint8_t *data, size_t size, size_t *got,
                            struct gp_error *err)
{
    struct gp_stream_tls *tls = stream->tls;
    enum gp_io io = GP_IO_OK;
    size_t part;

    ERR_clear_error();
    tls->drained = false;
    *got = 0;
    while (*got < size && io == GP_IO_OK) {
        if (SSL_read_ex(tls->ssl, data + *got, size - *got, &part) == 1)
            *got += part;
        else
            io = end_of_reading(tls, SSL_get_error(tls->ssl, 0), err);
    }
    if (gp_bytes_length(&tls->shared->out) > 0)
        flush(tls); /* an answer to a key update; if that fails, so will the next write */
    return io;
}

/* The next bytes to be encrypted as one record: of a large piece in place, of small ones put together. */
struct cursor {
    const struct iovec *pieces;
    size_t count, offset; /* into the first piece */
};

static size_t next_record(struct cursor *from, uint8_t *block, const uint8_t **data)
{
    size_t size = 0;

    while (from->count > 0) {
        const uint8_t *start = (const uint8_t *)from->pieces->iov_base + from->offset;
        size_t left = from->pieces->iov_len - from->offset;
        size_t part = left < GP_TLS_RECORD - size ? left : GP_TLS_RECORD - size;

        if (size == 0 && part == GP_TLS_RECORD) {
            from->offset += part;
            *data = start;
            return part;
        }
        if (part > 0)
            memcpy(block + size, start, part);
        size += part;
        from->offset += part;
        if (part < left)
            break;
        from->pieces++;
        from->count--;
        from->offset = 0;
    }
    *data = block;
    return size;
}

static enum gp_io write_some(struct gp_stream *stream, const struct iovec *pieces, size_t count,
                             size_t *written, struct gp_error *err)
{
    struct gp_stream_tls *tls = stream->tls;
    struct cursor from = {.pieces = pieces, .count = count};
    enum gp_io io;
    const uint8_t *data;
    size_t size, taken;

    ERR_clear_error();
    *written = 0;
    io = flush(tls);
    while (io == GP_IO_OK && (size = next_record(&from, tls->shared->block, &data)) > 0) {
        if (SSL_write_ex(tls->ssl, data, size, &taken) != 1)
            return failed(tls, SSL_get_error(tls->ssl, 0), err);
        *written += taken;
        if (gp_bytes_length(&tls->shared->out) >= SEND_BYTES)
            io = flush(tls);
    }
    if (io == GP_IO_OK)
        io = flush(tls);
    return io == GP_IO_ERROR ? failed(tls, SSL_ERROR_SYSCALL, err) : io;
}

static bool blocked(const struct gp_stream *stream)
{
    return gp_bytes_length(&stream->tls->pending) > 0;
}

static bool resumed(const struct gp_stream *stream)
{
    return SSL_session_reused(stream->tls->ssl);
}

void gp_stream_tls_bytes(const struct gp_stream *stream, uint64_t *sent, uint64_t *received)
{
    *sent = stream->tls->sent;
    *received = stream->tls->received;
}

/* A session whose connection ended badly would be marked as one not to resume; the ticket is good all the
 * same. */
static void close_tls(struct gp_stream *stream)
{
    struct gp_stream_tls *tls = stream->tls;

    ERR_clear_error();
    if (tls->established && !tls->broken && gp_bytes_length(&tls->pending) == 0) {
        SSL_shutdown(tls->ssl);
        flush(tls);
    }
    SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(tls->ssl);
    ERR_clear_error();
    gp_bytes_fini(&tls->pending);
    close(stream->fd);
    free(tls);
}

const struct gp_stream_ops gp_stream_tls_ops = {
    .handshake = handshake,
    .read = read_some,
    .write = write_some,
    .blocked = blocked,
    .resumed = resumed,
    .close = close_tls,
};

static int no_memory(struct gp_error *err)
{
    ERR_clear_error();
    return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a TLS connection");
}

int gp_stream_tls_init(struct gp_stream *stream, struct gp_tls *shared, struct gp_error *err)
{
    struct gp_stream_tls *tls = calloc(1, sizeof *tls);
    BIO *bio = tls && make_method(shared) == 0 ? BIO_new(shared->bio) : NULL;
    SSL *ssl = bio ? SSL_new(shared->context) : NULL;

    if (!ssl) {
        BIO_free(bio);
        free(tls);
        return no_memory(err);
    }
    *tls = (struct gp_stream_tls){.ssl = ssl, .shared = shared, .fd = stream->fd};
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_connect_state(ssl);
    if (!shared->is_ip && shared->name[0])
        SSL_set_tlsext_host_name(ssl, shared->name);
    if (shared->session)
        SSL_set_session(ssl, shared->session);
    stream->ops = &gp_stream_tls_ops;
    stream->tls = tls;
    return 0;
}
