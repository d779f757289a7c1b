/* A server that speaks TLS, for tests: its certificate is of an authority made here, in files that are gone
 * once it listens. */
#ifndef GP_TESTS_TLS_SERVER_H
#define GP_TESTS_TLS_SERVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "net/certificate.h"
#include "support.h"

struct tls_server {
    struct test_server server;
    struct gp_certificate authority, own;
    char folder[64];
};

static inline void tls_write(const struct tls_server *tls, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", tls->folder, name);
    file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* For `name` alone. `mutual`: clients need a certificate of the same authority, as `own` is. */
static inline void tls_server_start(struct tls_server *tls, const char *name, bool mutual)
{
    char cert[96], key[96], ca[96];
    const char *arguments[] = {"--tls-cert", cert, "--tls-key", key, mutual ? "--tls-client-ca" : NULL,
                               ca,           NULL};
    struct gp_certificate_opts root = {.from_s = -3600, .to_s = 3600, .authority = true};
    struct gp_certificate_opts leaf = {
        .names = &name, .name_count = 1, .from_s = -3600, .to_s = 3600, .signer = &tls->authority};

    CHECK(gp_certificate_make(&tls->authority, &root, NULL) == 0);
    CHECK(gp_certificate_make(&tls->own, &leaf, NULL) == 0);
    strcpy(tls->folder, "/tmp/grpcperf-test-XXXXXX");
    CHECK(mkdtemp(tls->folder));
    snprintf(cert, sizeof cert, "%s/cert", tls->folder);
    snprintf(key, sizeof key, "%s/key", tls->folder);
    snprintf(ca, sizeof ca, "%s/ca", tls->folder);
    tls_write(tls, "cert", tls->own.cert);
    tls_write(tls, "key", tls->own.key);
    tls_write(tls, "ca", tls->authority.cert);
    test_server_start(&tls->server, arguments);
    unlink(cert);
    unlink(key);
    unlink(ca);
    rmdir(tls->folder);
}

static inline void tls_server_stop(struct tls_server *tls)
{
    test_server_stop(&tls->server);
    gp_certificate_fini(&tls->authority);
    gp_certificate_fini(&tls->own);
}

#endif
