/* Tests of net/stream in both implementations: bytes arrive whole and in order, whatever the pieces; a full
 * socket is waited for; ends are told; sessions are resumed. */
#include "net/stream.h"

#include <stdlib.h>

#include "base/clock.h"
#include "scripted_peer.h"
#include "stream_fixture.h"
#include "tls_peer.h"

static struct gp_certificate identity;

static struct gp_tls *make_tls(bool resume, enum gp_tls_version version)
{
    struct gp_tls_opts opts = {.ca = identity.cert,
                               .verify = true,
                               .resume = resume,
                               .min_version = version,
                               .max_version = version};
    struct gp_tls *tls;
    struct gp_error err = {0};

    if (gp_tls_create(&tls, &opts, "localhost", &err) != 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(tls);
    return tls;
}

/* --- an echo over either sort of stream -------------------------------------------------------- */

struct echo {
    struct tls_peer tls;
    int plain_listener;
    pthread_t thread;
    struct gp_endpoint endpoint;
    struct gp_tls *client;
};

static void *echo_plain(void *argument)
{
    int listener = *(int *)argument, fd = accept(listener, NULL, NULL);
    char data[8192];
    ssize_t got;

    while ((got = recv(fd, data, sizeof data, 0)) > 0 && send(fd, data, (size_t)got, MSG_NOSIGNAL) == got)
        ;
    close(fd);
    return NULL;
}

static void echo_start(struct echo *echo, bool tls, enum gp_tls_version version)
{
    char address[64], target[80];

    *echo = (struct echo){.tls = {.identity = &identity, .alpn = "h2"}};
    if (tls) {
        tls_peer_start(&echo->tls);
        echo->endpoint = echo->tls.endpoint;
        echo->client = make_tls(false, version);
        return;
    }
    echo->plain_listener = listen_tcp(AF_INET, address, sizeof address);
    snprintf(target, sizeof target, "ipv4:%s", address);
    CHECK(gp_endpoint_parse(target, &echo->endpoint, NULL) == 0);
    CHECK(pthread_create(&echo->thread, NULL, echo_plain, &echo->plain_listener) == 0);
}

static void echo_stop(struct echo *echo)
{
    if (echo->client) {
        gp_tls_destroy(echo->client);
        tls_peer_stop(&echo->tls);
        return;
    }
    CHECK(pthread_join(echo->thread, NULL) == 0);
    close(echo->plain_listener);
}

/* --- bytes ------------------------------------------------------------------------------------- */

#define MUCH (3u << 20)

/* Drop what was written from the front of the pieces. */
static struct iovec *advance(struct iovec *pieces, size_t *count, size_t written)
{
    while (*count > 0 && written >= pieces->iov_len) {
        written -= pieces->iov_len;
        pieces++;
        (*count)--;
    }
    if (*count > 0) {
        pieces->iov_base = (char *)pieces->iov_base + written;
        pieces->iov_len -= written;
    } else {
        CHECK(written == 0);
    }
    return pieces;
}

static size_t cut(struct iovec *pieces, uint8_t *data, size_t size)
{
    static const size_t sizes[] = {1, 9, 0, 5, 16384, 70000, 16383, 3, 200000, 17};
    size_t count = 0, offset = 0;

    while (offset < size) {
        size_t part = sizes[count % (sizeof sizes / sizeof *sizes)];

        part = part < size - offset ? part : size - offset;
        pieces[count++] = (struct iovec){data + offset, part};
        offset += part;
    }
    return count;
}

/* Write all and read the echo of it meanwhile, as an echo has no room for all of it. */
static void exchange(struct gp_stream *stream, uint8_t *sent, uint8_t *came, size_t size)
{
    struct iovec storage[1000], *pieces = storage;
    size_t count = cut(storage, sent, size), sum = 0, got, written;
    bool writing = true;
    unsigned waits = 0;
    struct gp_error err = {0};

    while (writing || sum < size) {
        struct pollfd pollfd = {.fd = stream->fd, .events = (short)(POLLIN | (writing ? POLLOUT : 0))};
        enum gp_io io;

        CHECK(poll(&pollfd, 1, 10000) == 1 && waits++ < 1000000);
        if (writing && pollfd.revents & POLLOUT) {
            size_t few = count < 8 ? count : 8;

            io = gp_stream_write(stream, pieces, few, &written, &err);
            CHECK(io == GP_IO_OK || io == GP_IO_AGAIN);
            pieces = advance(pieces, &count, written);
            writing = count > 0 || io == GP_IO_AGAIN;
        }
        if (pollfd.revents & POLLIN) {
            io = gp_stream_read(stream, came + sum, size - sum, &got, &err);
            CHECK(io == GP_IO_OK || io == GP_IO_AGAIN);
            CHECK(io == GP_IO_AGAIN || sum + got == size);
            sum += got;
        }
    }
}

static void bytes_come_back_as_they_went(bool tls, enum gp_tls_version version)
{
    uint8_t *sent = malloc(MUCH), *came = malloc(MUCH);
    struct gp_error err = {0};
    struct gp_stream stream;
    struct echo echo;
    uint8_t byte;
    size_t got;

    for (size_t i = 0; i < MUCH; i++)
        sent[i] = (uint8_t)(i * 2654435761u >> 13);
    echo_start(&echo, tls, version);
    CHECK(open_stream(&stream, &echo.endpoint, echo.client, &err) == GP_IO_OK);
    CHECK(gp_stream_read(&stream, &byte, 1, &got, &err) == GP_IO_AGAIN && got == 0);
    CHECK(gp_stream_write(&stream, NULL, 0, &got, &err) == GP_IO_OK && got == 0);
    exchange(&stream, sent, came, 7);
    exchange(&stream, sent, came, MUCH);
    CHECK(memcmp(sent, came, MUCH) == 0);
    CHECK(!gp_stream_resumed(&stream) && !gp_stream_blocked(&stream));
    gp_stream_close(&stream);
    CHECK(stream.fd == -1);
    echo_stop(&echo);
    free(sent);
    free(came);
}

/* Not what the kernel would let them grow to, which is anything up to tcp_rmem: that has no bound worth
 * testing. A listener's are those of its connections. */
static void small_buffers(int fd)
{
    const int bytes = 128 << 10;

    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
}

/* A peer that never reads: a bounded number of bytes is taken, and then none. */
static void a_full_peer_stops_the_writing(bool tls)
{
    uint8_t *data = calloc(1, 1 << 20);
    struct iovec piece = {data, 1 << 20};
    struct gp_error err = {0};
    struct gp_stream stream;
    struct echo echo;
    size_t written, sum = 0;
    unsigned full = 0;
    enum gp_io io;

    echo_start(&echo, tls, GP_TLS_ANY);
    small_buffers(tls ? echo.tls.listener : echo.plain_listener);
    CHECK(open_stream(&stream, &echo.endpoint, echo.client, &err) == GP_IO_OK);
    small_buffers(stream.fd);
    while (full < 10 && sum < (8u << 20)) { /* the echo stops reading when nobody takes its answers */
        io = gp_stream_write(&stream, &piece, 1, &written, &err);
        CHECK(io == GP_IO_OK || io == GP_IO_AGAIN);
        full = written > 0 ? 0 : full + 1;
        sum += written;
        usleep(10000);
    }
    CHECK(full == 10 && sum > 0);
    CHECK(gp_stream_blocked(&stream) == tls); /* what was encrypted has to wait too */
    gp_stream_close(&stream);
    echo_stop(&echo);
    free(data);
}

/* --- ends -------------------------------------------------------------------------------------- */

static void the_end_comes_after_the_last_byte(bool tls, bool abrupt)
{
    struct peer plain = {.says = "the end", .size = 7, .reads = 1};
    struct tls_peer peer = {
        .identity = &identity, .alpn = "h2", .abrupt = abrupt, .echoes = 1, .says = "the end", .size = 7};
    const struct iovec byte = {(void *)"x", 1};
    struct gp_tls *client = tls ? make_tls(false, GP_TLS_ANY) : NULL;
    struct gp_error err = {0};
    struct gp_endpoint to;
    struct gp_stream stream;
    uint8_t data[64];
    size_t got;
    char target[200];

    if (tls) {
        tls_peer_start(&peer);
        to = peer.endpoint;
    } else {
        start_peer(&plain);
        snprintf(target, sizeof target, "ipv4:%s", plain.address);
        CHECK(gp_endpoint_parse(target, &to, NULL) == 0);
    }
    CHECK(open_stream(&stream, &to, client, &err) == GP_IO_OK);
    CHECK(gp_stream_write(&stream, &byte, 1, &got, &err) == GP_IO_OK && got == 1);
    CHECK(read_exactly(&stream, data, 7, &got, &err) == GP_IO_OK && memcmp(data, "the end", 7) == 0);
    if (tls)
        CHECK(read_exactly(&stream, data, 1, &got, &err) == GP_IO_OK && data[0] == 'x');
    CHECK(read_exactly(&stream, data, sizeof data, &got, &err) == GP_IO_CLOSED && got == 0);
    gp_stream_close(&stream);
    gp_tls_destroy(client);
    if (tls)
        tls_peer_stop(&peer);
    else
        stop_peer(&plain);
}

static void a_reset_is_named(void)
{
    struct peer peer = {.reads = 1, .reset = true};
    const struct iovec byte = {(void *)"x", 1};
    struct gp_error err = {0};
    struct gp_endpoint to;
    struct gp_stream stream;
    char target[200];
    uint8_t data[8];
    size_t got;

    start_peer(&peer);
    snprintf(target, sizeof target, "ipv4:%s", peer.address);
    CHECK(gp_endpoint_parse(target, &to, NULL) == 0);
    CHECK(open_stream(&stream, &to, NULL, &err) == GP_IO_OK);
    CHECK(gp_stream_write(&stream, &byte, 1, &got, &err) == GP_IO_OK);
    CHECK(read_exactly(&stream, data, 8, &got, &err) == GP_IO_ERROR);
    CHECK(strcmp(err.message, "connection reset by the peer") == 0 && err.os_errno == ECONNRESET);
    CHECK(gp_stream_write(&stream, &byte, 1, &got, &err) == GP_IO_ERROR && got == 0);
    gp_stream_close(&stream);
    stop_peer(&peer);
}

/* --- sessions ---------------------------------------------------------------------------------- */

static int connect_often(enum gp_tls_version version, bool resume, bool renews, unsigned times)
{
    struct tls_peer peer = {.identity = &identity, .alpn = "h2", .says = "hi", .size = 2, .renews = renews};
    struct gp_tls *tls = make_tls(resume, version);
    struct gp_error err = {0};
    struct gp_stream stream;
    uint8_t data[2];
    size_t got;
    int resumed = 0;

    tls_peer_start(&peer);
    for (unsigned i = 0; i < times; i++) {
        CHECK(open_stream(&stream, &peer.endpoint, tls, &err) == GP_IO_OK);
        CHECK(read_exactly(&stream, data, 2, &got, &err) == GP_IO_OK); /* tickets of 1.3 come before it */
        resumed += gp_stream_resumed(&stream);
        gp_stream_close(&stream);
    }
    tls_peer_stop(&peer);
    CHECK(peer.established == (int)times && peer.resumed == resumed);
    gp_tls_destroy(tls);
    return resumed;
}

static void sessions_are_resumed_when_asked_for(void)
{
    CHECK(connect_often(GP_TLS_1_2, true, false, 5) == 4);
    CHECK(connect_often(GP_TLS_1_3, true, false, 5) == 4);
    CHECK(connect_often(GP_TLS_1_2, true, true, 5) == 4);
    CHECK(connect_often(GP_TLS_1_2, false, false, 3) == 0);
    CHECK(connect_often(GP_TLS_1_3, false, false, 3) == 0);
}

/* A connection that ended badly does not spoil the session for the next. */
static void a_broken_connection_leaves_its_session(bool reset)
{
    struct tls_peer peer = {
        .identity = &identity, .alpn = "h2", .says = "hi", .size = 2, .abrupt = true, .echoes = 1};
    struct gp_tls *tls = make_tls(true, GP_TLS_ANY);
    const struct iovec byte = {(void *)"x", 1};
    struct gp_error err = {0};
    struct gp_stream stream;
    uint8_t data[8];
    size_t got;

    peer.reset = reset;
    tls_peer_start(&peer);
    CHECK(open_stream(&stream, &peer.endpoint, tls, &err) == GP_IO_OK);
    CHECK(read_exactly(&stream, data, 2, &got, &err) == GP_IO_OK);
    CHECK(gp_stream_write(&stream, &byte, 1, &got, &err) == GP_IO_OK);
    CHECK(read_exactly(&stream, data, 8, &got, &err) == (reset ? GP_IO_ERROR : GP_IO_CLOSED) && got == 1);
    gp_stream_close(&stream);
    CHECK(open_stream(&stream, &peer.endpoint, tls, &err) == GP_IO_OK && gp_stream_resumed(&stream));
    gp_stream_close(&stream);
    tls_peer_stop(&peer);
    gp_tls_destroy(tls);
}

int main(void)
{
    identity = local_certificate(NULL);
    bytes_come_back_as_they_went(false, GP_TLS_ANY);
    bytes_come_back_as_they_went(true, GP_TLS_1_2);
    bytes_come_back_as_they_went(true, GP_TLS_1_3);
    a_full_peer_stops_the_writing(false);
    a_full_peer_stops_the_writing(true);
    the_end_comes_after_the_last_byte(false, false);
    the_end_comes_after_the_last_byte(true, false);
    the_end_comes_after_the_last_byte(true, true);
    a_reset_is_named();
    sessions_are_resumed_when_asked_for();
    a_broken_connection_leaves_its_session(false);
    a_broken_connection_leaves_its_session(true);
    gp_certificate_fini(&identity);
    return 0;
}
