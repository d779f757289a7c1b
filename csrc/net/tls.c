/* tls: the context that TLS connections are made from. What was asked for is read and checked here. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/error.h"
#include "net/address.h"
#include "net/tls_shared.h"

/* gRPC C core takes P-256 alone: a client that offers another group first pays a round trip. */
#define GROUPS "P-256:X25519:P-384:P-521"
#define READ_BYTES (64u << 10) /* taken from the socket at a time; freed while nothing is there */

static int bad(struct gp_error *err, const char *part, const char *why)
{
    char reason[200] = "";
    unsigned long code = ERR_peek_last_error();

    if (code != 0 && ERR_reason_error_string(code))
        snprintf(reason, sizeof reason, " (%s)", ERR_reason_error_string(code));
    ERR_clear_error();
    return gp_error_set(err, GP_ERROR_INVALID, "TLS %s: %s%s", part, why, reason);
}

static int no_memory(struct gp_error *err)
{
    ERR_clear_error();
    return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for TLS");
}

/* OpenSSL would ask at the terminal. */
static int no_password(char *buffer, int size, int writing, void *unused)
{
    return -1;
}

static BIO *text_of(const char *pem)
{
    return BIO_new_mem_buf(pem, -1);
}

/* --- whom to trust ----------------------------------------------------------------------------- */

static int trust_system(struct gp_tls *tls, struct gp_error *err)
{
    if (SSL_CTX_set_default_verify_paths(tls->context) != 1)
        return bad(err, "ca", "the system's certificates cannot be used");
    return 0;
}

static int trust_given(struct gp_tls *tls, const char *pem, struct gp_error *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(tls->context);
    BIO *text = text_of(pem);
    unsigned found = 0;
    X509 *certificate;

    while (text && (certificate = PEM_read_bio_X509(text, NULL, no_password, NULL)) != NULL) {
        found += X509_STORE_add_cert(store, certificate) == 1;
        X509_free(certificate);
    }
    BIO_free(text);
    if (found == 0)
        return bad(err, "ca", "there is no certificate in PEM form in it");
    /* A server's very certificate may be given too, whoever signed it. */
    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
    ERR_clear_error(); /* the end of the text was met as an error */
    return 0;
}

static void list_names(X509 *certificate, char *text, size_t size)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && used + 80 < size; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char address[INET6_ADDRSTRLEN] = "?";
        const char *shown = address;
        int length;

        if (name->type == GEN_DNS) {
            shown = (const char *)ASN1_STRING_get0_data(name->d.dNSName);
            length = ASN1_STRING_length(name->d.dNSName);
        } else if (name->type == GEN_IPADD) {
            int family = ASN1_STRING_length(name->d.iPAddress) == 4 ? AF_INET : AF_INET6;
            inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), address, sizeof address);
            length = (int)strlen(address);
        } else {
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "",
                                 length < 64 ? length : 64, shown);
    }
    GENERAL_NAMES_free(names);
}

static void show_time(const ASN1_TIME *time, char *text, size_t size)
{
    BIO *memory = BIO_new(BIO_s_mem());
    int length = memory && ASN1_TIME_print(memory, time) == 1 ? BIO_read(memory, text, (int)size - 1) : 0;

    text[length > 0 ? length : 0] = '\0';
    BIO_free(memory);
}

static void explain(struct gp_tls *tls, X509_STORE_CTX *checked)
{
    X509 *certificate = X509_STORE_CTX_get_current_cert(checked);
    int problem = X509_STORE_CTX_get_error(checked);
    char *out = tls->refused, detail[200] = "";
    size_t size = sizeof tls->refused;

    switch (problem) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        show_time(X509_get0_notAfter(certificate), detail, sizeof detail);
        snprintf(out, size, "the server's certificate has expired (%s)", detail);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        show_time(X509_get0_notBefore(certificate), detail, sizeof detail);
        snprintf(out, size, "the server's certificate is not valid yet (from %s)", detail);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        list_names(certificate, detail, sizeof detail);
        snprintf(out, size, "the server's certificate is not for \"%.100s\" but for %s", tls->name,
                 detail[0] ? detail : "no name at all");
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        snprintf(out, size, "the server's certificate is signed by an authority that is not trusted (%s)",
                 X509_verify_cert_error_string(problem));
        break;
    default:
        snprintf(out, size, "the server's certificate cannot be trusted (%s)",
                 X509_verify_cert_error_string(problem));
    }
}

