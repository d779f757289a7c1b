/* The transport "wire" against peers that misbehave: every call comes back once, in the right class and with
 * its cause; connections come back; memory and time are bounded. */
#include <malloc.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire_fixture.h"

static struct gp_client *client_of(const struct http2_peer *peer, uint32_t connections)
{
    struct gp_client_opts opts = wire_opts(peer->target);

    opts.connections = connections;
    return connected(&opts);
}

static struct gp_client_stats stats_of(const struct gp_client *client)
{
    struct gp_client_stats stats;

    gp_client_stats(client, &stats);
    return stats;
}

/* --- a good one, over every sort of socket ----------------------------------------------------- */

static void good_peers_answer(int family)
{
    static struct http2_peer peer;
    struct gp_client *client;

    peer = (struct http2_peer){.family = family};
    http2_peer_start(&peer);
    client = client_of(&peer, 3);
    CHECK(keep_calling(client, 64, 5000).classes[GP_CLASS_OK] == 5000);
    CHECK(peer.accepted == 3 && peer.requests == 5000);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* --- closed at every stage --------------------------------------------------------------------- */

static void refused_at(enum http2_peer_end end, bool reset, const char *word)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;

    peer = (struct http2_peer){.end = end, .reset = reset};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.connections = 250;
    check_refused(&opts, 10 * GP_NS_PER_S, word);
    CHECK(peer.accepted <= 128); /* the others would have fared the same */
    http2_peer_stop(&peer);
}

static void early_ends_are_no_connection(void)
{
    refused_at(END_AT_ONCE, true, "reset by the peer");
    refused_at(END_AFTER_PREFACE, false, "the peer closed the connection");
    refused_at(END_AFTER_PREFACE, true, "reset by the peer");
}

static void a_wrong_greeting_is_named(void)
{
    static const char http1[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    static struct http2_peer peer;
    struct gp_client_opts opts;

    peer = (struct http2_peer){.says = http1, .says_size = sizeof http1 - 1};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    check_refused(&opts, 10 * GP_NS_PER_S, "HTTP/1");
    http2_peer_stop(&peer);
}

static void silence_ends_in_time(void)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;

    peer = (struct http2_peer){.silent = true};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.connections = 250;
    check_refused(&opts, 300 * GP_NS_PER_MS, "did not answer in HTTP/2");
    CHECK(peer.accepted == 128); /* so many at a time */
    http2_peer_stop(&peer);
}

static void nobody_there_is_told_at_once(void)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;
    uint64_t start_ns = gp_clock_now_ns();

    peer = (struct http2_peer){0};
    http2_peer_start(&peer);
    http2_peer_stop(&peer);
    opts = wire_opts(peer.target);
    opts.connections = 1000;
    check_refused(&opts, 10 * GP_NS_PER_S, "connection refused");
    CHECK(gp_clock_now_ns() - start_ns < 2 * GP_NS_PER_S);
    opts.target = "unix:/nosuch/socket";
    check_refused(&opts, 10 * GP_NS_PER_S, "No such file");
}

/* Connections that are lost in the middle of calls: those in flight are TRANSPORT, all others OK. */
static void lost_in_the_middle(enum http2_peer_end end, bool reset, uint32_t connections, const char *cause)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally;

    peer = (struct http2_peer){.end = end, .reset = reset, .end_after = 50, .bad = 10};
    http2_peer_start(&peer);
    client = client_of(&peer, connections);
    tally = keep_calling(client, 16, 5000);
    stats = stats_of(client);
    CHECK(peer.ended == 10 && stats.reconnects == 10 && stats.connected == connections);
    CHECK(tally.classes[GP_CLASS_OK] + tally.classes[GP_CLASS_TRANSPORT] == 5000);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] >= 10 && tally.classes[GP_CLASS_TRANSPORT] <= 10 * 16);
    if (cause_count(client, GP_CLASS_TRANSPORT, cause) != tally.classes[GP_CLASS_TRANSPORT])
        show_causes(client);
    CHECK(cause_count(client, GP_CLASS_TRANSPORT, cause) == tally.classes[GP_CLASS_TRANSPORT]);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

