/* Tests of net/probe: a scripted peer on a thread for each thing an address can turn out to be. */
#include "net/probe.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"
#include "check.h"
#include "net/tls.h"
#include "scripted_peer.h"
#include "tls_peer.h"

static int look(const char *address, uint64_t timeout_ms, struct gp_probe *probe, struct gp_error *err)
{
    struct gp_wait wait = {.timeout_ns = timeout_ms * GP_NS_PER_MS};

    memset(probe, 0xee, sizeof *probe);
    *err = (struct gp_error){0};
    return gp_probe(address, NULL, &wait, probe, err);
}

/* The probe of this address fails as CONNECT, in one line with the address and `cause` in it. */
static void fails(const char *address, uint64_t timeout_ms, const char *cause)
{
    struct gp_probe probe;
    struct gp_error err;

    CHECK(look(address, timeout_ms, &probe, &err) == -1);
    if (!strstr(err.message, cause))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", cause, err.message);
    CHECK(strstr(err.message, cause));
    CHECK(strstr(err.message, address));
    CHECK(!strchr(err.message, '\n'));
    CHECK(err.code == GP_ERROR_CONNECT);
}

static void peer_fails(struct peer peer, const char *cause)
{
    uint64_t start_ns = gp_clock_now_ns();

    start_peer(&peer);
    fails(peer.address, 5000, cause);
    CHECK(peer.visits == 1);
    CHECK(gp_clock_now_ns() - start_ns < 2 * GP_NS_PER_S); /* a cause that shows is not waited for */
    stop_peer(&peer);
}

#define SAYS(literal) .says = literal, .size = sizeof literal - 1

/* MAX_CONCURRENT_STREAMS 100, then a WINDOW_UPDATE as servers send it along. */
#define SETTINGS "\0\0\6\4\0\0\0\0\0\0\3\0\0\0\144\0\0\4\10\0\0\0\0\0\0\1\0\0"

static const char HELLO[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
static const char GOODBYE[] = "\0\0\0\4\1\0\0\0\0\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0";

static void check_http2(struct peer *peer, const char *resolved, const char *authority)
{
    struct gp_probe probe;
    struct gp_error err;

    CHECK(look(peer->address, 5000, &probe, &err) == 0);
    CHECK(err.code == GP_ERROR_NONE);
    CHECK(strcmp(probe.resolved, resolved) == 0);
    CHECK(strcmp(probe.authority, authority) == 0);
    CHECK(probe.connect_ns > 0 && probe.connect_ns < GP_NS_PER_S);
    CHECK(probe.max_concurrent_streams == 100 && probe.initial_window_size == UINT64_MAX);
    stop_peer(peer);
    CHECK(peer->heard_size == sizeof HELLO + sizeof GOODBYE);
    CHECK(memcmp(peer->heard, HELLO, sizeof HELLO) == 0);
    CHECK(memcmp(peer->heard + sizeof HELLO, GOODBYE, sizeof GOODBYE) == 0);
}

static void http2_is_welcome(void)
{
    struct peer peer = {SAYS(SETTINGS), .linger = true};
    char resolved[200];

    start_peer(&peer);
    snprintf(resolved, sizeof resolved, "ipv4:%s", peer.address);
    check_http2(&peer, resolved, peer.address);
}

static void http2_in_single_bytes_is_welcome(void)
{
    struct peer peer = {SAYS(SETTINGS), .linger = true, .piecemeal = true, .reads = sizeof HELLO};
    char resolved[200];

    start_peer(&peer);
    snprintf(resolved, sizeof resolved, "ipv4:%s", peer.address);
    check_http2(&peer, resolved, peer.address);
}

static void ipv6_is_welcome(void)
{
    struct peer peer = {SAYS(SETTINGS), .linger = true};
    char resolved[200];

    peer.listener = listen_tcp(AF_INET6, peer.address, sizeof peer.address);
    if (peer.listener < 0)
        return; /* a machine without IPv6 */
    start_peer(&peer);
    snprintf(resolved, sizeof resolved, "ipv6:%s", peer.address);
    check_http2(&peer, resolved, peer.address);
}

static void names_are_resolved(void)
{
    struct peer peer = {SAYS(SETTINGS), .linger = true};
    char resolved[200], authority[200];

    start_peer(&peer);
    snprintf(resolved, sizeof resolved, "ipv4:%s", peer.address);
    snprintf(authority, sizeof authority, "localhost:%s", strchr(peer.address, ':') + 1);
    strcpy(peer.address, authority);
    check_http2(&peer, resolved, authority);
}

static void unix_sockets_are_welcome(void)
{
    char directory[] = "/tmp/gp-probe-XXXXXX", resolved[200];
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct peer peer = {SAYS(SETTINGS), .linger = true};

    CHECK(mkdtemp(directory));
    snprintf(un.sun_path, sizeof un.sun_path, "%s/a socket", directory);
    snprintf(peer.address, sizeof peer.address, "unix:%s", un.sun_path);
    fails(peer.address, 1000, "No such file");
    peer.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(peer.listener, (struct sockaddr *)&un, sizeof un) == 0);
    fails(peer.address, 1000, "refused");
    CHECK(listen(peer.listener, 1) == 0);
    start_peer(&peer);
    snprintf(resolved, sizeof resolved, "unix:%s/a%%20socket", directory);
    check_http2(&peer, resolved, "localhost");

    char before[200];
    CHECK(getcwd(before, sizeof before) && chdir(directory) == 0);
    fails("unix:a socket", 1000, "refused"); /* relative, and its owner is gone */
    CHECK(chdir(before) == 0);
    unlink(un.sun_path);
    rmdir(directory);
}

