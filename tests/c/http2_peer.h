/* An HTTP/2 server for tests of clients, on a thread of its own, that answers unary calls, and misbehaves as
 * it was told to. Frames are made by hand; whatever the client's header blocks say is not looked at.
 *
 *   struct http2_peer peer = {.goaway_after = 100};      what it is to do
 *   http2_peer_start(&peer);  ... peer.target ...  http2_peer_stop(&peer);
 */
#ifndef GP_TESTS_HTTP2_PEER_H
#define GP_TESTS_HTTP2_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "check.h"
#include "wire/frame.h"

#define HTTP2_PEER_CONNECTIONS 300

/* When a connection is closed by the peer. */
enum http2_peer_end {
    END_NEVER,
    END_AT_ONCE,        /* as soon as it is accepted */
    END_AFTER_PREFACE,  /* when the client has spoken, without a word */
    END_AFTER_SETTINGS, /* when the client's SETTINGS have been answered */
    END_AFTER_REQUESTS, /* when `end_after` requests have come */
    END_IN_ANSWER,      /* likewise, in the middle of an answer */
};

struct http2_peer_connection {
    int fd;
    struct gp_bytes in, out;
    bool greeted;      /* its preface has come */
    bool settled;      /* and SETTINGS were sent */
    unsigned requests; /* on this connection */
    bool leaving;      /* GOAWAY was sent */
    uint32_t last;     /* stream that GOAWAY named */
    bool ended;        /* to be closed once `out` is */
};

struct http2_peer {
    int family; /* AF_INET (0 too), AF_INET6, AF_UNIX */
    /* What it does. */
    enum http2_peer_end end;
    unsigned end_after;
    bool reset;            /* close by RST */
    unsigned bad;          /* so many connections meet such an end, those after them a good peer; 0: all */
    unsigned goaway_after; /* requests on a connection, then GOAWAY; 0: never */
    bool goaway_refuses;   /* that request and those after it are above its last id, and are not begun */
    bool goaway_at_once;   /* behind the SETTINGS */
    unsigned refuses;      /* the first so many requests on each connection get REFUSED_STREAM */
    atomic_bool silent;    /* no SETTINGS */
    bool mute;             /* SETTINGS, but no answers */
    bool deaf;             /* SETTINGS, and then it does not read */
    bool wide;             /* windows so wide that only the socket holds the client back */
    bool parts;            /* says GOAWAY and resets its connections when it is stopped */
    uint32_t max_streams;  /* MAX_CONCURRENT_STREAMS; 0: none sent */
    const char *says;      /* raw bytes instead of SETTINGS */
    size_t says_size;
    bool talks_first;     /* says them as soon as somebody is there */
    const char *trailers; /* a header block instead of grpc-status 0 */
    size_t trailers_size;

    char target[160], path[108];
    unsigned port;
    atomic_uint accepted, live, requests, resets, ended;
    atomic_bool paused; /* it does nothing at all */
    int listener, wake;
    pthread_t thread;
    atomic_bool leave;
    struct http2_peer_connection connections[HTTP2_PEER_CONNECTIONS];
    unsigned count;
};

/* --- what it says ------------------------------------------------------------------------------ */

static inline void h2_put(struct gp_bytes *out, uint8_t type, uint8_t flags, uint32_t stream,
                          const void *payload, size_t size)
{
    uint8_t head[GP_FRAME_HEADER_BYTES];

    gp_frame_write(head, (struct gp_frame){(uint32_t)size, stream, type, flags});
    CHECK(gp_bytes_append(out, head, sizeof head) == 0);
    CHECK(size == 0 || gp_bytes_append(out, payload, size) == 0);
}

static inline void h2_put_u32(struct gp_bytes *out, uint8_t type, uint32_t stream, uint32_t value)
{
    uint8_t payload[4];

    gp_put_u32(payload, value);
    h2_put(out, type, 0, stream, payload, 4);
}