static void losses_cost_the_calls_in_flight(void)
{
    lost_in_the_middle(END_AFTER_REQUESTS, false, 1, "");
    lost_in_the_middle(END_AFTER_REQUESTS, true, 3, "reset by the peer");
    lost_in_the_middle(END_IN_ANSWER, false, 3, "");
    lost_in_the_middle(END_IN_ANSWER, true, 1, "reset by the peer");
}

/* A peer that greets and goes, each time, is not asked in a loop. */
static void useless_connections_are_paused_for(void)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct tally tally = {0};

    for (unsigned way = 0; way < 2; way++) {
        peer = (struct http2_peer){0};
        http2_peer_start(&peer);
        client = client_of(&peer, 1);
        CHECK(keep_calling(client, 4, 100).classes[GP_CLASS_OK] == 100);
        http2_peer_stop(&peer);
        peer.end = way == 0 ? END_AFTER_SETTINGS : END_NEVER;
        peer.goaway_at_once = way == 1;
        peer.accepted = 0;
        http2_peer_start(&peer);
        wait_a_while(client, &tally, 500 * GP_NS_PER_MS);
        CHECK(peer.accepted >= 3 && peer.accepted <= 8); /* after 0, 20, 40, ... ms */
        gp_client_destroy(client);
        http2_peer_stop(&peer);
    }
}

/* Without a connection calls wait for the one under way, and fail at once when there is none. */
static void calls_without_a_connection_end_soon(void)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct tally tally = {0};
    uint64_t start_ns;

    peer = (struct http2_peer){0};
    http2_peer_start(&peer);
    client = client_of(&peer, 1);
    CHECK(keep_calling(client, 4, 100).classes[GP_CLASS_OK] == 100);
    http2_peer_stop(&peer); /* gone: the next attempt is refused */
    wait_a_while(client, &tally, 100 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    start_ns = gp_clock_now_ns();
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] == 64 && gp_clock_now_ns() - start_ns < 500 * GP_NS_PER_MS);
    CHECK(cause_count(client, GP_CLASS_TRANSPORT, "connection refused") == 64);

    peer.silent = true; /* there, and says nothing: calls wait a second, and are told what for */
    http2_peer_start(&peer);
    for (unsigned i = 0; i < 200 && peer.accepted < 2; i++)
        wait_a_while(client, &tally, 10 * GP_NS_PER_MS);
    tally = (struct tally){0};
    start_ns = gp_clock_now_ns();
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] == 64);
    CHECK(gp_clock_now_ns() - start_ns >= GP_NS_PER_S && gp_clock_now_ns() - start_ns < 2 * GP_NS_PER_S);
    tally = (struct tally){0}; /* and cancelling ends them earlier */
    start_calls(client, 64);
    collect(client, &tally, 64, 20 * GP_NS_PER_MS);
    gp_client_cancel_all(client);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_CANCELLED] == 64);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

static void waiting_calls_keep_their_deadline(void)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct tally tally = {0};
    uint64_t start_ns;

    peer = (struct http2_peer){0};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.request.deadline_ns = 100 * GP_NS_PER_MS;
    client = connected(&opts);
    http2_peer_stop(&peer);
    peer.silent = true;
    http2_peer_start(&peer);
    for (unsigned i = 0; i < 200 && peer.accepted < 2; i++)
        wait_a_while(client, &tally, 10 * GP_NS_PER_MS);
    start_ns = gp_clock_now_ns();
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 64);
    CHECK(gp_clock_now_ns() - start_ns >= 99 * GP_NS_PER_MS &&
          gp_clock_now_ns() - start_ns < 600 * GP_NS_PER_MS);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* Streams without a bound that wait for a connection when they are to end, end on it. */
