/* core_tls: the credentials of a client's channels, and what TLS wants among their arguments. */
#include "client/core.h"

#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>

#include "base/error.h"
#include "net/tls.h"

static grpc_tls_identity_pairs *identity(const struct gp_tls_opts *tls)
{
    grpc_tls_identity_pairs *pairs;

    if (!tls->cert)
        return NULL;
    pairs = grpc_tls_identity_pairs_create();
    grpc_tls_identity_pairs_add_pair(pairs, tls->key, tls->cert);
    return pairs;
}

/* Without authorities of its own it trusts the system's. */
static void provide(grpc_tls_credentials_options *options, const struct gp_tls_opts *tls)
{
    const char *ca = tls->verify ? tls->ca : NULL;
    grpc_tls_certificate_provider *provider;

    if (!ca && !tls->cert)
        return;
    provider = grpc_tls_certificate_provider_static_data_create(ca, identity(tls));
    grpc_tls_credentials_options_set_certificate_provider(options, provider);
    if (ca)
        grpc_tls_credentials_options_watch_root_certs(options);
    if (tls->cert)
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
    grpc_tls_certificate_provider_release(provider);
}

/* gRPC's newer kind of credentials: the older one insists that the certificate is for :authority too, also
 * when another name was asked for, and cannot be told to take any. */
static grpc_channel_credentials *secure(const struct gp_tls_opts *tls)
{
    grpc_tls_credentials_options *options = grpc_tls_credentials_options_create();
    grpc_tls_certificate_verifier *verifier = tls->verify ? grpc_tls_certificate_verifier_host_name_create()
                                                          : grpc_tls_certificate_verifier_no_op_create();

    grpc_tls_credentials_options_set_verify_server_cert(options, tls->verify);
    grpc_tls_credentials_options_set_certificate_verifier(options, verifier);
    grpc_tls_credentials_options_set_check_call_host(options, 0);
    grpc_tls_certificate_verifier_release(verifier);
    provide(options, tls);
    return grpc_tls_credentials_create(options);
}

grpc_channel_credentials *core_credentials(const struct gp_tls_opts *tls, struct gp_error *err)
{
    grpc_channel_credentials *made;

    if (!tls)
        return grpc_insecure_credentials_create();
    if (tls->min_version != GP_TLS_ANY || tls->max_version != GP_TLS_ANY) {
        gp_error_set(err, GP_ERROR_INVALID,
                     "TLS versions cannot be chosen with transport \"core\": leave min_version and "
                     "max_version out, or use \"wire\"");
        return NULL;
    }
    made = secure(tls);
    if (!made)
        gp_error_set(err, GP_ERROR_INVALID, "gRPC does not take the certificates given");
    return made;
}

grpc_ssl_session_cache *core_sessions(const struct gp_tls_opts *tls)
{
    return tls && tls->resume ? grpc_ssl_session_cache_create_lru(1) : NULL;
}
