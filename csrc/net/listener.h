/* Listening sockets: TCP and Unix, and why an address cannot be listened on. */
#ifndef GP_NET_LISTENER_H
#define GP_NET_LISTENER_H

#include <stdbool.h>

struct gp_error;

struct gp_listener {
    int fd;
    int port;  /* 0 for a Unix socket */
    int spare; /* a descriptor kept to turn connections away with when there are no others left */
};

/* `text`: "host:port" (0: any), "[ipv6]:port" or "unix:/path". Non-blocking. A socket file that nobody
 * listens on any more is replaced. GP_ERROR_ENGINE names the address and the reason. */
int gp_listener_open(struct gp_listener *listener, const char *text, struct gp_error *err);
void gp_listener_close(struct gp_listener *listener);

/* A connection, non-blocking and without delay; -1: none is waiting. One that there is no descriptor for is
 * closed at once, or it would wait, and be told of, for ever. */
int gp_listener_accept(struct gp_listener *listener);

/* Whether somebody answers at "unix:/path". */
bool gp_listener_in_use(const char *text);

/* Fill `err` with the reason in words like those of open. Returns -1. */
int gp_listener_refused(const char *text, const char *reason, struct gp_error *err);

#endif
