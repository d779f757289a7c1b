/* credentials: from files to gRPC's forms. */
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
    size_t size = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
    if (size > MAX_FILE_BYTES) {
        gp_error_set(err, GP_ERROR_INVALID, "%s has more than 1 MiB, too much for PEM", path);
        free(text);
        text = NULL;
    } else if (!text || ferror(file)) {
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

/* A file that is named, or nothing; false: it cannot be read. */
static bool read_named(const char *path, char **text, struct gp_error *err)
{
    *text = path ? read_text(path, err) : NULL;
    return !path || *text;
}

grpc_server_credentials *gp_credentials_create(const struct gp_options *options, struct gp_error *err)
{
    grpc_server_credentials *made = NULL;
    if (!options->tls_cert)
        return grpc_insecure_server_credentials_create();
    char *cert = NULL, *key = NULL, *ca = NULL;
    if (read_named(options->tls_cert, &cert, err) && read_named(options->tls_key, &key, err) &&
        read_named(options->tls_client_ca, &ca, err)) {
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

/* gRPC's newer kind: the older one cannot be told to take any certificate, or one for another name. */
static grpc_channel_credentials *secure(const char *ca, const char *cert, const char *key, bool verify)
{
    grpc_tls_credentials_options *options = grpc_tls_credentials_options_create();
    grpc_tls_certificate_verifier *verifier = verify ? grpc_tls_certificate_verifier_host_name_create()
                                                     : grpc_tls_certificate_verifier_no_op_create();
    grpc_tls_credentials_options_set_verify_server_cert(options, verify);
    grpc_tls_credentials_options_set_check_call_host(options, 0);
    grpc_tls_credentials_options_set_certificate_verifier(options, verifier);
    grpc_tls_certificate_verifier_release(verifier);
    if (ca || cert) {
        grpc_tls_identity_pairs *pairs = cert ? grpc_tls_identity_pairs_create() : NULL;
        if (cert)
            grpc_tls_identity_pairs_add_pair(pairs, key, cert);
        grpc_tls_certificate_provider *provider = grpc_tls_certificate_provider_static_data_create(ca, pairs);
        grpc_tls_credentials_options_set_certificate_provider(options, provider);
        grpc_tls_certificate_provider_release(provider);
    }
    if (ca)
        grpc_tls_credentials_options_watch_root_certs(options);
    if (cert)
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
    return grpc_tls_credentials_create(options);
}

grpc_channel_credentials *gp_credentials_of_client(const struct gp_options *options, struct gp_error *err)
{
    char *ca = NULL, *cert = NULL, *key = NULL;
    grpc_channel_credentials *made = NULL;
    if (!options->forward_tls)
        return grpc_insecure_credentials_create();
    if (read_named(options->forward_ca, &ca, err) && read_named(options->forward_cert, &cert, err) &&
        read_named(options->forward_key, &key, err)) {
        made = secure(options->forward_verify ? ca : NULL, cert, key, options->forward_verify);
        if (!made)
            gp_error_set(err, GP_ERROR_INVALID, "gRPC does not take the certificates for the next server");
    }
    forget(ca);
    forget(cert);
    forget(key);
    return made;
}
