/* message_times: from moments to spans, by kind of call, and only while somebody wants them. */
#include "base/message_times.h"

#include "check.h"

static void test_first_message_and_gaps(void)
{
    static const enum gp_kind kinds[] = {GP_KIND_SERVER_STREAM, GP_KIND_BIDI_FREE};

    for (int i = 0; i < 2; i++) {
        struct gp_message_times t;

        CHECK(gp_message_times_init(&t, kinds[i], 3) == 0);
        t.on = true;
        gp_message_times_begin(&t, 1, 1000);
        gp_message_times_begin(&t, 2, 1500);
        gp_message_times_came(&t, 1, 0, 1, 1700);
        gp_message_times_came(&t, 2, 0, 3, 1900); /* three in one read: two gaps of nothing */
        gp_message_times_came(&t, 1, 1, 2, 2000);
        CHECK(t.first.count == 2 && t.first.min_ns == 400 && t.first.max_ns == 700);
        CHECK(t.gap.count == 4 && t.gap.max_ns == 300 && t.gap.sum_ns == 300 && t.gap.counts[0] == 3);
        CHECK(t.round_trip.count == 0);
        gp_message_times_fini(&t);
    }
}

static void test_ping_pong_has_round_trips(void)
{
    struct gp_message_times t;

    CHECK(gp_message_times_init(&t, GP_KIND_BIDI, 1) == 0);
    t.on = true;
    gp_message_times_begin(&t, 0, 100);
    gp_message_times_came(&t, 0, 0, 1, 150);
    gp_message_times_came(&t, 0, 1, 1, 170);
    gp_message_times_came(&t, 0, 2, 1, 200);
    CHECK(t.first.count == 1 && t.first.max_ns == 50);
    CHECK(t.round_trip.count == 3 && t.round_trip.sum_ns == 100 && t.round_trip.min_ns == 20);
    CHECK(t.gap.count == 0);
    gp_message_times_begin(&t, 0, 1000); /* the id again, for another call */
    gp_message_times_came(&t, 0, 0, 1, 1010);
    CHECK(t.first.min_ns == 10 && t.round_trip.min_ns == 10);
    gp_message_times_fini(&t);
}

/* A stream that began in the warm-up: its first message is nobody's, the gap across the start counts. */
static void test_only_what_comes_while_it_is_on(void)
{
    struct gp_message_times t;

    CHECK(gp_message_times_init(&t, GP_KIND_SERVER_STREAM, 1) == 0);
    gp_message_times_begin(&t, 0, 100);
    gp_message_times_came(&t, 0, 0, 1, 200);
    CHECK(t.first.count == 0 && t.gap.count == 0);
    t.on = true;
    gp_message_times_came(&t, 0, 1, 1, 230);
    gp_message_times_came(&t, 0, 2, 0, 240); /* nothing */
    CHECK(t.first.count == 0 && t.gap.count == 1 && t.gap.max_ns == 30);
    t.on = false;
    gp_message_times_came(&t, 0, 2, 1, 250);
    CHECK(t.gap.count == 1);
    gp_message_times_fini(&t);
}

int main(void)
{
    test_first_message_and_gaps();
    test_ping_pong_has_round_trips();
    test_only_what_comes_while_it_is_on();
    return 0;
}
