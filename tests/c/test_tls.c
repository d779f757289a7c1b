/* Tests of net/tls and net/certificate: what is asked for, whom is trusted, and the words for what went
 * wrong, against servers of every sort. */
#include "net/tls.h"

#include <stdlib.h>

#include "scripted_peer.h"
#include "stream_fixture.h"
#include "tls_peer.h"

static struct gp_certificate authority, stranger, good, client;

static struct gp_tls_opts trusting(void)
{
    return (struct gp_tls_opts){.ca = authority.cert, .verify = true};
}

static struct gp_tls *tls_of(const struct gp_tls_opts *opts, const char *host)
{
    struct gp_tls *tls;
    struct gp_error err = {0};

    if (gp_tls_create(&tls, opts, host, &err) != 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(tls);
    return tls;
}

/* One connection to a peer of this sort; how the handshake, and then the first read, went. */
static enum gp_io visit_as(struct tls_peer peer, const struct gp_tls_opts *opts, const char *host,
                           struct gp_error *err)
{
    struct gp_tls *tls = tls_of(opts, host);
    struct gp_stream stream;
    enum gp_io io;

    tls_peer_start(&peer);
    *err = (struct gp_error){0};
    io = open_stream(&stream, &peer.endpoint, tls, err);
    if (io == GP_IO_OK) { /* in TLS 1.3 the server's verdict on the client comes after the handshake */
        const struct iovec piece = {(void *)"x", 1};
        uint8_t byte;
        size_t count;

        gp_stream_write(&stream, &piece, 1, &count, err); /* too late, perhaps, but there is still its word */
        io = read_exactly(&stream, &byte, 1, &count, err);
    }
    gp_stream_close(&stream);
    gp_stream_close(&stream);
    gp_tls_destroy(tls);
    tls_peer_stop(&peer);
    return io;
}

static void welcome(struct tls_peer peer, const struct gp_tls_opts *opts, const char *host)
{
    struct gp_error err;
    enum gp_io io = visit_as(peer, opts, host, &err);

    if (io != GP_IO_OK)
        fprintf(stderr, "%s: %s\n", host, err.message);
    CHECK(io == GP_IO_OK);
}

static void turned_away(struct tls_peer peer, const struct gp_tls_opts *opts, const char *host,
                        const char *cause)
{
    struct gp_error err;

    CHECK(visit_as(peer, opts, host, &err) == GP_IO_ERROR);
    if (!strstr(err.message, cause))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", cause, err.message);
    CHECK(strstr(err.message, cause) && err.code == GP_ERROR_CONNECT);
    CHECK(!strchr(err.message, '\n'));
}

static struct tls_peer server_with(const struct gp_certificate *identity)
{
    return (struct tls_peer){.identity = identity, .alpn = "h2"};
}

/* --- servers ----------------------------------------------------------------------------------- */

static void good_servers_are_welcome(void)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct gp_tls_opts opts = trusting();

    for (size_t i = 0; i < 2; i++) {
        struct tls_peer peer = server_with(&good);

        peer.min_proto = peer.max_proto = versions[i];
        welcome(peer, &opts, "localhost:443");
        welcome(peer, &opts, "127.0.0.1:443");
        welcome(peer, &opts, "[::1]:443");
        welcome(peer, &opts, "localhost");
    }
}

static void names_are_checked(void)
{
    struct gp_tls_opts opts = trusting();
    struct tls_peer peer = server_with(&good);

    turned_away(peer, &opts, "example.org:443", "not for \"example.org\" but for localhost, 127.0.0.1, ::1");
    turned_away(peer, &opts, "127.0.0.2:443", "not for \"127.0.0.2\" but for localhost");
    opts.server_name = "localhost";
    welcome(peer, &opts, "example.org:443");
    opts.server_name = "other";
    turned_away(peer, &opts, "localhost:443", "not for \"other\"");
}