static void waiting_streams_end_too(void)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct tally tally = {0};

    peer = (struct http2_peer){0};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.request.kind = GP_KIND_BIDI;
    client = connected(&opts);
    http2_peer_stop(&peer);
    peer.silent = true;
    http2_peer_start(&peer);
    for (unsigned i = 0; i < 200 && peer.accepted < 2; i++)
        wait_a_while(client, &tally, 10 * GP_NS_PER_MS);
    start_calls(client, 16);
    collect(client, &tally, 16, 20 * GP_NS_PER_MS);
    gp_client_end(client);
    peer.silent = false;
    collect_all(client, &tally, 16);
    CHECK(tally.classes[GP_CLASS_OK] == 16 && tally.messages_received == 16);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* What the peer said before it reset the connection is read, also when the reset is met in writing. */
static void last_words_are_heard(void)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct tally tally = {0};

    peer = (struct http2_peer){.parts = true};
    http2_peer_start(&peer);
    client = client_of(&peer, 1);
    CHECK(keep_calling(client, 4, 100).classes[GP_CLASS_OK] == 100);
    http2_peer_stop(&peer); /* nobody polls meanwhile */
    start_calls(client, 16);
    collect_all(client, &tally, 16);
    CHECK(tally.classes[GP_CLASS_TRANSPORT] == 16);
    CHECK(stats_of(client).retried == 16); /* it said that it had begun none of them */
    gp_client_destroy(client);
}

/* --- GOAWAY ------------------------------------------------------------------------------------ */

/* Every connection says GOAWAY after some calls, some of which it does not begin: no call is lost. */
static void goaway_loses_no_call(uint32_t connections, bool refuses)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally;

    peer = (struct http2_peer){.goaway_after = 100, .goaway_refuses = refuses};
    http2_peer_start(&peer);
    client = client_of(&peer, connections);
    tally = keep_calling(client, 32, 20000);
    stats = stats_of(client);
    if (tally.classes[GP_CLASS_OK] != 20000)
        show_causes(client);
    CHECK(tally.classes[GP_CLASS_OK] == 20000);
    CHECK(stats.reconnects >= 20000 / 100 - connections);
    CHECK(!refuses || stats.retried > 0);
    for (unsigned i = 0; i < 500 && peer.live > connections + 1; i++)
        wait_a_while(client, &tally, 10 * GP_NS_PER_MS);
    CHECK(peer.live <= connections + 1); /* those that were left have been closed */
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* --- REFUSED_STREAM ---------------------------------------------------------------------------- */

static void retries_count_from_the_first_try(struct gp_client *client, uint64_t sent_by_ns, size_t calls)
{
    uint64_t until_ns = gp_clock_now_ns() + WAIT_NS;
    struct gp_event events[64];

    for (size_t finished = 0; finished < calls && gp_clock_now_ns() < until_ns;) {
        size_t came = gp_client_poll(client, events, 64, until_ns);

        for (size_t i = 0; i < came; i++)
            CHECK(events[i].class == GP_CLASS_OK && events[i].sent_ns <= sent_by_ns);
        finished += came;
    }
    CHECK(stats_of(client).retried == calls);
}

static void refused_streams_are_sent_again_once(void)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally;

    peer = (struct http2_peer){.refuses = 16};
    http2_peer_start(&peer);
    client = client_of(&peer, 2);
    tally = keep_calling(client, 32, 1000);
    stats = stats_of(client);
    CHECK(tally.classes[GP_CLASS_OK] == 1000 && stats.retried == 32 && peer.requests == 1032);
    gp_client_destroy(client);
    http2_peer_stop(&peer);

    peer = (struct http2_peer){.refuses = 20};
    http2_peer_start(&peer);
    client = client_of(&peer, 1);
    start_calls(client, 20);
    retries_count_from_the_first_try(client, gp_clock_now_ns(), 20);
    gp_client_destroy(client);
    http2_peer_stop(&peer);

    peer = (struct http2_peer){.refuses = 1000000};
    http2_peer_start(&peer);
    client = client_of(&peer, 2);
    tally = keep_calling(client, 32, 1000);
    stats = stats_of(client);
    CHECK(tally.classes[GP_CLASS_UNAVAILABLE] == 1000 && stats.retried == 1000 && peer.requests == 2000);
    CHECK(cause_count(client, GP_CLASS_UNAVAILABLE, "REFUSED_STREAM") == 1000);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* --- peers that do not do their part ----------------------------------------------------------- */