static void what_is_not_grpc_is_named(void)
{
    peer_fails((struct peer){SAYS("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), .reads = 24},
               "answers HTTP/1 (HTTP/1.1 400 Bad Request), not gRPC");
    peer_fails((struct peer){SAYS("HTTP/1.1 405 Not Allowed\r\n\r\n"), .linger = true},
               "HTTP/1.1 405 Not Allowed");
    peer_fails((struct peer){SAYS("<!DOCTYPE HTML>\n<html>Error 505</html>\n"), .reads = 24},
               "answers HTTP/1");
    peer_fails(
        (struct peer){
            SAYS("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"),
            .piecemeal = true, .reads = 24},
        "answers TLS; plaintext was asked for");
    peer_fails((struct peer){SAYS("\25\3\1\0\2\2\106"), .reads = 24}, "answers TLS; plaintext was asked for");
    peer_fails((struct peer){SAYS("\26\3\3\0\5hello"), .linger = true},
               "answers TLS; plaintext was asked for");
    peer_fails((struct peer){SAYS("SSH-2.0-OpenSSH_9.2\r\n"), .linger = true},
               "answers \"SSH-2.0-OpenSSH_9.2\", not gRPC");
    peer_fails((struct peer){SAYS("\0\0\7\4\0\0\0\0\0\0\0\0"), .linger = true},
               "00 00 07 04 00 00 00 00 00 00 00 00");
    peer_fails((struct peer){SAYS("\0\0\6\4\0\0\0\0\0\0\2\0\0\0\2"), .linger = true},
               "SETTINGS of a forbidden value (setting 2 is 2;");
    peer_fails((struct peer){SAYS("\1\2\3\4garbage"), .linger = true}, "not gRPC");
    peer_fails((struct peer){SAYS("\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\13"), .linger = true},
               "GOAWAY, error 11");
}

static void closing_is_named(void)
{
    peer_fails((struct peer){.reads = 24}, "closed the connection without a word (a TLS server or a proxy?)");
    peer_fails((struct peer){.reads = 0}, "closed the connection without a word");
    peer_fails((struct peer){.reads = 24, .reset = true}, "closed the connection without a word");
    peer_fails((struct peer){SAYS("\0\0\6\4\0\0\0\0\0\0\3"), .reads = 33},
               "closed the connection in the middle of its greeting (11 bytes)");
}

static void silence_ends_in_time(void)
{
    struct peer mute = {.linger = true}, slow = {SAYS("\0\0\6"), .linger = true};
    uint64_t start_ns = gp_clock_now_ns();

    start_peer(&mute);
    fails(mute.address, 150, "said nothing for 0.15");
    uint64_t took_ns = gp_clock_now_ns() - start_ns;
    CHECK(took_ns >= 150 * GP_NS_PER_MS && took_ns < GP_NS_PER_S);
    stop_peer(&mute);

    start_peer(&slow);
    fails(slow.address, 150, "fell silent in the middle of its greeting (3 bytes)");
    stop_peer(&slow);
}

static void refusal_is_named(void)
{
    char address[64];

    close(listen_tcp(AF_INET, address, sizeof address));
    fails(address, 1000, "connection refused");
}

static void unknown_hosts_are_named(void)
{
    fails("nosuch..host:80", 1000, "unknown host \"nosuch..host\" (");
    fails("[fe80::1%nosuchzone]:80", 1000, "unknown host \"fe80::1%nosuchzone\"");
}

/* A listener that accepts nothing and whose queue is full: the next SYN gets no answer. */
static void connecting_times_out(void)
{
    char address[64];
    int listener = listen_tcp(AF_INET, address, sizeof address), fillers[16];
    struct sockaddr_in in;
    socklen_t size = sizeof in;

    CHECK(listen(listener, 0) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&in, &size) == 0);
    for (int i = 0; i < 16; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&in, sizeof in);
    }
    usleep(20000);
    uint64_t start_ns = gp_clock_now_ns();
    fails(address, 200, "timed out connecting (no answer within 0.2");
    CHECK(gp_clock_now_ns() - start_ns < GP_NS_PER_S);
    for (int i = 0; i < 16; i++)
        close(fillers[i]);
    close(listener);
}

