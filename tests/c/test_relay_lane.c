/* lane: bytes between two socket pairs, with times that the test makes up. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "relay/lane.h"
#include "relay/pace.h"

#define MS GP_NS_PER_MS

static uint8_t buffer[GP_LANE_READ_BYTES];

/* sender -> from | lane | to -> receiver */
struct road {
    struct gp_link_opts opts;
    struct gp_pace pace;
    struct gp_lane lane;
    int sender, from, to, receiver;
};

static void open_road(struct road *road, struct gp_link_opts opts)
{
    int in[2], out[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, in) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, out) == 0);
    *road = (struct road){.opts = opts, .sender = in[0], .from = in[1], .to = out[0], .receiver = out[1]};
    gp_pace_init(&road->pace, &road->opts, 1);
    gp_lane_init(&road->lane, &road->pace);
}

static void close_road(struct road *road)
{
    gp_lane_fini(&road->lane);
    close(road->sender);
    close(road->from);
    close(road->to);
    close(road->receiver);
}

static void say(const struct road *road, const char *text)
{
    CHECK(write(road->sender, text, strlen(text)) == (ssize_t)strlen(text));
}

/* What the receiver has: NULL for nothing yet, "" for the end. */
static const char *heard(const struct road *road)
{
    static char text[256];
    ssize_t size = read(road->receiver, text, sizeof text - 1);

    text[size > 0 ? size : 0] = '\0';
    return size < 0 ? NULL : text;
}

static bool hears(const struct road *road, const char *expected)
{
    const char *text = heard(road);

    return expected ? text && strcmp(text, expected) == 0 : text == NULL;
}

static void unshaped_goes_straight_through(void)
{
    struct road road;

    open_road(&road, (struct gp_link_opts){0});
    say(&road, "hello");
    CHECK(gp_lane_take_in(&road.lane, road.from, road.to, buffer, 0) == 5);
    CHECK(hears(&road, "hello") && gp_lane_due_ns(&road.lane) == UINT64_MAX);
    say(&road, "early"); /* before there is anywhere to go to */
    CHECK(gp_lane_take_in(&road.lane, road.from, -1, buffer, 0) == 5 && hears(&road, NULL));
    CHECK(gp_lane_room_at(&road.lane, 0) == GP_LANE_NOT_NOW);
    gp_lane_put_out(&road.lane, road.to, 0);
    CHECK(hears(&road, "early") && gp_lane_room_at(&road.lane, 0) == 0);
    close_road(&road);
}

static void delayed_comes_when_it_is_due(void)
{
    struct road road;

    open_road(&road, (struct gp_link_opts){.delay_ns = 10 * MS});
    say(&road, "one ");
    gp_lane_take_in(&road.lane, road.from, road.to, buffer, 100 * MS);
    say(&road, "two ");
    gp_lane_take_in(&road.lane, road.from, road.to, buffer, 105 * MS);
    CHECK(gp_lane_due_ns(&road.lane) == 110 * MS);
    gp_lane_put_out(&road.lane, road.to, 109 * MS);
    CHECK(hears(&road, NULL));
    gp_lane_put_out(&road.lane, road.to, 110 * MS);
    CHECK(hears(&road, "one ") && gp_lane_due_ns(&road.lane) == 115 * MS);
    gp_lane_put_out(&road.lane, road.to, 200 * MS);
    CHECK(hears(&road, "two ") && gp_lane_due_ns(&road.lane) == UINT64_MAX);
    close_road(&road);
}

static void jitter_keeps_the_order(void)
{
    struct road road;
    char sent[101] = "", got[101] = "";

    open_road(&road, (struct gp_link_opts){.delay_ns = MS, .jitter_ns = 50 * MS});
    for (unsigned i = 0; i < 100; i++) {
        char letter[2] = {(char)('!' + i % 90), '\0'};
        strcat(sent, letter);
        say(&road, letter);
        gp_lane_take_in(&road.lane, road.from, road.to, buffer, i * MS);
    }
    for (unsigned ms = 0; ms < 160; ms++) {
        gp_lane_put_out(&road.lane, road.to, ms * MS);
        const char *text = heard(&road);
        strcat(got, text ? text : "");
    }
    CHECK(strcmp(sent, got) == 0);
    close_road(&road);
}

