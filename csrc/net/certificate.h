/* Certificates for servers and tests on one's own machine: made on the spot, good for nothing else. */
#ifndef GP_NET_CERTIFICATE_H
#define GP_NET_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_error;

enum gp_certificate_key {
    GP_CERTIFICATE_P256, /* ECDSA: every gRPC takes it */
    GP_CERTIFICATE_RSA_2048,
};

struct gp_certificate_opts {
    const char *const *names; /* host names and IP addresses it is for */
    size_t name_count;
    int64_t from_s, to_s; /* valid from and to, in seconds from now */
    bool authority;       /* it may sign others */
    enum gp_certificate_key key;
    const struct gp_certificate *signer; /* NULL: signed by itself */
};

struct gp_certificate {
    char *cert, *key; /* PEM text, malloc'ed */
};

int gp_certificate_make(struct gp_certificate *made, const struct gp_certificate_opts *opts,
                        struct gp_error *err);
void gp_certificate_fini(struct gp_certificate *made);

#endif
