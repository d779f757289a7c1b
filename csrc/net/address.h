/* Addresses as people write them ("host:port", "[ipv6]:port", "unix:/path") and as gRPC spells them. Pure
 * text. */
#ifndef GP_NET_ADDRESS_H
#define GP_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

struct gp_error;
struct sockaddr;

struct gp_address {
    bool is_unix;
    char host[256];      /* a name or a literal, without brackets; for Unix sockets the path */
    char port[8];        /* "1" to "65535"; empty for Unix sockets */
    char authority[300]; /* for :authority: host and port; "localhost" for Unix sockets */
};

/* GP_ERROR_INVALID when `text` is none of the forms, naming it and what was expected. */
int gp_address_parse(const char *text, struct gp_address *address, struct gp_error *err);

/* "ipv4:127.0.0.1:50051", "ipv6:[::1]:50051", "unix:/path", percent-encoded as the URIs they are. */
void gp_address_spell(const struct sockaddr *address, char *text, size_t size);

/* The host of an authority: "name:80" gives "name", "[::1]:80" gives "::1", "name" itself. Cut to fit. */
void gp_address_host(const char *authority, char *host, size_t size);

#endif