static int verified(int good, X509_STORE_CTX *checked)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(checked, SSL_get_ex_data_X509_STORE_CTX_idx());

    if (!good)
        explain(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)), checked);
    return good;
}

/* The name of RFC 9525: no wildcard but a whole label. */
static int expect_name(struct gp_tls *tls, struct gp_error *err)
{
    X509_VERIFY_PARAM *check = SSL_CTX_get0_param(tls->context);
    int good;

    if (tls->name[0] == '\0')
        return bad(err, "server_name", "the address has no host that a certificate could be for: give one");
    X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    good = tls->is_ip ? X509_VERIFY_PARAM_set1_ip_asc(check, tls->name)
                      : X509_VERIFY_PARAM_set1_host(check, tls->name, 0);
    return good == 1 ? 0 : bad(err, "server_name", "that is no name of a server");
}

static int set_trust(struct gp_tls *tls, const struct gp_tls_opts *opts, struct gp_error *err)
{
    if (!opts->verify) {
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_NONE, NULL);
        return opts->ca ? trust_given(tls, opts->ca, err) : 0;
    }
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, verified);
    if (expect_name(tls, err) != 0)
        return -1;
    return opts->ca ? trust_given(tls, opts->ca, err) : trust_system(tls, err);
}

/* --- who we are -------------------------------------------------------------------------------- */

static int set_chain(struct gp_tls *tls, const char *pem, struct gp_error *err)
{
    BIO *text = text_of(pem);
    X509 *certificate = text ? PEM_read_bio_X509(text, NULL, no_password, NULL) : NULL;
    int good = certificate && SSL_CTX_use_certificate(tls->context, certificate) == 1;

    X509_free(certificate);
    while (good && (certificate = PEM_read_bio_X509(text, NULL, no_password, NULL)) != NULL) {
        good = SSL_CTX_add0_chain_cert(tls->context, certificate) == 1; /* which is its owner then */
        if (!good)
            X509_free(certificate);
    }
    BIO_free(text);
    if (!good)
        return bad(err, "cert", "there is no certificate in PEM form in it");
    ERR_clear_error();
    return 0;
}

static int set_key(struct gp_tls *tls, const char *pem, struct gp_error *err)
{
    BIO *text = text_of(pem);
    EVP_PKEY *key = text ? PEM_read_bio_PrivateKey(text, NULL, no_password, NULL) : NULL;
    int status = 0;

    if (!key)
        status = bad(err, "key", "there is no private key in PEM form, without a password, in it");
    else if (SSL_CTX_use_PrivateKey(tls->context, key) != 1)
        status = bad(err, "key", "it does not belong to the certificate");
    EVP_PKEY_free(key);
    BIO_free(text);
    return status;
}

static int set_identity(struct gp_tls *tls, const struct gp_tls_opts *opts, struct gp_error *err)
{
    if (!opts->cert && !opts->key)
        return 0;
    if (!opts->cert || !opts->key)
        return bad(err, opts->cert ? "cert" : "key", "certificate and key are given together or not at all");
    if (set_chain(tls, opts->cert, err) != 0)
        return -1;
    return set_key(tls, opts->key, err);
}

/* --- versions, ALPN, sessions ------------------------------------------------------------------ */

static int version_number(enum gp_tls_version version)
{
    return version == GP_TLS_1_2 ? TLS1_2_VERSION : version == GP_TLS_1_3 ? TLS1_3_VERSION : 0;
}

/* HTTP/2 forbids what is below 1.2 (RFC 9113, 9.2). */
static int set_versions(struct gp_tls *tls, const struct gp_tls_opts *opts, struct gp_error *err)
{
    int low = version_number(opts->min_version == GP_TLS_ANY ? GP_TLS_1_2 : opts->min_version);
    int high = version_number(opts->max_version);

    if (high != 0 && high < low)
        return bad(err, "max_version", "it is below min_version");
    if (SSL_CTX_set_min_proto_version(tls->context, low) != 1 ||
        SSL_CTX_set_max_proto_version(tls->context, high) != 1)
        return bad(err, "min_version", "this OpenSSL does not have it");
    return 0;
}