/* A wildcard is a whole label (RFC 9525, 6.3). */
static void wildcards_are_whole_labels(void)
{
    static const char *const whole[] = {"*.example.test"}, *const part[] = {"f*.example.test"};
    struct gp_certificate_opts made = {
        .names = whole, .name_count = 1, .from_s = -TLS_DAY, .to_s = TLS_DAY, .signer = &authority};
    struct gp_certificate starred = make_certificate(made), half;
    struct gp_tls_opts opts = trusting();

    made.names = part;
    half = make_certificate(made);
    welcome(server_with(&starred), &opts, "foo.example.test");
    turned_away(server_with(&starred), &opts, "a.foo.example.test", "but for *.example.test");
    turned_away(server_with(&half), &opts, "foo.example.test", "but for f*.example.test");
    gp_certificate_fini(&starred);
    gp_certificate_fini(&half);
}

/* Names go into the ClientHello, addresses must not (RFC 6066, 3). */
static void names_are_told(void)
{
    struct gp_tls_opts opts = trusting();
    static const char *const hosts[] = {"localhost", "127.0.0.1"};

    for (int i = 0; i < 2; i++) {
        struct tls_peer peer = server_with(&good);
        struct gp_tls *tls = tls_of(&opts, hosts[i]);
        struct gp_stream stream;

        tls_peer_start(&peer);
        CHECK(open_stream(&stream, &peer.endpoint, tls, NULL) == GP_IO_OK);
        CHECK(peer.named == (i == 0));
        gp_stream_close(&stream);
        tls_peer_stop(&peer);
        gp_tls_destroy(tls);
    }
}

static void times_are_checked(void)
{
    static const char *const names[] = {"localhost"};
    struct gp_certificate_opts made = {.names = names, .name_count = 1, .signer = &authority};
    struct gp_certificate old, young;
    struct gp_tls_opts opts = trusting();

    made.from_s = -2 * TLS_DAY, made.to_s = -TLS_DAY;
    old = make_certificate(made);
    made.from_s = TLS_DAY, made.to_s = 2 * TLS_DAY;
    young = make_certificate(made);
    turned_away(server_with(&old), &opts, "localhost", "certificate has expired (");
    turned_away(server_with(&young), &opts, "localhost", "not valid yet (from ");
    gp_certificate_fini(&old);
    gp_certificate_fini(&young);
}

static void authorities_are_checked(void)
{
    struct gp_certificate strange = local_certificate(&stranger), self = local_certificate(NULL);
    struct gp_tls_opts opts = trusting();

    turned_away(server_with(&strange), &opts, "localhost", "an authority that is not trusted");
    turned_away(server_with(&self), &opts, "localhost", "an authority that is not trusted");
    opts.ca = self.cert;
    welcome(server_with(&self), &opts, "localhost");
    opts.ca = strange.cert; /* by an authority nobody knows, but this very certificate is trusted */
    welcome(server_with(&strange), &opts, "localhost");
    turned_away(server_with(&good), &opts, "localhost", "an authority that is not trusted");
    opts.ca = NULL; /* the system knows none of ours */
    turned_away(server_with(&good), &opts, "localhost", "an authority that is not trusted");
    opts.verify = false;
    welcome(server_with(&strange), &opts, "no.such.name");
    welcome(server_with(&self), &opts, "");
    gp_certificate_fini(&strange);
    gp_certificate_fini(&self);
}

static void alpn_is_insisted_on(void)
{
    struct tls_peer peer = server_with(&good);
    struct gp_tls_opts opts = trusting();

    peer.alpn = NULL;
    turned_away(peer, &opts, "localhost", "no ALPN \"h2\"");
    opts.verify = false;
    turned_away(peer, &opts, "localhost", "no ALPN \"h2\"");
}

static void keys_are_of_the_sort_asked_for(void)
{
    static const struct {
        enum gp_certificate_key key;
        int type, bits;
    } sorts[] = {{GP_CERTIFICATE_P256, EVP_PKEY_EC, 256}, {GP_CERTIFICATE_RSA_2048, EVP_PKEY_RSA, 2048}};
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    static const char *const names[] = {"localhost"};
    struct gp_tls_opts opts = trusting();

    for (int i = 0; i < 2; i++) {
        struct gp_certificate made = make_certificate((struct gp_certificate_opts){
            .names = names, .name_count = 1, .to_s = TLS_DAY, .signer = &authority, .key = sorts[i].key});
        BIO *text = BIO_new_mem_buf(made.key, -1);
        EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, NULL, NULL);

        CHECK(EVP_PKEY_base_id(key) == sorts[i].type);
        CHECK(EVP_PKEY_bits(key) == sorts[i].bits);
        for (int at = 0; at < 2; at++) {
            struct tls_peer peer = server_with(&made);

            peer.min_proto = peer.max_proto = versions[at];
            welcome(peer, &opts, "localhost");
        }
        EVP_PKEY_free(key);
        BIO_free(text);
        gp_certificate_fini(&made);
    }
}