static void bad_statuses_have_their_cause(void)
{
    static const char none[] = "\x00\x01x\x01y";
    static struct http2_peer peer;
    struct gp_client *client;

    peer = (struct http2_peer){.trailers = none, .trailers_size = sizeof none - 1};
    http2_peer_start(&peer);
    client = client_of(&peer, 1);
    CHECK(keep_calling(client, 16, 500).classes[GP_CLASS_UNKNOWN] == 500);
    CHECK(cause_count(client, GP_CLASS_UNKNOWN, "without grpc-status") == 500);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

static void a_mute_peer_costs_the_deadline(void)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct tally tally = {0};

    peer = (struct http2_peer){.mute = true};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.request.deadline_ns = 50 * GP_NS_PER_MS;
    client = connected(&opts);
    start_calls(client, 64);
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 64);
    CHECK(tally.shortest_ns >= 49 * GP_NS_PER_MS && tally.longest_ns < GP_NS_PER_S);
    tally = (struct tally){0};
    for (unsigned i = 0; i < 500 && peer.resets < 64; i++)
        wait_a_while(client, &tally, 10 * GP_NS_PER_MS);
    CHECK(peer.resets == 64); /* the peer is told that nobody waits any more */
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* A server cancels too what is past its deadline. A client that was kept from its work finds that and its own
 * deadline at once. */
static void a_late_client_blames_the_deadline(void)
{
    static const char cancelled[] = "\x00\x0bgrpc-status\x01"
                                    "1";
    static struct http2_peer peer;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct gp_event event;
    struct tally tally = {0};

    peer = (struct http2_peer){.trailers = cancelled, .trailers_size = sizeof cancelled - 1};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.request.deadline_ns = 50 * GP_NS_PER_MS;
    client = connected(&opts);
    peer.paused = true;
    usleep(50000); /* it sees that within 10 ms */
    start_calls(client, 8);
    CHECK(gp_client_poll(client, &event, 1, 0) == 0); /* they are sent, and nothing is read any more */
    peer.paused = false;
    usleep(100000);
    collect_all(client, &tally, 8);
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] == 8);
    tally = (struct tally){0};
    start_calls(client, 8);
    collect_all(client, &tally, 8);
    CHECK(tally.classes[GP_CLASS_CANCELLED] == 8); /* in time, it is what the server says */
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* A peer that never reads: calls end by their deadlines, and what is put before it is bounded. */
static void a_deaf_peer_costs_bounded_memory(void)
{
    static struct http2_peer peer;
    struct gp_client_opts opts;
    struct gp_client *client;
    struct tally tally = {0};
    uint64_t ids[64], start_ns;
    struct gp_event events[64];
    size_t before, after = 0;

    peer = (struct http2_peer){.deaf = true};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.max_in_flight = CALLS_MAX;
    opts.request.deadline_ns = GP_NS_PER_MS;
    client = connected(&opts);
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    start_calls(client, CALLS_MAX);
    start_ns = gp_clock_now_ns();
    while (tally.classes[GP_CLASS_DEADLINE_EXCEEDED] < 500000 && gp_clock_now_ns() - start_ns < WAIT_NS) {
        size_t came = gp_client_poll(client, events, 64, gp_clock_now_ns() + 10 * GP_NS_PER_MS);

        for (size_t i = 0; i < came; i++) {
            ids[i] = events[i].id;
            tally.classes[events[i].class]++;
        }
        gp_client_submit(client, ids, came);
    }
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    CHECK(tally.classes[GP_CLASS_DEADLINE_EXCEEDED] >= 500000); /* 20 MB and more of frames */
    CHECK(after < before + (16u << 20));
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

static void a_deaf_peer_is_left_alone_until_it_reads(bool wide)
{
    static struct http2_peer peer;
    static uint8_t message[300000];
    struct gp_client_opts opts;
    struct gp_client *client;
    struct gp_client_stats stats;
    struct tally tally = {0};

    memset(message, 0, sizeof message);
    peer = (struct http2_peer){.wide = wide};
    http2_peer_start(&peer);
    opts = wire_opts(peer.target);
    opts.request.message = message;
    opts.request.message_bytes = wide ? sizeof message : 60000; /* within one window, or beyond many */
    client = connected(&opts);
    peer.paused = true;
    start_calls(client, 64);
    collect(client, &tally, 64, 200 * GP_NS_PER_MS);
    CHECK(tally.finished == 0);
    peer.paused = false;
    collect_all(client, &tally, 64);
    CHECK(tally.classes[GP_CLASS_OK] == 64);
    stats = stats_of(client);
    CHECK(stats.messages_sent == 64 && stats.reconnects == 0);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

static void the_limit_on_streams_is_kept(void)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct gp_client_stats stats;

    peer = (struct http2_peer){.max_streams = 3};
    http2_peer_start(&peer);
    client = client_of(&peer, 2);
    CHECK(keep_calling(client, 64, 2000).classes[GP_CLASS_OK] == 2000);
    stats = stats_of(client);
    CHECK(stats.peer.max_concurrent_streams == 3);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
}

/* --- ports ------------------------------------------------------------------------------------- */

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool good = file && fputs(text, file) >= 0;

    return file && fclose(file) == 0 && good;
}