static inline void h2_put_settings(struct http2_peer *peer, struct http2_peer_connection *connection)
{
    uint8_t payload[6] = {0, GP_SETTING_MAX_CONCURRENT_STREAMS};

    connection->settled = true;
    gp_put_u32(payload + 2, peer->max_streams);
    if (peer->wide) {
        payload[1] = GP_SETTING_INITIAL_WINDOW_SIZE;
        gp_put_u32(payload + 2, GP_FRAME_MAX_WINDOW);
    }
    h2_put(&connection->out, GP_FRAME_SETTINGS, 0, 0, payload, peer->max_streams || peer->wide ? 6 : 0);
    if (peer->wide)
        h2_put_u32(&connection->out, GP_FRAME_WINDOW_UPDATE, 0,
                   GP_FRAME_MAX_WINDOW - GP_FRAME_DEFAULT_WINDOW);
}

static inline void h2_put_goaway(struct http2_peer_connection *connection, uint32_t last)
{
    uint8_t payload[8 + 9];

    connection->leaving = true;
    connection->last = last;
    gp_put_u32(payload, last);
    gp_put_u32(payload + 4, GP_H2_NO_ERROR);
    memcpy(payload + 8, "max age  ", 9);
    h2_put(&connection->out, GP_FRAME_GOAWAY, 0, 0, payload, 8 + 7);
}

/* :status 200 (static entry 8), content-type: application/grpc, both leaving the table alone. */
static const char h2_head[] = "\x88\x0f\x10\x10"
                              "application/grpc";
static const char h2_status_ok[] = "\x00\x0bgrpc-status\x01"
                                   "0";

static inline void h2_put_answer(struct http2_peer *peer, struct http2_peer_connection *connection,
                                 uint32_t stream)
{
    static const uint8_t message[5 + 2] = {0, 0, 0, 0, 2, 'h', 'i'};
    struct gp_bytes *out = &connection->out;

    h2_put(out, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS, stream, h2_head, sizeof h2_head - 1);
    if (peer->trailers)
        h2_put(out, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM, stream, peer->trailers,
               peer->trailers_size);
    if (peer->trailers)
        return;
    h2_put(out, GP_FRAME_DATA, 0, stream, message, sizeof message);
    h2_put(out, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM, stream, h2_status_ok,
           sizeof h2_status_ok - 1);
}

/* --- what it does ------------------------------------------------------------------------------ */

static inline bool h2_is_bad(const struct http2_peer *peer)
{
    return peer->bad == 0 || peer->ended < peer->bad;
}

static inline void h2_end(struct http2_peer *peer, struct http2_peer_connection *connection)
{
    if (!connection->ended)
        peer->ended++;
    connection->ended = true;
}

static inline void h2_on_request(struct http2_peer *peer, struct http2_peer_connection *connection,
                                 uint32_t stream)
{
    unsigned number = ++connection->requests;

    peer->requests++;
    if (connection->leaving && stream > connection->last)
        return;
    if (number <= peer->refuses) {
        h2_put_u32(&connection->out, GP_FRAME_RST_STREAM, stream, GP_H2_REFUSED_STREAM);
        return;
    }
    if (peer->end == END_AFTER_REQUESTS && number == peer->end_after && h2_is_bad(peer)) {
        h2_end(peer, connection);
        return;
    }
    bool last = peer->goaway_after && number == peer->goaway_after;
    if (!peer->mute && !(last && peer->goaway_refuses))
        h2_put_answer(peer, connection, stream);
    if (peer->end == END_IN_ANSWER && number == peer->end_after && h2_is_bad(peer)) {
        connection->out.end -= 20;
        h2_end(peer, connection);
    }
    if (last)
        h2_put_goaway(connection, peer->goaway_refuses ? stream - 2 : stream);
}

static inline void h2_on_frame(struct http2_peer *peer, struct http2_peer_connection *connection,
                               struct gp_frame frame, const uint8_t *payload)
{
    if (frame.type == GP_FRAME_SETTINGS && !(frame.flags & GP_FLAG_ACK)) {
        if (!peer->silent)
            h2_put(&connection->out, GP_FRAME_SETTINGS, GP_FLAG_ACK, 0, NULL, 0);
        if (peer->end == END_AFTER_SETTINGS && h2_is_bad(peer))
            h2_end(peer, connection);
    } else if (frame.type == GP_FRAME_PING && !(frame.flags & GP_FLAG_ACK)) {
        h2_put(&connection->out, GP_FRAME_PING, GP_FLAG_ACK, 0, payload, 8);
    } else if (frame.type == GP_FRAME_RST_STREAM) {
        peer->resets++;
    } else if (frame.type == GP_FRAME_DATA) {
        if (frame.length > 0 && !peer->wide)
            h2_put_u32(&connection->out, GP_FRAME_WINDOW_UPDATE, 0, frame.length);
        if (frame.flags & GP_FLAG_END_STREAM)
            h2_on_request(peer, connection, frame.stream_id);
    }
}

