/* credentials: see the header. */
#include "server/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>

#include "base/error.h"
#include "server/options.h"

#define MAX_FILE_BYTES (1u << 20)

/* A file as text of malloc. */
static char *read_text(const char *path, struct gp_error *err)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(MAX_FILE_BYTES + 1) : NULL;
    size_t size = text ? fread(text, 1, MAX_FILE_BYTES, file) : 0;
    if (!text || ferror(file)) {
        gp_error_errno(err, "cannot read %s", path);
        free(text);
        text = NULL;
    } else {
        text[size] = 0;
    }
    if (file)
        fclose(file);
    return text;
}

static void forget(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

grpc_server_credentials *gp_credentials_create(const struct gp_options *options, struct gp_error *err)
{
    grpc_server_credentials *made = NULL;
    if (!options->tls_cert)
        return grpc_insecure_server_credentials_create();
    char *cert = read_text(options->tls_cert, err);
    char *key = cert ? read_text(options->tls_key, err) : NULL;
    char *ca = key && options->tls_client_ca ? read_text(options->tls_client_ca, err) : NULL;
    if (key && (ca || !options->tls_client_ca)) {
        grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = cert};
        made = grpc_ssl_server_credentials_create_ex(
            ca, &pair, 1,
            ca ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
               : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            NULL);
    }
    forget(cert);
    forget(key);
    forget(ca);
    return made;
}