static void versions_are_those_asked_for(void)
{
    struct tls_peer old = server_with(&good), new = server_with(&good);
    struct gp_tls_opts opts = trusting();

    old.max_proto = TLS1_2_VERSION;
    new.min_proto = TLS1_3_VERSION;
    opts.min_version = GP_TLS_1_3;
    turned_away(old, &opts, "localhost", "TLS version");
    welcome(new, &opts, "localhost");
    opts.min_version = GP_TLS_ANY;
    opts.max_version = GP_TLS_1_2;
    welcome(old, &opts, "localhost");
    turned_away(new, &opts, "localhost", "TLS version");
    opts.min_version = opts.max_version = GP_TLS_1_2;
    welcome(old, &opts, "localhost");
}

static void clients_show_their_certificate(void)
{
    struct gp_certificate strange = local_certificate(&stranger);
    struct tls_peer peer = server_with(&good);
    struct gp_tls_opts opts = trusting();

    peer.client_ca = authority.cert;
    turned_away(peer, &opts, "localhost", "wants a certificate of the client");
    opts.cert = client.cert, opts.key = client.key;
    welcome(peer, &opts, "localhost");
    opts.cert = strange.cert, opts.key = strange.key;
    turned_away(peer, &opts, "localhost",
                "does not trust the authority that signed the client's certificate");
    peer.max_proto = TLS1_2_VERSION;
    turned_away(peer, &opts, "localhost", "does not trust the authority");
    opts.cert = opts.key = NULL;
    turned_away(peer, &opts, "localhost", "wants a certificate of the client");
    gp_certificate_fini(&strange);
}

/* C core's only group comes first, so that it need not ask again. */
static void p256_needs_no_second_hello(void)
{
    struct gp_tls_opts opts = trusting();
    struct tls_peer peer = server_with(&good);
    struct gp_tls *tls = tls_of(&opts, "localhost");
    struct gp_stream stream;

    peer.groups = "P-256";
    tls_peer_start(&peer);
    CHECK(open_stream(&stream, &peer.endpoint, tls, NULL) == GP_IO_OK);
    CHECK(peer.retried == 0);
    gp_stream_close(&stream);
    tls_peer_stop(&peer);
    gp_tls_destroy(tls);

    peer = server_with(&good); /* and others are welcome, at that price */
    peer.groups = "X25519";
    welcome(peer, &opts, "localhost");
}

/* --- peers that are no TLS servers ------------------------------------------------------------- */

static void no_tls_here(struct peer peer, const char *cause)
{
    struct gp_tls_opts opts = trusting();
    struct gp_tls *tls = tls_of(&opts, "localhost");
    struct gp_error err = {0};
    struct gp_endpoint to;
    struct gp_stream stream;
    char target[200];

    start_peer(&peer);
    snprintf(target, sizeof target, "ipv4:%s", peer.address);
    CHECK(gp_endpoint_parse(target, &to, NULL) == 0);
    CHECK(open_stream(&stream, &to, tls, &err) == GP_IO_ERROR);
    if (!strstr(err.message, cause))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", cause, err.message);
    CHECK(strstr(err.message, cause));
    gp_stream_close(&stream);
    gp_tls_destroy(tls);
    stop_peer(&peer);
}

static void plaintext_is_recognised(void)
{
#define SAYS(literal) .says = literal, .size = sizeof literal - 1
    no_tls_here((struct peer){SAYS("\0\0\6\4\0\0\0\0\0\0\3\0\0\0\144"), .linger = true}, "speaks plaintext");
    no_tls_here((struct peer){SAYS("HTTP/1.1 400 Bad Request\r\n\r\n"), .reads = 24}, "speaks plaintext");
    no_tls_here((struct peer){.reads = 24, .reset = true}, "reset");
    no_tls_here((struct peer){.reads = 24}, "closed in the TLS handshake (a plaintext server?)");
}

