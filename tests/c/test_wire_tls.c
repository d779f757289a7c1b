/* The transport "wire" over TLS: against the native server calls of every kind and size, resumption, client
 * certificates; and what turns a connection away is told before any call. */
#include "net/tls.h"
#include "tls_peer.h"
#include "tls_server.h"
#include "wire_fixture.h"

static struct gp_client_opts over_tls(const struct tls_server *tls, const struct gp_tls_opts *how)
{
    struct gp_client_opts opts = opts_of(&tls->server, GP_KIND_UNARY);

    opts.transport = "wire";
    opts.authority = "127.0.0.1:1"; /* whom the server's certificate is for */
    opts.tls = how;
    return opts;
}

static void welcome(const struct tls_server *tls, const struct gp_tls_opts *how)
{
    struct gp_client_opts opts = over_tls(tls, how);

    CHECK(run_calls(&opts, 8).classes[GP_CLASS_OK] == 8);
}

/* --- calls ------------------------------------------------------------------------------------- */

static void kinds_go_through(const struct tls_server *server, enum gp_tls_version version)
{
    static const char *const methods[] = {TEST_UNARY, TEST_SERVER_STREAM, TEST_CLIENT_STREAM, TEST_BIDI,
                                          TEST_BIDI_FREE};
    const struct gp_tls_opts how = {
        .ca = server->authority.cert, .verify = true, .min_version = version, .max_version = version};

    for (int kind = GP_KIND_UNARY; kind <= GP_KIND_BIDI_FREE; kind++) {
        struct gp_client_opts opts = over_tls(server, &how);

        opts.request.kind = (enum gp_kind)kind;
        opts.request.method = methods[kind];
        opts.request.messages = kind == GP_KIND_UNARY ? 0 : 5;
        opts.connections = 2;
        CHECK(run_calls(&opts, 64).classes[GP_CLASS_OK] == 64);
    }
}

static void large_messages_go_through(const struct tls_server *server)
{
    static uint8_t message[TEST_REQUEST_MAX + (200u << 10)];
    const struct gp_tls_opts how = {.ca = server->authority.cert, .verify = true};
    struct gp_client_opts opts = over_tls(server, &how);
    size_t size = test_request(message, 300u << 10);

    message[size++] = 0x1a; /* field 3, payload: of one field 2, the body */
    message[size++] = 0x84, message[size++] = 0x80, message[size++] = 0x0c;
    message[size++] = 0x12;
    message[size++] = 0x80, message[size++] = 0x80, message[size++] = 0x0c; /* 3 << 16 bytes of it */
    opts.request.message = message;
    opts.request.message_bytes = size + (3u << 16);
    CHECK(run_calls(&opts, 64).classes[GP_CLASS_OK] == 64);
}

static void a_load_goes_through(const struct tls_server *server)
{
    const struct gp_tls_opts how = {.ca = server->authority.cert, .verify = true};
    struct gp_client_opts opts = over_tls(server, &how);
    struct gp_client *client;
    struct gp_client_stats stats;

    opts.connections = 4;
    client = connected(&opts);
    CHECK(keep_calling(client, 64, 5000).classes[GP_CLASS_OK] == 5000);
    gp_client_stats(client, &stats);
    CHECK(stats.connected == 4 && stats.setups == 4 && stats.reconnects == 0 && stats.tls_resumed == 0);
    gp_client_destroy(client);
}

/* More connections than are set up at a time: the later ones find a session to resume. */
static void sessions_are_resumed(const struct tls_server *server, enum gp_tls_version version, bool resume)
{
    const struct gp_tls_opts how = {.ca = server->authority.cert,
                                    .verify = true,
                                    .resume = resume,
                                    .min_version = version,
                                    .max_version = version};
    struct gp_client_opts opts = over_tls(server, &how);
    struct gp_client *client;
    struct gp_client_stats stats;

    opts.connections = 200;
    client = connected(&opts);
    gp_client_stats(client, &stats);
    CHECK(stats.connected == 200);
    CHECK(resume ? stats.tls_resumed >= 72 : stats.tls_resumed == 0);
    gp_client_destroy(client);
}

static void a_lost_server_is_found_again(void)
{
    struct tls_server server;
    struct gp_tls_opts how = {.verify = true};
    struct gp_client_opts opts;
    struct gp_client *client;
    struct tally tally = {0};

    tls_server_start(&server, "127.0.0.1", false);
    how.ca = server.authority.cert;
    opts = over_tls(&server, &how);
    client = connected(&opts);
    CHECK(keep_calling(client, 8, 100).classes[GP_CLASS_OK] == 100);
    test_server_kill(&server.server);
    wait_a_while(client, &tally, 50 * GP_NS_PER_MS);
    start_calls(client, 8);
    collect_all(client, &tally, 8);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] == 8);
    gp_client_destroy(client);
    tls_server_stop(&server);
}

/* --- what turns a connection away -------------------------------------------------------------- */

