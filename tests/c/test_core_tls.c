/* The core transport over TLS, against a real server: whom it trusts, what it shows, what it refuses. */
#include "core_fixture.h"
#include "net/tls.h"
#include "tls_peer.h"
#include "tls_server.h"

#define CALLS 20
#define BRIEFLY_NS (1500 * GP_NS_PER_MS)

static struct tls_server server;

static bool reaches(const struct gp_tls_opts *tls, const char *authority)
{
    struct gp_client_opts opts = opts_of(&server.server, GP_KIND_UNARY);
    struct gp_client *client;
    struct gp_error err = {0};
    struct tally tally = {0};

    opts.tls = tls;
    opts.authority = authority;
    CHECK(gp_client_create(&client, &opts, &err) == 0);
    bool connected = gp_client_connect(client, BRIEFLY_NS, NULL, &err) == 0;
    if (connected) {
        start_calls(client, CALLS);
        collect_all(client, &tally, CALLS);
    }
    gp_client_destroy(client);
    return connected && tally.classes[GP_CLASS_OK] == CALLS;
}

/* The certificate is for 127.0.0.1 alone. */
static void test_trust(void)
{
    struct gp_certificate other;
    const struct gp_certificate_opts root = {.from_s = -3600, .to_s = 3600, .authority = true};

    tls_server_start(&server, "127.0.0.1", false);
    CHECK(gp_certificate_make(&other, &root, NULL) == 0);
    CHECK(reaches(&(struct gp_tls_opts){.ca = server.authority.cert, .verify = true}, "127.0.0.1:1"));
    CHECK(!reaches(&(struct gp_tls_opts){.ca = other.cert, .verify = true}, "127.0.0.1:1"));
    CHECK(!reaches(&(struct gp_tls_opts){.verify = true}, "127.0.0.1:1"));
    CHECK(!reaches(&(struct gp_tls_opts){.ca = server.authority.cert, .verify = true}, "localhost:1"));
    CHECK(reaches(&(struct gp_tls_opts){.verify = false}, "localhost:1"));
    CHECK(!reaches(NULL, "127.0.0.1:1"));
    gp_certificate_fini(&other);
    tls_server_stop(&server);
}

static void test_name(void)
{
    tls_server_start(&server, "example.test", false);
    struct gp_tls_opts tls = {.ca = server.authority.cert, .verify = true};
    CHECK(!reaches(&tls, "127.0.0.1:1"));
    tls.server_name = "example.test";
    CHECK(reaches(&tls, "127.0.0.1:1"));
    tls.server_name = "another.test";
    CHECK(!reaches(&tls, "127.0.0.1:1"));
    tls_server_stop(&server);
}

static void test_client_certificate(void)
{
    tls_server_start(&server, "127.0.0.1", true);
    struct gp_tls_opts tls = {.ca = server.authority.cert, .verify = true};
    CHECK(!reaches(&tls, "127.0.0.1:1"));
    tls.cert = server.own.cert;
    tls.key = server.own.key;
    CHECK(reaches(&tls, "127.0.0.1:1"));
    tls.ca = NULL;
    tls.verify = false;
    CHECK(reaches(&tls, "127.0.0.1:1"));
    tls_server_stop(&server);
}

/* A peer that greets in HTTP/2 and then speaks nonsense, so that each connection is soon followed by
 * another. */
static int resumed_by(bool resume)
{
    static const char settings[9] = {0, 0, 0, 4};
    struct gp_certificate own = local_certificate(NULL);
    struct tls_peer peer = {
        .identity = &own, .alpn = "h2", .says = settings, .size = sizeof settings, .echoes = 1};
    const struct gp_tls_opts tls = {.ca = own.cert, .verify = true, .resume = resume};
    struct gp_event event;
    struct gp_error err = {0};
    struct gp_client *client;

    tls_peer_start(&peer);
    struct test_server server = {0};
    strcpy(server.target, peer.target);
    struct gp_client_opts opts = opts_of(&server, GP_KIND_UNARY);
    opts.tls = &tls;
    opts.authority = "localhost:1";
    CHECK(gp_client_create(&client, &opts, &err) == 0);
    gp_client_connect(client, WAIT_NS, NULL, &err);
    for (int i = 0; i < 500 && peer.established < 2; i++)
        gp_client_poll(client, &event, 1, gp_clock_now_ns() + 20 * GP_NS_PER_MS);
    gp_client_destroy(client);
    tls_peer_stop(&peer);
    gp_certificate_fini(&own);
    CHECK(peer.established >= 2);
    return peer.resumed;
}

static void test_sessions(void)
{
    CHECK(resumed_by(true) >= 1);
    CHECK(resumed_by(false) == 0);
}

static void test_many_connections(void)
{
    struct gp_client_opts opts;

    tls_server_start(&server, "127.0.0.1", false);
    struct gp_tls_opts tls = {.ca = server.authority.cert, .verify = true};
    opts = opts_of(&server.server, GP_KIND_BIDI);
    opts.authority = "127.0.0.1:1";
    opts.tls = &tls;
    opts.connections = 50;
    struct tally tally = run_calls(&opts, 64);
    CHECK(tally.classes[GP_CLASS_OK] == 64 && tally.messages_received == 64 * 5);
    tls_server_stop(&server);
}

static void test_versions_are_not_ours_to_choose(void)
{
    const struct gp_tls_opts tls = {.verify = true, .max_version = GP_TLS_1_2};
    struct test_server nobody = {.target = "ipv4:127.0.0.1:1"};
    struct gp_client_opts opts = opts_of(&nobody, GP_KIND_UNARY);
    struct gp_client *client;
    struct gp_error err = {0};

    opts.tls = &tls;
    CHECK(gp_client_create(&client, &opts, &err) == -1 && !client);
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, "max_version"));
}

int main(void)
{
    test_trust();
    test_name();
    test_client_certificate();
    test_sessions();
    test_many_connections();
    test_versions_are_not_ours_to_choose();
    return 0;
}