static bool raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool good = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;

    close(fd);
    return good;
}

/* In a network of its own, where there are ten ports to connect from. */
static int in_a_small_network(void)
{
    static struct http2_peer peer;
    struct gp_client *client;
    struct gp_client_stats stats;

    if ((unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) || !raise_loopback() ||
        !write_file("/proc/sys/net/ipv4/ip_local_port_range", "40000 40009"))
        return 77;
    peer = (struct http2_peer){.port = 5000};
    http2_peer_start(&peer);
    client = client_of(&peer, 25);
    CHECK(keep_calling(client, 64, 1000).classes[GP_CLASS_OK] == 1000);
    stats = stats_of(client);
    CHECK(stats.connected == 25 && peer.accepted == 25);
    gp_client_destroy(client);
    http2_peer_stop(&peer);
    return 0;
}

static void ports_that_run_short_are_found_elsewhere(void)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0)
        _exit(in_a_small_network());
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77); /* 77: such a network may not be made */
    if (WEXITSTATUS(status) == 77)
        fprintf(stderr, "skipped: no network of one's own may be made here\n");
}

int main(void)
{
    ports_that_run_short_are_found_elsewhere(); /* first: it forks */
    good_peers_answer(AF_INET);
    good_peers_answer(AF_INET6);
    good_peers_answer(AF_UNIX);
    early_ends_are_no_connection();
    a_wrong_greeting_is_named();
    silence_ends_in_time();
    nobody_there_is_told_at_once();
    losses_cost_the_calls_in_flight();
    useless_connections_are_paused_for();
    calls_without_a_connection_end_soon();
    waiting_calls_keep_their_deadline();
    waiting_streams_end_too();
    last_words_are_heard();
    goaway_loses_no_call(1, false);
    goaway_loses_no_call(1, true);
    goaway_loses_no_call(3, true);
    refused_streams_are_sent_again_once();
    bad_statuses_have_their_cause();
    a_mute_peer_costs_the_deadline();
    a_late_client_blames_the_deadline();
    a_deaf_peer_costs_bounded_memory();
    a_deaf_peer_is_left_alone_until_it_reads(false);
    a_deaf_peer_is_left_alone_until_it_reads(true);
    the_limit_on_streams_is_kept();
    return 0;
}
