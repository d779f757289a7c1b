/* Nonblocking stream sockets of the client role: TCP over IPv4 and IPv6, and Unix sockets.
 *
 *   connect  ( OK | AGAIN, writable, finish )  ( read | write )*  close
 *
 * Everything says how it went in one word, to be switched over; after ERROR errno tells the cause. */
#ifndef GP_NET_SOCKET_H
#define GP_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct gp_error;

enum gp_io {
    GP_IO_OK,
    GP_IO_AGAIN,  /* not now: wait until the descriptor is ready */
    GP_IO_CLOSED, /* the peer has closed its side in good order */
    GP_IO_ERROR,
};

struct gp_endpoint {
    struct sockaddr_storage address;
    socklen_t size;
};

/* From gRPC's spelling, as gp_address_spell writes it: "ipv4:127.0.0.1:50051", "ipv6:[::1]:50051",
 * "unix:/path". */
int gp_endpoint_parse(const char *spelled, struct gp_endpoint *endpoint, struct gp_error *err);

/* The loopback network has 16 million addresses to connect from, each with its own range of ports. `number`
 * 0: 127.0.0.1 itself, 1: 127.0.0.2 and so on to 250. -1 when the endpoint is not in it: then there is one
 * way to it. */
int gp_endpoint_loopback_source(const struct gp_endpoint *to, unsigned number, struct gp_endpoint *from);

/* A socket on its way to `to`, from the address `from` unless that is NULL. OK: connected already (Unix
 * sockets). AGAIN: under way, or (with *fd -1) the listener's queue is full and it is to be asked again. The
 * descriptor is the caller's unless it is -1. */
enum gp_io gp_socket_connect(const struct gp_endpoint *to, const struct gp_endpoint *from, int *fd);

/* The socket has become writable: is it connected? A port that was connected to itself, as those that the
 * kernel gives to clients can be, counts as refused. */
enum gp_io gp_socket_finish(int fd);

/* TCP's own keepalive: after `idle_s` of silence a probe, every `interval_s` another, dead after `probes`
 * without an answer. 0: the kernel's own. */
struct gp_tcp_keepalive {
    bool on;
    int idle_s, interval_s, probes;
};

/* Does nothing unless it is on. -1, errno. */
int gp_socket_keepalive(int fd, const struct gp_tcp_keepalive *keepalive);

enum gp_io gp_socket_read(int fd, void *data, size_t size, size_t *got);
enum gp_io gp_socket_write(int fd, const struct iovec *pieces, size_t count, size_t *written);

/* An errno of these functions in the words of somebody who wants to reach a
 * server; `buffer` may hold them. */
const char *gp_socket_cause(int os_errno, char *buffer, size_t size);

#endif