/* --- what is asked for ------------------------------------------------------------------------- */

static void refused(const struct gp_tls_opts *opts, const char *host, const char *words)
{
    struct gp_tls *tls = (struct gp_tls *)"untouched";
    struct gp_error err = {0};

    CHECK(gp_tls_create(&tls, opts, host, &err) == -1 && tls == NULL);
    if (!strstr(err.message, words))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", words, err.message);
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, words));
}

static void nonsense_is_refused(void)
{
    static const char locked[] =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    char long_name[400];
    struct gp_tls_opts opts = {.ca = "no PEM", .verify = true};

    refused(&opts, "localhost", "TLS ca: there is no certificate");
    opts = trusting();
    opts.ca = good.key;
    refused(&opts, "localhost", "TLS ca");
    opts = trusting();
    opts.cert = client.cert;
    refused(&opts, "localhost", "TLS cert: certificate and key are given together");
    opts.cert = NULL, opts.key = client.key;
    refused(&opts, "localhost", "TLS key: certificate and key are given together");
    opts.cert = "no PEM";
    refused(&opts, "localhost", "TLS cert: there is no certificate");
    opts.cert = client.cert, opts.key = "no PEM";
    refused(&opts, "localhost", "TLS key: there is no private key");
    opts.key = locked; /* and nobody is asked for a password */
    refused(&opts, "localhost", "TLS key: there is no private key");
    opts.key = good.key;
    refused(&opts, "localhost", "TLS key: it does not belong");
    opts = trusting();
    opts.min_version = GP_TLS_1_3, opts.max_version = GP_TLS_1_2;
    refused(&opts, "localhost", "TLS max_version: it is below min_version");
    opts = trusting();
    refused(&opts, "", "TLS server_name");
    refused(&opts, NULL, "TLS server_name");
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    opts.server_name = long_name;
    refused(&opts, "localhost", "TLS server_name");
    gp_tls_destroy(NULL);
}

/* A chain of two: the server's certificate is signed by one that the authority has signed. */
static void a_chain_is_shown(void)
{
    const char *name = "middle";
    struct gp_certificate middle = make_certificate((struct gp_certificate_opts){.names = &name,
                                                                                 .name_count = 1,
                                                                                 .from_s = -TLS_DAY,
                                                                                 .to_s = TLS_DAY,
                                                                                 .authority = true,
                                                                                 .signer = &authority});
    struct gp_certificate leaf = local_certificate(&middle);
    struct tls_peer peer = server_with(&good);
    struct gp_tls_opts opts = trusting();
    char *chain = malloc(strlen(leaf.cert) + strlen(middle.cert) + 1);

    strcpy(chain, leaf.cert);
    strcat(chain, middle.cert);
    peer.client_ca = authority.cert;
    opts.cert = leaf.cert, opts.key = leaf.key;
    turned_away(peer, &opts, "localhost", "does not trust the authority");
    opts.cert = chain;
    welcome(peer, &opts, "localhost");
    free(chain);
    gp_certificate_fini(&leaf);
    gp_certificate_fini(&middle);
}

int main(void)
{
    authority = make_authority("ours");
    stranger = make_authority("not ours");
    good = local_certificate(&authority);
    client = local_certificate(&authority);
    good_servers_are_welcome();
    names_are_checked();
    wildcards_are_whole_labels();
    names_are_told();
    times_are_checked();
    authorities_are_checked();
    alpn_is_insisted_on();
    keys_are_of_the_sort_asked_for();
    versions_are_those_asked_for();
    clients_show_their_certificate();
    p256_needs_no_second_hello();
    plaintext_is_recognised();
    nonsense_is_refused();
    a_chain_is_shown();
    gp_certificate_fini(&authority);
    gp_certificate_fini(&stranger);
    gp_certificate_fini(&good);
    gp_certificate_fini(&client);
    return 0;
}
