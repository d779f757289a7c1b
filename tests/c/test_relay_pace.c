/* pace: the arithmetic of a link, without a socket or a clock. */
#include "base/clock.h"
#include "check.h"
#include "relay/pace.h"

#define MBIT_100 12500000u /* bytes per second */

static struct gp_pace pace_of(const struct gp_link_opts *opts)
{
    struct gp_pace pace;

    gp_pace_init(&pace, opts, 1);
    return pace;
}

static void nothing_is_shaped_by_default(void)
{
    const struct gp_link_opts opts = {0};
    struct gp_pace pace = pace_of(&opts);

    CHECK(!gp_pace_shapes(&pace) && gp_pace_full_until(&pace, 5) == 0 && gp_pace_socket_bytes(&opts) == 0);
    CHECK(gp_pace_send(&pace, 1 << 20, 7) == 7);
}

/* A sender that always has something: bytes / time is the rate, whatever the size of the pieces. */
static void rate_is_exact(void)
{
    for (uint64_t rate = 1000; rate <= 1250000000; rate *= 10) {
        const struct gp_link_opts opts = {.rate = rate, .delay_ns = 10 * GP_NS_PER_MS};
        struct gp_pace pace = pace_of(&opts);
        uint64_t due_ns = 0, bytes = 0;

        for (unsigned i = 0; i < 10000; i++, bytes += 1 + i % 1400)
            due_ns = gp_pace_send(&pace, 1 + i % 1400, 0);
        double seconds = (double)(due_ns - opts.delay_ns) / (double)GP_NS_PER_S;
        double share = (double)bytes / seconds / (double)rate;
        CHECK(share > 0.999 && share < 1.001);
    }
}

static void a_wire_that_was_idle_takes_no_credit(void)
{
    const struct gp_link_opts opts = {.rate = MBIT_100};
    struct gp_pace pace = pace_of(&opts);

    CHECK(gp_pace_send(&pace, 12500, 0) == GP_NS_PER_MS);
    CHECK(gp_pace_send(&pace, 12500, 500 * GP_NS_PER_MS) == 501 * GP_NS_PER_MS);
    CHECK(gp_pace_send(&pace, 12500, 500 * GP_NS_PER_MS) == 502 * GP_NS_PER_MS);
}

/* Whoever wakes late finds what had been waiting: the rate is kept, but for a pause that is too long. */
static void lateness_costs_no_rate_while_senders_wait(void)
{
    const struct gp_link_opts opts = {.rate = MBIT_100};
    struct gp_pace pace = pace_of(&opts);

    CHECK(gp_pace_send(&pace, 12500, 0) == GP_NS_PER_MS);
    gp_pace_press(&pace, true);
    CHECK(gp_pace_send(&pace, 12500, 9 * GP_NS_PER_MS) == 2 * GP_NS_PER_MS);
    gp_pace_press(&pace, false);
    CHECK(gp_pace_send(&pace, 12500, 9 * GP_NS_PER_MS) == 10 * GP_NS_PER_MS);
    gp_pace_press(&pace, true);
    CHECK(gp_pace_send(&pace, 12500, GP_NS_PER_S) == GP_NS_PER_S + GP_NS_PER_MS);
}

static void the_queue_in_front_is_short(void)
{
    const struct gp_link_opts opts = {.rate = MBIT_100, .delay_ns = GP_NS_PER_S};
    struct gp_pace pace = pace_of(&opts);
    uint64_t sent = 0, full_until_ns;

    while ((full_until_ns = gp_pace_full_until(&pace, 0)) == 0) {
        gp_pace_send(&pace, gp_pace_piece(&pace), 0);
        sent += gp_pace_piece(&pace);
    }
    CHECK(sent > MBIT_100 / 1000 && sent < MBIT_100 / 200); /* 1 to 5 ms of it */
    CHECK(full_until_ns < GP_NS_PER_MS && gp_pace_full_until(&pace, full_until_ns) == 0);
}

/* However slow, a piece behind the one that is being sent, or the wire would stand still between two. */
static void a_slow_wire_has_a_next_piece(void)
{
    const struct gp_link_opts opts = {.rate = 1000};
    struct gp_pace pace = pace_of(&opts);

    gp_pace_send(&pace, gp_pace_piece(&pace), 0);
    CHECK(gp_pace_full_until(&pace, 0) == 0);
    gp_pace_send(&pace, gp_pace_piece(&pace), 0);
    CHECK(gp_pace_full_until(&pace, 0) > 0);
}

static void jitter_is_within_its_bounds(void)
{
    const struct gp_link_opts opts = {.delay_ns = 1000, .jitter_ns = 1000};
    struct gp_pace pace = pace_of(&opts), same = pace_of(&opts);
    uint64_t low = UINT64_MAX, high = 0;

    for (unsigned i = 0; i < 1000; i++) {
        uint64_t due_ns = gp_pace_send(&pace, 100, 0);
        CHECK(due_ns >= 1000 && due_ns < 2000 && due_ns == gp_pace_send(&same, 100, 0));
        low = due_ns < low ? due_ns : low;
        high = due_ns > high ? due_ns : high;
    }
    CHECK(low < 1100 && high > 1900);
}

static void sockets_hold_about_what_is_on_its_way(void)
{
    const struct gp_link_opts opts = {.rate = MBIT_100, .delay_ns = 10 * GP_NS_PER_MS}, slow = {.rate = 1000},
                              fast = {.rate = UINT64_C(12500000000), .delay_ns = GP_NS_PER_S};

    CHECK(gp_pace_socket_bytes(&opts) == 250000);
    CHECK(gp_pace_socket_bytes(&slow) == 32768 && gp_pace_socket_bytes(&fast) == 4194304);
}

int main(void)
{
    nothing_is_shaped_by_default();
    rate_is_exact();
    a_wire_that_was_idle_takes_no_credit();
    lateness_costs_no_rate_while_senders_wait();
    the_queue_in_front_is_short();
    a_slow_wire_has_a_next_piece();
    jitter_is_within_its_bounds();
    sockets_hold_about_what_is_on_its_way();
    return 0;
}
