/* handshake: parts, bytes and sessions of single connections, and peers with which there are none. */
#include "net/handshake.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/wait.h"
#include "net/tls.h"
#include "scripted_peer.h"
#include "tls_peer.h"

#define TIMES 4u

static struct gp_certificate identity;
static const struct gp_wait patient = {.timeout_ns = 5 * GP_NS_PER_S};

struct asked {
    enum gp_tls_version version;
    bool resume, without_alpn;
};

static void connect_often(struct asked asked, struct gp_handshake each[TIMES])
{
    struct tls_peer peer = {
        .identity = &identity, .alpn = asked.without_alpn ? NULL : "h2", .says = "hi", .size = 2};
    const struct gp_tls_opts opts = {
        .ca = identity.cert,
        .verify = true,
        .resume = asked.resume,
        .without_alpn = asked.without_alpn,
        .exact_reads = true,
        .min_version = asked.version,
        .max_version = asked.version,
    };
    struct gp_error err = {0};
    struct gp_tls *tls;

    tls_peer_start(&peer);
    CHECK(gp_tls_create(&tls, &opts, "localhost", &err) == 0);
    for (unsigned i = 0; i < TIMES; i++)
        CHECK(gp_handshake(&peer.endpoint, tls, &patient, &each[i], &err) == 0);
    gp_tls_destroy(tls);
    tls_peer_stop(&peer);
}

/* The signature of ECDSA takes a byte or two more or less; all else is the same each time. */
static bool alike(uint64_t a, uint64_t b)
{
    return a < b ? b - a <= 4 : a - b <= 4;
}

static void a_resumed_one_takes_fewer_bytes(enum gp_tls_version version)
{
    struct gp_handshake full[TIMES], resumed[TIMES], plain[TIMES];

    connect_often((struct asked){.version = version}, full);
    connect_often((struct asked){.version = version, .resume = true}, resumed);
    connect_often((struct asked){.version = version, .without_alpn = true}, plain);
    CHECK(!resumed[0].resumed);
    for (unsigned i = 0; i < TIMES; i++) {
        CHECK(full[i].connect_ns > 0 && full[i].tls_ns > 0 && full[i].settings_ns > 0 && !full[i].resumed);
        CHECK(alike(full[i].sent, full[0].sent) && alike(full[i].received, full[0].received));
        CHECK(plain[i].sent < full[i].sent); /* by the extension that asks for it */
        if (i == 0)
            continue;
        CHECK(resumed[i].resumed && resumed[i].sent == resumed[1].sent);
        CHECK(resumed[i].sent + resumed[i].received < full[i].sent + full[i].received);
        CHECK(resumed[i].received < full[i].received / 2); /* there is no certificate in it */
    }
}

static int visit(struct peer peer, const struct gp_wait *wait, struct gp_handshake *handshake,
                 struct gp_error *err)
{
    struct gp_endpoint endpoint;
    char target[180];

    start_peer(&peer);
    snprintf(target, sizeof target, "ipv4:%s", peer.address);
    CHECK(gp_endpoint_parse(target, &endpoint, NULL) == 0);
    int status = gp_handshake(&endpoint, NULL, wait, handshake, err);
    stop_peer(&peer);
    return status;
}

static void plaintext(void)
{
    const struct peer greets = {.says = "\0\0\0\4\0\0\0\0\0", .size = 9, .linger = true};
    const struct peer dismisses = {.reads = 33};
    struct gp_handshake handshake;
    struct gp_error err = {0};

    CHECK(visit(greets, &patient, &handshake, &err) == 0);
    CHECK(handshake.connect_ns > 0 && handshake.settings_ns > 0);
    CHECK(handshake.tls_ns == 0 && handshake.sent == 0 && handshake.received == 0 && !handshake.resumed);
    CHECK(visit(dismisses, &patient, &handshake, &err) == 0 && handshake.settings_ns == 0);
}

static int stop(void *context)
{
    return 1;
}

static void peers_that_do_not_answer(void)
{
    const struct peer silent = {.reads = 100};
    struct gp_handshake handshake;
    struct gp_error err = {0};
    struct gp_endpoint nobody;

    CHECK(visit(silent, &(struct gp_wait){.timeout_ns = 50 * GP_NS_PER_MS}, &handshake, &err) == -1);
    CHECK(err.code == GP_ERROR_CONNECT && strstr(err.message, "in time"));
    CHECK(visit(silent, &(struct gp_wait){.timeout_ns = UINT64_MAX, .interrupted = stop}, &handshake, &err) ==
          -1);
    CHECK(err.code == GP_ERROR_STOPPED);
    CHECK(gp_endpoint_parse("ipv4:127.0.0.1:1", &nobody, NULL) == 0);
    CHECK(gp_handshake(&nobody, NULL, &patient, &handshake, &err) == -1 && strstr(err.message, "refused"));
}

int main(void)
{
    identity = local_certificate(NULL);
    a_resumed_one_takes_fewer_bytes(GP_TLS_1_2);
    a_resumed_one_takes_fewer_bytes(GP_TLS_1_3);
    plaintext();
    peers_that_do_not_answer();
    gp_certificate_fini(&identity);
    return 0;
}
