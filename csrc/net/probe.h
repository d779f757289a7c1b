/* Look at an address before a run: resolve it, connect, say hello in HTTP/2 and read the peer's SETTINGS, so
 * that a wrong address fails at once with its cause instead of as a million UNAVAILABLE calls. */
#ifndef GP_NET_PROBE_H
#define GP_NET_PROBE_H

#include <stdint.h>

struct gp_error;
struct gp_tls_opts;
struct gp_wait;

struct gp_probe {
    char resolved[352];    /* the address that answered, as gRPC spells it: "ipv4:127.0.0.1:50051",
                              "ipv6:[::1]:50051", "unix:/path" */
    char authority[300];   /* what the address implies for :authority; "localhost" for Unix sockets */
    uint64_t connect_ns;   /* time to the established connection */
    uint64_t handshake_ns; /* from there to the end of the TLS handshake; 0 in plaintext */
    /* The peer's SETTINGS (RFC 9113, 6.5.2); UINT64_MAX where it sent none. */
    uint64_t max_concurrent_streams, initial_window_size, max_frame_size, max_header_list_size,
        header_table_size;
};

/* Address: "host:port", "[ipv6]:port", "unix:/path". Tries each address of a name in turn. `tls` NULL:
 * plaintext. All waiting together is bounded by wait->timeout_ns; the connection is closed again before this
 * returns. GP_ERROR_CONNECT names the address and the cause: unknown host, refused, HTTP/1, TLS where there
 * should be none or none where it should be, a certificate that will not do, silence, closed at once. */
int gp_probe(const char *address, const struct gp_tls_opts *tls, const struct gp_wait *wait,
             struct gp_probe *probe, struct gp_error *err);

#endif
