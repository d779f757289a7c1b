/* What tls.c (the context) and stream_tls.c (the connections) share. Included by them alone. */
#ifndef GP_NET_TLS_SHARED_H
#define GP_NET_TLS_SHARED_H

#include <openssl/ssl.h>

#include "base/bytes.h"
#include "net/tls.h"

#define GP_TLS_RECORD 16384u /* the largest payload of a record (RFC 8446, 5.1) */

struct gp_tls {
    SSL_CTX *context;
    BIO_METHOD *bio; /* how OpenSSL reaches a stream's socket */
    char name[256];  /* of the server: a host name or an IP address */
    bool is_ip;
    bool resume, without_alpn;
    SSL_SESSION *session;         /* the latest, to be resumed */
    struct gp_bytes out;          /* what the stream at work has encrypted and not yet sent */
    uint8_t block[GP_TLS_RECORD]; /* small pieces are put together here to be encrypted as one record */
    char refused[320];            /* why the certificate just looked at was not taken */
};

/* Of the thread's OpenSSL error queue, which it empties: what went wrong, in words. */
void gp_tls_cause(struct gp_tls *tls, char *buffer, size_t size);

#endif