static inline void h2_on_preface(struct http2_peer *peer, struct http2_peer_connection *connection)
{
    connection->greeted = true;
    if (connection->ended)
        return;
    if (peer->end == END_AFTER_PREFACE && h2_is_bad(peer))
        h2_end(peer, connection);
    else if (peer->says)
        gp_bytes_append(&connection->out, peer->says, peer->says_size);
    else if (!peer->silent)
        h2_put_settings(peer, connection);
    if (peer->goaway_at_once)
        h2_put_goaway(connection, 0);
}

static inline void h2_understand(struct http2_peer *peer, struct http2_peer_connection *connection)
{
    struct gp_bytes *in = &connection->in;

    if (!connection->greeted) {
        if (gp_bytes_length(in) < GP_FRAME_PREFACE_BYTES)
            return;
        if (peer->talks_first) /* it is somebody else */
            return;
        CHECK(memcmp(gp_bytes_front(in), gp_frame_preface, GP_FRAME_PREFACE_BYTES) == 0);
        gp_bytes_take(in, GP_FRAME_PREFACE_BYTES);
        h2_on_preface(peer, connection);
    }
    while (gp_bytes_length(in) >= GP_FRAME_HEADER_BYTES && !connection->ended) {
        struct gp_frame frame = gp_frame_read(gp_bytes_front(in));

        if (gp_bytes_length(in) < GP_FRAME_HEADER_BYTES + frame.length)
            return;
        h2_on_frame(peer, connection, frame, gp_bytes_front(in) + GP_FRAME_HEADER_BYTES);
        gp_bytes_take(in, GP_FRAME_HEADER_BYTES + frame.length);
    }
}

/* --- its thread -------------------------------------------------------------------------------- */

static inline void h2_drop(struct http2_peer *peer, struct http2_peer_connection *connection)
{
    const struct linger abort_it = {.l_onoff = 1};

    if (peer->reset)
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    close(connection->fd);
    gp_bytes_fini(&connection->in);
    gp_bytes_fini(&connection->out);
    peer->live--;
    *connection = peer->connections[--peer->count];
}