/* In TLS 1.3 tickets come after the handshake, several of them; the latest is as good as any. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct gp_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    SSL_SESSION_free(tls->session);
    tls->session = session;
    return 1; /* it is ours now */
}

static int set_protocol(struct gp_tls *tls, const struct gp_tls_opts *opts, struct gp_error *err)
{
    static const unsigned char h2[] = {2, 'h', '2'};

    tls->resume = opts->resume;
    tls->without_alpn = opts->without_alpn;
    if (set_versions(tls, opts, err) != 0)
        return -1;
    if (!opts->without_alpn && SSL_CTX_set_alpn_protos(tls->context, h2, sizeof h2) != 0) /* 0 is success */
        return no_memory(err);
    if (SSL_CTX_set1_groups_list(tls->context, GROUPS) != 1)
        return bad(err, "groups", "this OpenSSL lacks one of " GROUPS);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF /* OpenSSL 3 would give up the session for it */
    SSL_CTX_set_options(tls->context, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
    SSL_CTX_set_mode(tls->context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(tls->context, !opts->exact_reads);
    SSL_CTX_set_default_read_buffer_len(tls->context, READ_BYTES);
    SSL_CTX_set_session_cache_mode(tls->context,
                                   opts->resume ? SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE
                                                : SSL_SESS_CACHE_OFF);
    if (opts->resume)
        SSL_CTX_sess_set_new_cb(tls->context, keep_session);
    return 0;
}

/* --- life -------------------------------------------------------------------------------------- */

static int set_name(struct gp_tls *tls, const struct gp_tls_opts *opts, const char *authority,
                    struct gp_error *err)
{
    unsigned char parsed[sizeof(struct in6_addr)];

    if (opts->server_name && strlen(opts->server_name) >= sizeof tls->name)
        return bad(err, "server_name", "it is longer than a name can be");
    if (opts->server_name)
        strcpy(tls->name, opts->server_name);
    else
        gp_address_host(authority ? authority : "", tls->name, sizeof tls->name);
    tls->is_ip = inet_pton(AF_INET, tls->name, parsed) == 1 || inet_pton(AF_INET6, tls->name, parsed) == 1;
    return 0;
}

int gp_tls_create(struct gp_tls **created, const struct gp_tls_opts *opts, const char *authority,
                  struct gp_error *err)
{
    struct gp_tls *tls = calloc(1, sizeof *tls);

    *created = NULL;
    if (!tls)
        return no_memory(err);
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->context) {
        free(tls);
        return no_memory(err);
    }
    SSL_CTX_set_app_data(tls->context, tls);
    if (set_name(tls, opts, authority, err) != 0 || set_protocol(tls, opts, err) != 0 ||
        set_trust(tls, opts, err) != 0 || set_identity(tls, opts, err) != 0) {
        gp_tls_destroy(tls);
        return -1;
    }
    *created = tls;
    return 0;
}

void gp_tls_destroy(struct gp_tls *tls)
{
    if (!tls)
        return;
    SSL_SESSION_free(tls->session);
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->bio);
    gp_bytes_fini(&tls->out);
    free(tls);
}

/* --- words ------------------------------------------------------------------------------------- */

/* Alerts are what the server says about us (RFC 8446, 6.2). */
static const char *known_cause(int reason)
{
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return "the server speaks plaintext; TLS was asked for";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "the server does not speak the TLS version asked for";
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
        return "the server speaks TLS but did not agree on HTTP/2 (no ALPN \"h2\")";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "the server wants a certificate of the client, and none was given";
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return "the server ended the TLS handshake (no common version, cipher or group, or it wants a "
               "certificate of the client)";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "the server does not trust the authority that signed the client's certificate";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "the server does not take the client's certificate";
    default:
        return NULL;
    }
}

void gp_tls_cause(struct gp_tls *tls, char *buffer, size_t size)
{
    unsigned long code = ERR_peek_last_error();
    const char *known = code ? known_cause(ERR_GET_REASON(code)) : NULL;
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    if (tls->refused[0])
        snprintf(buffer, size, "%s", tls->refused);
    else if (known)
        snprintf(buffer, size, "%s", known);
    else
        snprintf(buffer, size, "TLS failed (%s)", reason ? reason : "unknown cause");
    tls->refused[0] = '\0';
    ERR_clear_error();
}