static void turned_away(const struct tls_server *server, const struct gp_tls_opts *how, const char *authority,
                        const char *cause)
{
    struct gp_client_opts opts = over_tls(server, how);

    opts.authority = authority;
    opts.connections = 1000;
    check_refused(&opts, 10 * GP_NS_PER_S, cause);
}

static void mismatches_are_told_before_any_call(const struct tls_server *server)
{
    struct gp_certificate other = make_authority("other");
    struct gp_tls_opts how = {.ca = server->authority.cert, .verify = true};

    turned_away(server, &how, "localhost:1", "not for \"localhost\" but for 127.0.0.1");
    how.server_name = "example.test";
    turned_away(server, &how, "127.0.0.1:1", "not for \"example.test\"");
    how.server_name = NULL;
    how.ca = other.cert;
    turned_away(server, &how, "127.0.0.1:1", "an authority that is not trusted");
    turned_away(server, NULL, "127.0.0.1:1", "closed the connection without a word (does it speak TLS?)");
    how.verify = false;
    welcome(server, &how);
    gp_certificate_fini(&other);
}

static void plaintext_is_told(void)
{
    static struct http2_peer peer;
    const struct gp_tls_opts how = {.verify = false};
    struct gp_client_opts opts;

    peer = (struct http2_peer){.says = "\0\0\0\4\0\0\0\0\0", .says_size = 9};
    peer.talks_first = true;
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.tls = &how;
    check_refused(&opts, 10 * GP_NS_PER_S, "the server speaks plaintext; TLS was asked for");
    http2_peer_stop(&peer);
}

static void client_certificates_are_shown(void)
{
    struct tls_server server;
    struct gp_tls_opts how = {.verify = true};

    tls_server_start(&server, "127.0.0.1", true);
    how.ca = server.authority.cert;
    turned_away(&server, &how, "127.0.0.1:1",
                "want a certificate of the client"); /* C core itself does not say why */
    how.cert = server.own.cert;
    how.key = server.own.key;
    welcome(&server, &how);
    tls_server_stop(&server);
}

static void alpn_is_insisted_on(void)
{
    struct gp_certificate own = local_certificate(NULL);
    struct tls_peer peer = {.identity = &own};
    const struct gp_tls_opts how = {.ca = own.cert, .verify = true};
    struct gp_client_opts opts;

    tls_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.tls = &how;
    check_refused(&opts, 10 * GP_NS_PER_S, "no ALPN \"h2\"");
    tls_peer_stop(&peer);
    gp_certificate_fini(&own);
}

/* More than is read at a time, all of it there: the end of it lies within OpenSSL, where the descriptor does
 * not tell. */
static void nothing_is_left_lying(void)
{
    static char later[300017];
    struct gp_certificate own = local_certificate(NULL);
    struct tls_peer peer = {
        .identity = &own, .alpn = "h2", .says = "\0\0\0\4\0\0\0\0\0", .size = 9, .later = later};
    const struct gp_tls_opts how = {.ca = own.cert, .verify = true};
    struct gp_client_opts opts;
    struct gp_client *client;
    struct gp_client_stats stats = {0};
    struct tally tally = {0};

    peer.later_size = sizeof later;
    for (size_t at = 0; at < 300000; at += 1000) /* frames of a type that nobody knows */
        memcpy(later + at, "\0\3\337\200\0\0\0\0\0", 9);
    memcpy(later + 300000, "\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\0", 17); /* GOAWAY */
    tls_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.tls = &how;
    client = connected(&opts);
    wait_a_while(client, &tally, GP_NS_PER_MS); /* the preface is out */
    usleep(300000);
    for (unsigned i = 0; i < 100 && stats.reconnects == 0; i++) {
        wait_a_while(client, &tally, 20 * GP_NS_PER_MS);
        gp_client_stats(client, &stats);
    }
    CHECK(stats.reconnects > 0);
    gp_client_destroy(client);
    tls_peer_stop(&peer);
    gp_certificate_fini(&own);
}

static void nonsense_is_refused(void)
{
    struct gp_tls_opts how = {.ca = "no PEM", .verify = true};
    struct gp_client_opts opts = wire_opts("ipv4:127.0.0.1:1");
    struct gp_client *client;
    struct gp_error err = {0};

    opts.tls = &how;
    CHECK(gp_client_create(&client, &opts, &err) == -1 && !client);
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, "TLS ca"));
}

int main(void)
{
    struct tls_server server;

    tls_server_start(&server, "127.0.0.1", false);
    kinds_go_through(&server, GP_TLS_1_2);
    kinds_go_through(&server, GP_TLS_1_3);
    large_messages_go_through(&server);
    a_load_goes_through(&server);
    sessions_are_resumed(&server, GP_TLS_1_2, true);
    sessions_are_resumed(&server, GP_TLS_1_3, true);
    sessions_are_resumed(&server, GP_TLS_ANY, false);
    mismatches_are_told_before_any_call(&server);
    tls_server_stop(&server);
    a_lost_server_is_found_again();
    plaintext_is_told();
    client_certificates_are_shown();
    alpn_is_insisted_on();
    nothing_is_left_lying();
    nonsense_is_refused();
    return 0;
}
