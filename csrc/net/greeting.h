/* What the first bytes of a peer say when it was greeted in HTTP/2: bytes in, verdict out. No sockets, so
 * that each kind of peer is tested as a function. */
#ifndef GP_NET_GREETING_H
#define GP_NET_GREETING_H

#include <stddef.h>
#include <stdint.h>

struct gp_error;
struct gp_probe;

/* A frame header and the largest payload a peer may send before anything is agreed (RFC 9113, 4.2). */
#define GP_GREETING_MOST (9u + 16384u)

/* A client's first words (RFC 9113, 3.4: the magic and an empty SETTINGS) and its last: an
 * acknowledgement of the peer's SETTINGS, and GOAWAY with last stream 0 and NO_ERROR. Strings, whose
 * final zero is part of them. */
#define GP_GREETING_HELLO "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0"
#define GP_GREETING_GOODBYE "\0\0\0\4\1\0\0\0\0\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0"
_Static_assert(sizeof GP_GREETING_HELLO == 24 + 9 && sizeof GP_GREETING_GOODBYE == 9 + 17, "whole frames");

enum gp_greeting_kind {
    GP_GREETING_UNFINISHED, /* nothing, or a good beginning */
    GP_GREETING_HTTP2,      /* a whole and lawful SETTINGS frame */
    GP_GREETING_FORBIDDEN,  /* one with a value that the protocol forbids */
    GP_GREETING_GOAWAY,     /* HTTP/2, but it wants no connection */
    GP_GREETING_HTTP1,
    GP_GREETING_HTTPS, /* HTTP/1 in plain text saying that TLS was expected */
    GP_GREETING_TLS,
    GP_GREETING_TEXT,
    GP_GREETING_BINARY,
};

struct gp_greeting {
    enum gp_greeting_kind kind;
    char words[100]; /* the first line, the first bytes or the error code, fit for a message */
};

/* Judge the `size` bytes received so far. The five settings of `probe` are filled when it is
 * GP_GREETING_HTTP2. */
void gp_greeting_read(const uint8_t *data, size_t size, struct gp_greeting *greeting, struct gp_probe *probe);

/* 0 for GP_GREETING_HTTP2; else GP_ERROR_CONNECT with what `name` is instead. */
int gp_greeting_verdict(const struct gp_greeting *greeting, const char *name, struct gp_error *err);

#endif
