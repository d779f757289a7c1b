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