static void a_full_unix_queue_times_out(void)
{
    char path[] = "/tmp/gp-probe-XXXXXX", address[128];
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), fillers[4];

    CHECK(mkdtemp(path));
    snprintf(un.sun_path, sizeof un.sun_path, "%s/full", path);
    snprintf(address, sizeof address, "unix:%s", un.sun_path);
    CHECK(bind(listener, (struct sockaddr *)&un, sizeof un) == 0 && listen(listener, 0) == 0);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&un, sizeof un);
    }
    fails(address, 100, "timed out connecting");
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(listener);
    unlink(un.sun_path);
    rmdir(path);
}

/* A peer that closes when we do is waited for; one that does so at once costs no fixed time. One try in five
 * is enough, on a machine that has other work too. */
static void leaving_costs_no_fixed_time(void)
{
    struct peer peer = {SAYS(SETTINGS), .linger = true};
    struct gp_probe probe;
    struct gp_error err;
    uint64_t least_ns = UINT64_MAX;

    start_peer(&peer);
    for (int i = 0; i < 5; i++) {
        uint64_t start_ns = gp_clock_now_ns();
        CHECK(look(peer.address, 5000, &probe, &err) == 0);
        uint64_t took_ns = gp_clock_now_ns() - start_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    CHECK(least_ns < 60 * GP_NS_PER_MS);
    stop_peer(&peer);
}

static int count_only(void *context)
{
    ++*(int *)context;
    return 0;
}

/* Asking costs the caller a lock, so a talkative peer must not make it frequent. */
static void the_caller_is_asked_seldom(void)
{
    struct peer peer = {SAYS("HTTP/1.1 400 Bad Request\r\nX-Words: many, and each of them one letter at a "
                             "time, to take some time\r\n\r\n"),
                        .piecemeal = true};
    uint64_t start_ns = gp_clock_now_ns();
    int asked = 0;
    struct gp_wait wait = {.timeout_ns = 5 * GP_NS_PER_S, .interrupted = count_only, .context = &asked};
    struct gp_probe probe;

    start_peer(&peer);
    CHECK(gp_probe(peer.address, NULL, &wait, &probe, NULL) == -1);
    CHECK(asked > 0);
    CHECK((uint64_t)asked <= (gp_clock_now_ns() - start_ns) / (20 * GP_NS_PER_MS) + 1);
    stop_peer(&peer);
}

static int after_three(void *context)
{
    int *asked = context;

    return ++*asked >= 3;
}

static void a_caller_can_stop_it(void)
{
    struct peer mute = {.linger = true};
    int asked = 0;
    struct gp_wait wait = {.timeout_ns = UINT64_MAX, .interrupted = after_three, .context = &asked};
    struct gp_probe probe;
    struct gp_error err = {0};

    start_peer(&mute);
    uint64_t start_ns = gp_clock_now_ns();
    CHECK(gp_probe(mute.address, NULL, &wait, &probe, &err) == -1);
    uint64_t took_ns = gp_clock_now_ns() - start_ns;
    CHECK(err.code == GP_ERROR_STOPPED && strstr(err.message, mute.address));
    CHECK(asked == 3);
    CHECK(took_ns >= 50 * GP_NS_PER_MS && took_ns < GP_NS_PER_S);
    stop_peer(&mute);
}

static void nonsense_is_invalid(void)
{
    struct gp_probe probe;
    struct gp_error err;

    CHECK(look("localhost:99999", 1000, &probe, &err) == -1);
    CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, "localhost:99999"));
    struct gp_wait wait = {.timeout_ns = GP_NS_PER_S};
    CHECK(gp_probe("localhost", NULL, &wait, &probe, NULL) == -1);
    CHECK(gp_probe("nosuch..host:1", NULL, &wait, &probe, NULL) == -1);
}

/* --- TLS, whose matrix test_tls has: here that its words reach the caller, and HTTP/2 inside it is read. */

