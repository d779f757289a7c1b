/* What the TLS connections of one client have in common: certificates, whom to trust, versions, and the
 * session that a later connection may resume. TLS 1.2 and 1.3 by OpenSSL; HTTP/2 is asked for by ALPN and
 * insisted on.
 *
 * One thread at a time uses it and the streams made with it. */
#ifndef GP_NET_TLS_H
#define GP_NET_TLS_H

#include <stdbool.h>

struct gp_error;
struct gp_tls;

enum gp_tls_version { GP_TLS_ANY, GP_TLS_1_2, GP_TLS_1_3 };

struct gp_tls_opts {
    const char *ca;          /* PEM text of the authorities to trust; NULL: the system's */
    const char *cert, *key;  /* PEM text: the client's certificate with its chain, and its key; NULL: none */
    const char *server_name; /* what the certificate must be for, a name or an IP address; NULL: the host of
                                the address. Names are sent to the server too (SNI) */
    bool verify;             /* false: any certificate will do */
    enum gp_tls_version min_version, max_version;
    bool resume; /* offer the latest session's ticket: a connection after the first then costs a fraction, so
                    it is asked for, not given */
    bool without_alpn; /* do not ask for HTTP/2, as clients do that know no better */
    bool exact_reads;  /* take from the socket what the record at hand needs and no more: it is then known
                          which  bytes a handshake took */
};

/* Copies what it needs of opts. `authority` ("host:port") gives the name that opts does not. GP_ERROR_INVALID
 * names the part that cannot be used. */
int gp_tls_create(struct gp_tls **tls, const struct gp_tls_opts *opts, const char *authority,
                  struct gp_error *err);
void gp_tls_destroy(struct gp_tls *tls); /* after the streams made with it */

#endif
