/* roster: against a plain table, with streams that live shortly, long and for ever. */
#include "wire/roster.h"

#include <string.h>

#include "base/random.h"
#include "check.h"

#define CALLS 600u

static struct gp_call slab[CALLS];

static uint32_t ids_in(const struct gp_roster *roster)
{
    uint32_t cursor = 0, count = 0;

    while (gp_roster_next(roster, &cursor) != GP_CALLS_NONE)
        count++;
    return count;
}

static void check_all(const struct gp_roster *roster, uint32_t live)
{
    for (uint32_t i = 0; i < CALLS; i++) {
        if (slab[i].stream_id)
            CHECK(gp_roster_find(roster, slab[i].stream_id) == i);
        CHECK(gp_roster_find(roster, 2 * i + 100000001) == GP_CALLS_NONE);
    }
    CHECK(ids_in(roster) == live && roster->in_ring + roster->in_late == live);
}

/* Up to `most` at a time; each ends at random, but the first `stuck` ones stay. */
static void streams_come_and_go(uint32_t most, uint32_t stuck, uint64_t seed)
{
    struct gp_roster roster;
    struct gp_random random;
    uint32_t stream_id = 1, live = 0;

    memset(slab, 0, sizeof slab);
    gp_random_init(&random, seed);
    CHECK(gp_roster_init(&roster, slab) == 0);
    for (uint32_t step = 0; step < 100000; step++) {
        uint32_t id = (uint32_t)(gp_random_u64(&random) % CALLS);
        if (slab[id].stream_id == 0 && live < most) {
            slab[id].stream_id = stream_id;
            CHECK(gp_roster_insert(&roster, id) == 0);
            stream_id += 2;
            live++;
        } else if (slab[id].stream_id > 2 * stuck) {
            gp_roster_remove(&roster, id);
            CHECK(gp_roster_find(&roster, slab[id].stream_id) == GP_CALLS_NONE);
            slab[id].stream_id = 0;
            live--;
        }
        if (step % 5000 == 0)
            check_all(&roster, live);
    }
    check_all(&roster, live);
    CHECK(roster.mask < 4 * most + 16); /* however many streams have passed */
    gp_roster_fini(&roster);
}

static void a_visitor_may_remove(void)
{
    struct gp_roster roster;
    uint32_t id, cursor, rounds = 0;

    memset(slab, 0, sizeof slab);
    CHECK(gp_roster_init(&roster, slab) == 0);
    for (uint32_t i = 0; i < 200; i++) { /* half of them late */
        slab[i].stream_id = i < 100 ? 2 * i + 1 : 200001 + 2 * i;
        CHECK(gp_roster_insert(&roster, i) == 0);
    }
    while (ids_in(&roster) > 0 && ++rounds)
        for (cursor = 0; (id = gp_roster_next(&roster, &cursor)) != GP_CALLS_NONE;)
            gp_roster_remove(&roster, id);
    CHECK(rounds <= 5);
    gp_roster_fini(&roster);
}

int main(void)
{
    streams_come_and_go(1, 0, 1);
    streams_come_and_go(100, 0, 2);
    streams_come_and_go(CALLS, 0, 3);
    streams_come_and_go(100, 99, 4);
    streams_come_and_go(500, 250, 5);
    a_visitor_may_remove();
    return 0;
}