static inline void h2_accept(struct http2_peer *peer)
{
    int fd = accept4(peer->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    CHECK(peer->count < HTTP2_PEER_CONNECTIONS);
    peer->connections[peer->count++] = (struct http2_peer_connection){.fd = fd};
    peer->accepted++;
    peer->live++;
    if (peer->talks_first)
        CHECK(send(fd, peer->says, peer->says_size, MSG_NOSIGNAL) > 0);
    if (peer->end == END_AT_ONCE && h2_is_bad(peer))
        h2_end(peer, &peer->connections[peer->count - 1]);
}

/* False: it is gone. */
static inline bool h2_serve(struct http2_peer *peer, struct http2_peer_connection *connection, short events)
{
    uint8_t data[16384];
    ssize_t got = events & (POLLIN | POLLHUP | POLLERR) ? recv(connection->fd, data, sizeof data, 0) : -1;

    if (got == 0 || (got < 0 && events & (POLLHUP | POLLERR)))
        return false;
    if (got > 0) {
        CHECK(gp_bytes_append(&connection->in, data, (size_t)got) == 0);
        h2_understand(peer, connection);
    }
    if (connection->greeted && !connection->settled && !connection->ended && !peer->silent && !peer->says)
        h2_put_settings(peer, connection);
    while (gp_bytes_length(&connection->out) > 0) {
        ssize_t sent = send(connection->fd, gp_bytes_front(&connection->out),
                            gp_bytes_length(&connection->out), MSG_NOSIGNAL);

        if (sent <= 0)
            return sent < 0 && errno == EAGAIN;
        gp_bytes_take(&connection->out, (size_t)sent);
    }
    return !connection->ended;
}

static inline void *h2_run(void *argument)
{
    struct http2_peer *peer = argument;
    struct pollfd fds[HTTP2_PEER_CONNECTIONS + 2];

    while (!peer->leave) {
        unsigned count = peer->paused ? 0 : peer->count;

        fds[0] = (struct pollfd){.fd = peer->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = peer->paused ? -1 : peer->listener, .events = POLLIN};
        for (unsigned i = 0; i < count; i++) {
            const struct http2_peer_connection *connection = &peer->connections[i];
            bool listens = !peer->deaf || !connection->greeted;

            fds[2 + i] = (struct pollfd){
                .fd = connection->fd,
                .events = (short)((listens ? POLLIN : 0) | (gp_bytes_length(&connection->out) ? POLLOUT : 0)),
            };
            if (connection->ended || (connection->greeted && !connection->settled && !peer->silent))
                fds[2 + i].events |= POLLOUT;
        }
        CHECK(poll(fds, 2 + count, 10) >= 0);
        for (unsigned i = count; i-- > 0;)
            if (fds[2 + i].revents && !h2_serve(peer, &peer->connections[i], fds[2 + i].revents))
                h2_drop(peer, &peer->connections[i]);
        if (fds[1].revents)
            h2_accept(peer);
    }
    return NULL;
}

static inline void h2_listen(struct http2_peer *peer)
{
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback, .sin6_port = htons((uint16_t)peer->port)};
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)peer->port)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr *address = (struct sockaddr *)&in;
    socklen_t size = sizeof in;
    int on = 1;

    peer->family = peer->family ? peer->family : AF_INET;
    if (peer->family == AF_INET6) {
        address = (struct sockaddr *)&in6;
        size = sizeof in6;
    } else if (peer->family == AF_UNIX) {
        snprintf(peer->path, sizeof peer->path, "/tmp/gp-peer-%d-%p", (int)getpid(), (void *)peer);
        strcpy(un.sun_path, peer->path);
        address = (struct sockaddr *)&un;
        size = sizeof un;
    }
    peer->listener = socket(peer->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(peer->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK(bind(peer->listener, address, size) == 0 && listen(peer->listener, 256) == 0);
    CHECK(getsockname(peer->listener, address, &size) == 0);
    peer->port = ntohs(peer->family == AF_INET6 ? in6.sin6_port : peer->family == AF_INET ? in.sin_port : 0);
    if (peer->family == AF_UNIX)
        snprintf(peer->target, sizeof peer->target, "unix:%s", peer->path);
    else
        snprintf(peer->target, sizeof peer->target,
                 peer->family == AF_INET ? "ipv4:127.0.0.1:%u" : "ipv6:[::1]:%u", peer->port);
}

static inline void http2_peer_start(struct http2_peer *peer)
{
    h2_listen(peer);
    peer->leave = false;
    peer->wake = eventfd(0, EFD_CLOEXEC);
    CHECK(pthread_create(&peer->thread, NULL, h2_run, peer) == 0);
}

/* Until the other end's kernel has all that was sent, for at most ten seconds. */
static inline void h2_wait_until_taken(int fd)
{
    int unsent = 1;

    for (unsigned i = 0; i < 10000 && unsent > 0; i++) {
        CHECK(ioctl(fd, SIOCOUTQ, &unsent) == 0);
        usleep(1000);
    }
}

/* Its connections are closed, and nobody listens any more. Afterwards it may be started again: on the same
 * port. */
static inline void http2_peer_stop(struct http2_peer *peer)
{
    peer->leave = true;
    CHECK(write(peer->wake, &(uint64_t){1}, 8) == 8);
    CHECK(pthread_join(peer->thread, NULL) == 0);
    peer->reset |= peer->parts;
    while (peer->count > 0) {
        struct http2_peer_connection *connection = &peer->connections[0];

        gp_bytes_clear(&connection->out);
        if (peer->parts) {
            h2_put_goaway(connection, 0);
            CHECK(send(connection->fd, gp_bytes_front(&connection->out), gp_bytes_length(&connection->out),
                       MSG_NOSIGNAL) > 0);
            h2_wait_until_taken(connection->fd); /* what a reset overtakes is lost */
        }
        h2_drop(peer, connection);
    }
    close(peer->listener);
    close(peer->wake);
    if (peer->family == AF_UNIX)
        unlink(peer->path);
}

#endif
