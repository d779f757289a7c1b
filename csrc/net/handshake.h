/* What it takes to make a connection: one after the other, each timed by its parts and counted in bytes. */
#ifndef GP_NET_HANDSHAKE_H
#define GP_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

struct gp_error;
struct gp_stream;
struct gp_tls;
struct gp_endpoint;
struct gp_wait;

struct gp_handshake {
    uint64_t connect_ns;     /* TCP's */
    uint64_t tls_ns;         /* from there to the end of TLS's; 0 in plaintext */
    uint64_t settings_ns;    /* from there to the peer's first bytes of HTTP/2; 0: it closed instead */
    uint64_t sent, received; /* bytes of TLS by the end of its handshake (exact with exact_reads) */
    bool resumed;
};

/* Make one connection, wait for the peer's first words (behind which are the tickets of TLS 1.3, for the next
 * one), and close it. `tls` NULL: plaintext. All waiting together is bounded by wait->timeout_ns.
 * GP_ERROR_CONNECT tells the cause alone. */
int gp_handshake(const struct gp_endpoint *to, struct gp_tls *tls, const struct gp_wait *wait,
                 struct gp_handshake *handshake, struct gp_error *err);

#endif
