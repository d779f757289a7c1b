/* Tests of client/waits, at times that are made up. */
#include "client/waits.h"

#include "check.h"

static void the_oldest_expires_first(void)
{
    struct gp_waits waits;

    CHECK(gp_waits_init(&waits, 8, 100) == 0);
    CHECK(gp_waits_due_ns(&waits) == UINT64_MAX && gp_waits_expire(&waits, UINT64_MAX - 1) == GP_WAITS_NONE);
    gp_waits_begin(&waits, 5, 1000);
    gp_waits_begin(&waits, 2, 1010);
    gp_waits_begin(&waits, 7, 1010);
    gp_waits_begin(&waits, 0, 1020);
    CHECK(gp_waits_due_ns(&waits) == 1100);
    CHECK(gp_waits_expire(&waits, 1099) == GP_WAITS_NONE);
    CHECK(gp_waits_expire(&waits, 1105) == 5 && gp_waits_expire(&waits, 1105) == GP_WAITS_NONE);
    gp_waits_end(&waits, 5); /* its event, after it has expired */
    gp_waits_end(&waits, 2); /* out of the front, the middle and the end */
    gp_waits_begin(&waits, 5, 1030);
    gp_waits_end(&waits, 0);
    CHECK(gp_waits_due_ns(&waits) == 1110);
    gp_waits_end(&waits, 5);
    CHECK(gp_waits_expire(&waits, 2000) == 7 && gp_waits_due_ns(&waits) == UINT64_MAX);
    gp_waits_fini(&waits);
}

static void without_a_deadline_nothing_expires(void)
{
    struct gp_waits waits;

    CHECK(gp_waits_init(&waits, 2, 0) == 0);
    gp_waits_begin(&waits, 1, 1000);
    gp_waits_begin(&waits, 1, 1000);
    CHECK(gp_waits_due_ns(&waits) == UINT64_MAX);
    gp_waits_end(&waits, 1);
    gp_waits_fini(&waits);
}

static void those_that_wait_are_served_in_order(void)
{
    struct gp_waits waits;

    CHECK(gp_waits_init(&waits, 8, 100) == 0);
    CHECK(!gp_waits_any_held(&waits) && gp_waits_release(&waits) == GP_WAITS_NONE);
    for (uint32_t id = 0; id < 6; id++) {
        gp_waits_begin(&waits, id, 1000 + id);
        gp_waits_hold(&waits, id, 2000 + id);
    }
    CHECK(waits.calls[3].held_ns == 2003 && waits.calls[3].submitted_ns == 1003);
    CHECK(gp_waits_release(&waits) == 0);
    gp_waits_fail(&waits, 3, GP_CLASS_DEADLINE_EXCEEDED);
    gp_waits_fail(&waits, 1, GP_CLASS_TRANSPORT);
    gp_waits_fail(&waits, 5, GP_CLASS_CANCELLED);
    CHECK(gp_waits_release(&waits) == 2 && gp_waits_release(&waits) == 4 && !gp_waits_any_held(&waits));
    CHECK(gp_waits_take_failed(&waits) == 3 && waits.calls[3].class == GP_CLASS_DEADLINE_EXCEEDED);
    CHECK(gp_waits_take_failed(&waits) == 1 && waits.calls[1].class == GP_CLASS_TRANSPORT);
    gp_waits_end(&waits, 3);
    gp_waits_end(&waits, 1);
    gp_waits_begin(&waits, 3, 1050); /* the id is used again */
    CHECK(gp_waits_take_failed(&waits) == 5 && gp_waits_take_failed(&waits) == GP_WAITS_NONE);
    CHECK(gp_waits_expire(&waits, 1103) == 0 && gp_waits_expire(&waits, 1103) == 2);
    gp_waits_fini(&waits);
}

int main(void)
{
    the_oldest_expires_first();
    without_a_deadline_nothing_expires();
    those_that_wait_are_served_in_order();
    return 0;
}
