/* A TLS server for tests, on a thread of its own: certificates made on the spot, one connection after the
 * other, each greeted and then echoed until the client is through. */
#ifndef GP_TESTS_TLS_PEER_H
#define GP_TESTS_TLS_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/error.h"
#include "check.h"
#include "net/certificate.h"
#include "net/socket.h"

#define TLS_DAY INT64_C(86400)

struct tls_peer {
    const struct gp_certificate *identity;
    const char *client_ca; /* PEM: clients must show a certificate signed by it */
    const char *alpn;      /* "h2", another, or NULL for none */
    int min_proto, max_proto;
    const char *groups;
    unsigned echoes;  /* so many, then it ends; 0: until the client does */
    bool abrupt;      /* close the socket without a word of TLS */
    bool reset;       /* likewise, by RST */
    bool renews;      /* another ticket for each session that is taken up */
    const char *says; /* at first, of `size` */
    size_t size;
    const char *later; /* of `later_size`, when something has come, instead of its echo */
    size_t later_size;

    int listener;
    unsigned port;
    char target[64];
    struct gp_endpoint endpoint;
    atomic_int accepted, established, resumed, retried, named;
    SSL_CTX *context;
    pthread_t thread;
    atomic_bool leave;
};

static inline struct gp_certificate make_certificate(struct gp_certificate_opts opts)
{
    struct gp_certificate made;
    struct gp_error err = {0};

    if (gp_certificate_make(&made, &opts, &err) != 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(made.cert && made.key);
    return made;
}

/* For "localhost" and 127.0.0.1, valid now; signed by itself when `signer` is NULL. */
static inline struct gp_certificate local_certificate(const struct gp_certificate *signer)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "::1"};

    return make_certificate((struct gp_certificate_opts){
        .names = names, .name_count = 3, .from_s = -TLS_DAY, .to_s = TLS_DAY, .signer = signer});
}

static inline struct gp_certificate make_authority(const char *name)
{
    return make_certificate((struct gp_certificate_opts){
        .names = &name, .name_count = 1, .from_s = -TLS_DAY, .to_s = TLS_DAY, .authority = true});
}

static inline int tls_choose(SSL *ssl, const unsigned char **out, unsigned char *length,
                             const unsigned char *offered, unsigned size, void *argument)
{
    const struct tls_peer *peer = argument;

    if (!peer->alpn)
        return SSL_TLSEXT_ERR_NOACK;
    *out = (const unsigned char *)peer->alpn;
    *length = (unsigned char)strlen(peer->alpn);
    return SSL_TLSEXT_ERR_OK;
}

static inline void tls_load(struct tls_peer *peer)
{
    BIO *cert = BIO_new_mem_buf(peer->identity->cert, -1), *key = BIO_new_mem_buf(peer->identity->key, -1);
    X509 *certificate = PEM_read_bio_X509(cert, NULL, NULL, NULL);
    EVP_PKEY *private_key = PEM_read_bio_PrivateKey(key, NULL, NULL, NULL);

    CHECK(SSL_CTX_use_certificate(peer->context, certificate) == 1);
    CHECK(SSL_CTX_use_PrivateKey(peer->context, private_key) == 1);
    X509_free(certificate);
    EVP_PKEY_free(private_key);
    BIO_free(cert);
    BIO_free(key);
    if (peer->client_ca) {
        BIO *ca = BIO_new_mem_buf(peer->client_ca, -1);
        X509 *authority = PEM_read_bio_X509(ca, NULL, NULL, NULL);

        X509_STORE_add_cert(SSL_CTX_get_cert_store(peer->context), authority);
        SSL_CTX_set_verify(peer->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        X509_free(authority);
        BIO_free(ca);
    }
}

/* Counts the ClientHellos of a connection: a second one is an answer to a HelloRetryRequest. */
static inline int tls_hello(SSL *ssl, int *alert, void *argument)
{
    struct tls_peer *peer = argument;

    const unsigned char *name;
    size_t size;

    peer->retried++;
    peer->named = SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &name, &size);
    return SSL_CLIENT_HELLO_SUCCESS;
}

static inline void tls_serve(struct tls_peer *peer, int fd)
{
    const struct linger abort_it = {.l_onoff = 1};
    SSL *ssl = SSL_new(peer->context);
    char data[16384];
    int got;

    peer->accepted++;
    peer->retried = -1;
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) {
        if (SSL_session_reused(ssl))
            peer->resumed++;
        peer->established++;
        if (peer->size)
            SSL_write(ssl, peer->says, (int)peer->size);
        if (peer->later && SSL_read(ssl, data, sizeof data) > 0)
            SSL_write(ssl, peer->later, (int)peer->later_size);
        for (unsigned i = 0; peer->echoes == 0 || i < peer->echoes; i++)
            if ((got = SSL_read(ssl, data, sizeof data)) <= 0 || SSL_write(ssl, data, got) != got)
                break;
        if (!peer->abrupt && !peer->reset)
            SSL_shutdown(ssl);
    }
    if (peer->reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof abort_it);
    SSL_free(ssl);
    ERR_clear_error();
    close(fd);
}

static inline void *tls_run(void *argument)
{
    struct tls_peer *peer = argument;

    for (;;) {
        int fd = accept(peer->listener, NULL, NULL);

        if (peer->leave || fd < 0)
            return NULL;
        tls_serve(peer, fd);
    }
}

static inline SSL_TICKET_RETURN tls_renew(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                          size_t size, SSL_TICKET_STATUS status, void *unused)
{
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_IGNORE_RENEW;
}

static inline void tls_peer_start(struct tls_peer *peer)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    sigset_t broken_pipe;

    peer->context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_min_proto_version(peer->context, peer->min_proto);
    SSL_CTX_set_max_proto_version(peer->context, peer->max_proto);
    SSL_CTX_set_alpn_select_cb(peer->context, tls_choose, peer);
    SSL_CTX_set_client_hello_cb(peer->context, tls_hello, peer);
    SSL_CTX_set_session_id_context(peer->context, (const unsigned char *)"t", 1);
    if (peer->renews)
        SSL_CTX_set_session_ticket_cb(peer->context, NULL, tls_renew, NULL);
    if (peer->groups)
        CHECK(SSL_CTX_set1_groups_list(peer->context, peer->groups) == 1);
    tls_load(peer);
    peer->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(peer->listener, (struct sockaddr *)&in, sizeof in) == 0 && listen(peer->listener, 16) == 0);
    CHECK(getsockname(peer->listener, (struct sockaddr *)&in, &size) == 0);
    peer->port = ntohs(in.sin_port);
    snprintf(peer->target, sizeof peer->target, "ipv4:127.0.0.1:%u", peer->port);
    CHECK(gp_endpoint_parse(peer->target, &peer->endpoint, NULL) == 0);
    /* OpenSSL's own sockets raise SIGPIPE; the thread inherits this. */
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, NULL);
    CHECK(pthread_create(&peer->thread, NULL, tls_run, peer) == 0);
    pthread_sigmask(SIG_UNBLOCK, &broken_pipe, NULL);
}

static inline void tls_peer_stop(struct tls_peer *peer)
{
    peer->leave = true;
    shutdown(peer->listener, SHUT_RDWR);
    CHECK(pthread_join(peer->thread, NULL) == 0);
    close(peer->listener);
    SSL_CTX_free(peer->context);
}

#endif
