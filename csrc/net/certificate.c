/* certificate: X.509 certificates from OpenSSL's parts. */
#include "net/certificate.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "base/error.h"

static EVP_PKEY *make_key(enum gp_certificate_key kind)
{
    bool rsa = kind == GP_CERTIFICATE_RSA_2048;
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(rsa ? EVP_PKEY_RSA : EVP_PKEY_EC, NULL);
    EVP_PKEY *key = NULL;

    if (maker && EVP_PKEY_keygen_init(maker) == 1 &&
        (rsa ? EVP_PKEY_CTX_set_rsa_keygen_bits(maker, 2048)
             : EVP_PKEY_CTX_set_ec_paramgen_curve_nid(maker, NID_X9_62_prime256v1)) == 1)
        EVP_PKEY_keygen(maker, &key);
    EVP_PKEY_CTX_free(maker);
    return key;
}

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    bool good;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    good = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return good;
}

static bool add_names(X509 *certificate, const struct gp_certificate_opts *opts)
{
    unsigned char parsed[sizeof(struct in6_addr)];
    char text[1024];
    size_t used = 0;

    for (size_t i = 0; i < opts->name_count; i++) {
        const char *name = opts->names[i];
        bool is_ip = inet_pton(AF_INET, name, parsed) == 1 || inet_pton(AF_INET6, name, parsed) == 1;

        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%s", i ? "," : "",
                                 is_ip ? "IP" : "DNS", name);
        if (used >= sizeof text)
            return false;
    }
    return opts->name_count == 0 || add_extension(certificate, NULL, NID_subject_alt_name, text);
}

static bool set_subject(X509 *certificate, const struct gp_certificate_opts *opts)
{
    const char *name = opts->name_count > 0 ? opts->names[0] : "grpcperf";

    return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                      (const unsigned char *)name, -1, -1, 0) == 1;
}

/* Clients keep certificates apart by issuer and serial number: a random one, positive. */
static bool set_serial(X509 *certificate)
{
    unsigned char bytes[8];
    uint64_t serial = 0;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        serial = serial << 8 | bytes[i];
    return ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1) == 1;
}

static bool fill(X509 *certificate, EVP_PKEY *key, const struct gp_certificate_opts *opts)
{
    return X509_set_version(certificate, 2) == 1 && set_serial(certificate) && /* 2 is X.509 v3 */
           X509_gmtime_adj(X509_getm_notBefore(certificate), opts->from_s) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), opts->to_s) != NULL &&
           X509_set_pubkey(certificate, key) == 1 && set_subject(certificate, opts) &&
           add_names(certificate, opts) &&
           add_extension(certificate, NULL, NID_basic_constraints,
                         opts->authority ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
           add_extension(certificate, NULL, NID_key_usage,
                         opts->authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
           (opts->authority ||
            add_extension(certificate, NULL, NID_ext_key_usage, "serverAuth,clientAuth")) &&
           add_extension(certificate, NULL, NID_subject_key_identifier, "hash");
}

static bool sign(X509 *certificate, EVP_PKEY *own, const struct gp_certificate *signer)
{
    BIO *cert_text = signer ? BIO_new_mem_buf(signer->cert, -1) : NULL;
    BIO *key_text = signer ? BIO_new_mem_buf(signer->key, -1) : NULL;
    X509 *issuer = cert_text ? PEM_read_bio_X509(cert_text, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key = key_text ? PEM_read_bio_PrivateKey(key_text, NULL, NULL, NULL) : NULL;
    bool good = !signer || (issuer && key);

    good =
        good && X509_set_issuer_name(certificate, X509_get_subject_name(issuer ? issuer : certificate)) == 1;
    /* Strict readers (RFC 5280, 4.2.1.1) want to be told by which key it was signed. */
    good = good && (!issuer || add_extension(certificate, issuer, NID_authority_key_identifier, "keyid"));
    good = good && X509_sign(certificate, key ? key : own, EVP_sha256()) > 0;
    X509_free(issuer);
    EVP_PKEY_free(key);
    BIO_free(cert_text);
    BIO_free(key_text);
    return good;
}

/* The text in a memory BIO, as one of malloc. */
static char *take_text(BIO *memory)
{
    char *data;
    long size = BIO_get_mem_data(memory, &data);
    char *text = size > 0 ? malloc((size_t)size + 1) : NULL;

    if (text) {
        memcpy(text, data, (size_t)size);
        text[size] = '\0';
    }
    return text;
}

static bool write_text(struct gp_certificate *made, X509 *certificate, EVP_PKEY *key)
{
    BIO *cert_text = BIO_new(BIO_s_mem()), *key_text = BIO_new(BIO_s_mem());

    if (cert_text && PEM_write_bio_X509(cert_text, certificate) == 1)
        made->cert = take_text(cert_text);
    if (key_text && PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL) == 1)
        made->key = take_text(key_text);
    BIO_free(cert_text);
    BIO_free(key_text);
    return made->cert && made->key;
}

int gp_certificate_make(struct gp_certificate *made, const struct gp_certificate_opts *opts,
                        struct gp_error *err)
{
    EVP_PKEY *key = make_key(opts->key);
    X509 *certificate = X509_new();
    bool good;

    *made = (struct gp_certificate){0};
    good = key && certificate && fill(certificate, key, opts) && sign(certificate, key, opts->signer) &&
           write_text(made, certificate, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (good)
        return 0;
    gp_certificate_fini(made);
    unsigned long code = ERR_get_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return gp_error_set(err, GP_ERROR_ENGINE, "cannot make a certificate for %s: %s",
                        opts->name_count > 0 ? opts->names[0] : "no name", reason ? reason : "out of memory");
}

void gp_certificate_fini(struct gp_certificate *made)
{
    free(made->cert);
    free(made->key);
    *made = (struct gp_certificate){0};
}