static void the_end_comes_behind_all_else(void)
{
    struct road road;

    open_road(&road, (struct gp_link_opts){.delay_ns = 10 * MS});
    say(&road, "last words");
    shutdown(road.sender, SHUT_WR);
    gp_lane_take_in(&road.lane, road.from, road.to, buffer, 0);
    gp_lane_take_in(&road.lane, road.from, road.to, buffer, 5 * MS);
    CHECK(road.lane.ended && gp_lane_room_at(&road.lane, 5 * MS) == GP_LANE_NOT_NOW);
    gp_lane_put_out(&road.lane, road.to, 10 * MS);
    CHECK(hears(&road, "last words") && hears(&road, NULL) && road.lane.state == GP_LANE_OPEN);
    gp_lane_put_out(&road.lane, road.to, 15 * MS);
    CHECK(hears(&road, "") && road.lane.state == GP_LANE_CLOSED);
    close_road(&road);
}

/* Fill the sender's socket and relay until nothing moves any more. Returns what got into the lane. */
static size_t push(struct road *road, uint64_t now_ns)
{
    static uint8_t block[65536];
    size_t all = 0, got;

    do {
        while (write(road->sender, block, sizeof block) > 0)
            ;
        got = gp_lane_room_at(&road->lane, now_ns) == 0
                  ? gp_lane_take_in(&road->lane, road->from, road->to, buffer, now_ns)
                  : 0;
        all += got;
    } while (got > 0);
    return all;
}

static void a_slow_reader_holds_the_sender(void)
{
    struct road road;
    size_t in, out = 0;

    open_road(&road, (struct gp_link_opts){0});
    in = push(&road, 0);
    CHECK(road.lane.blocked && road.lane.held > 0 && road.lane.held <= GP_LANE_READ_BYTES);
    for (ssize_t size; out < in; out += (size_t)size) {
        size = read(road.receiver, buffer, sizeof buffer);
        CHECK(size > 0);
        gp_lane_put_out(&road.lane, road.to, 0);
    }
    CHECK(out == in && !road.lane.blocked && gp_lane_room_at(&road.lane, 0) == 0);
    close_road(&road);
}

static void a_full_wire_holds_the_sender(void)
{
    struct road road;

    open_road(&road, (struct gp_link_opts){.rate = 12500000}); /* 12.5 bytes in a microsecond */
    size_t at_once = push(&road, 0);
    CHECK(at_once > 12500 && at_once < 62500); /* 1 to 5 ms of the wire */
    uint64_t room_ns = gp_lane_room_at(&road.lane, 0);
    CHECK(room_ns > 0 && room_ns < 5 * MS && gp_lane_room_at(&road.lane, room_ns) == 0);
    size_t later = push(&road, 1000 * MS); /* the wire was idle: no credit for that */
    CHECK(later < 62500 + 1);
    close_road(&road);
}

/* There is nobody to be told on this side; the other lane reads the same socket. */
static void a_reader_that_is_gone_ends_it_quietly(void)
{
    struct road road;

    for (unsigned shaped = 0; shaped < 2; shaped++) {
        open_road(&road, (struct gp_link_opts){.delay_ns = shaped * MS});
        close(road.receiver);
        road.receiver = dup(road.to);
        say(&road, "anybody?");
        gp_lane_take_in(&road.lane, road.from, road.to, buffer, 0);
        gp_lane_put_out(&road.lane, road.to, MS);
        CHECK(road.lane.state == GP_LANE_CLOSED && road.lane.ended && road.lane.held == 0);
        close_road(&road);
    }
}

/* A reset of the sender's (read with unread data behind it) comes out as a cut, behind what came before. */
static void a_reset_is_passed_on(void)
{
    struct road road;

    open_road(&road, (struct gp_link_opts){.delay_ns = 10 * MS});
    say(&road, "half a mess");
    gp_lane_take_in(&road.lane, road.from, road.to, buffer, 0);
    CHECK(write(road.from, "unread", 6) == 6);
    close(road.sender);
    road.sender = dup(road.from);
    gp_lane_take_in(&road.lane, road.from, road.to, buffer, MS);
    CHECK(road.lane.ended && road.lane.state == GP_LANE_OPEN);
    gp_lane_put_out(&road.lane, road.to, 10 * MS);
    CHECK(hears(&road, "half a mess") && road.lane.state == GP_LANE_OPEN);
    gp_lane_put_out(&road.lane, road.to, 11 * MS);
    CHECK(road.lane.state == GP_LANE_CUT);
    close_road(&road);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    unshaped_goes_straight_through();
    delayed_comes_when_it_is_due();
    jitter_keeps_the_order();
    the_end_comes_behind_all_else();
    a_slow_reader_holds_the_sender();
    a_full_wire_holds_the_sender();
    a_reader_that_is_gone_ends_it_quietly();
    a_reset_is_passed_on();
    return 0;
}