static int look_in_tls(const char *address, const struct gp_tls_opts *tls, struct gp_probe *probe,
                       struct gp_error *err)
{
    struct gp_wait wait = {.timeout_ns = 5 * GP_NS_PER_S};

    *err = (struct gp_error){0};
    return gp_probe(address, tls, &wait, probe, err);
}

static void tls_fails(const char *address, const struct gp_tls_opts *tls, const char *cause)
{
    struct gp_probe probe;
    struct gp_error err;

    CHECK(look_in_tls(address, tls, &probe, &err) == -1);
    if (!strstr(err.message, cause))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", cause, err.message);
    CHECK(strstr(err.message, cause) && strstr(err.message, address) && err.code == GP_ERROR_CONNECT);
}

static void tls_is_welcome_when_asked_for(void)
{
    struct gp_certificate good = local_certificate(NULL), other = local_certificate(NULL);
    struct tls_peer peer = {.identity = &good, .alpn = "h2", SAYS(SETTINGS)};
    struct gp_tls_opts tls = {.ca = good.cert, .verify = true};
    struct gp_probe probe;
    struct gp_error err;
    char address[64];

    tls_peer_start(&peer);
    snprintf(address, sizeof address, "localhost:%u", peer.port);
    CHECK(look_in_tls(address, &tls, &probe, &err) == 0);
    CHECK(probe.max_concurrent_streams == 100 && probe.handshake_ns > 0 && probe.connect_ns > 0);
    CHECK(strcmp(probe.resolved, peer.target) == 0 && strcmp(probe.authority, address) == 0);
    tls.ca = other.cert;
    tls_fails(address, &tls, "no TLS with localhost:");
    tls_fails(address, &tls, "an authority that is not trusted");
    fails(address, 5000, "closed the connection without a word (a TLS server or a proxy?)");
    tls.ca = "nothing";
    CHECK(look_in_tls(address, &tls, &probe, &err) == -1 && err.code == GP_ERROR_INVALID);
    tls_peer_stop(&peer);
    gp_certificate_fini(&good);
    gp_certificate_fini(&other);
}

static void no_tls_is_named_when_asked_for(void)
{
    struct peer chatty = {SAYS(SETTINGS), .linger = true}, mute = {.linger = true};
    struct gp_tls_opts tls = {.verify = false};
    struct gp_wait short_wait = {.timeout_ns = 150 * GP_NS_PER_MS};
    struct gp_probe probe;
    struct gp_error err = {0};

    start_peer(&chatty);
    tls_fails(chatty.address, &tls, "the server speaks plaintext; TLS was asked for");
    stop_peer(&chatty);
    start_peer(&mute);
    CHECK(gp_probe(mute.address, &tls, &short_wait, &probe, &err) == -1);
    CHECK(strstr(err.message, "said nothing in time") && err.code == GP_ERROR_CONNECT);
    stop_peer(&mute);
}

/* In TLS 1.3 the server's verdict on its client comes when the client already talks. */
static void a_missing_client_certificate_is_named(void)
{
    struct gp_certificate good = local_certificate(NULL);
    struct tls_peer peer = {.identity = &good, .alpn = "h2", .client_ca = good.cert, SAYS(SETTINGS)};
    struct gp_tls_opts tls = {.ca = good.cert, .verify = true};
    struct gp_probe probe;
    struct gp_error err;

    tls_peer_start(&peer);
    tls_fails(peer.target + strlen("ipv4:"), &tls, "wants a certificate of the client");
    tls.cert = good.cert;
    tls.key = good.key;
    CHECK(look_in_tls(peer.target + strlen("ipv4:"), &tls, &probe, &err) == 0);
    tls_peer_stop(&peer);
    gp_certificate_fini(&good);
}

static int lowest_free_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

int main(void)
{
    int fd;

    tls_is_welcome_when_asked_for(); /* before the count: OpenSSL may keep a descriptor for randomness */
    fd = lowest_free_fd();

    http2_is_welcome();
    http2_in_single_bytes_is_welcome();
    ipv6_is_welcome();
    names_are_resolved();
    unix_sockets_are_welcome();
    what_is_not_grpc_is_named();
    closing_is_named();
    silence_ends_in_time();
    refusal_is_named();
    unknown_hosts_are_named();
    connecting_times_out();
    a_full_unix_queue_times_out();
    leaving_costs_no_fixed_time();
    the_caller_is_asked_seldom();
    a_caller_can_stop_it();
    nonsense_is_invalid();
    no_tls_is_named_when_asked_for();
    a_missing_client_certificate_is_named();
    CHECK(lowest_free_fd() == fd); /* nothing was left open */
    return 0;
}
