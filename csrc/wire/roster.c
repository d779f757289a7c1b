/* roster: the ring and the table of late ones. */
#include "wire/roster.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_RING 16u
#define FIRST_LATE 16u

static uint32_t *make_table(uint32_t size)
{
    uint32_t *table = malloc(size * sizeof *table);

    return table ? memset(table, 0xff, size * sizeof *table) : NULL; /* GP_CALLS_NONE everywhere */
}

int gp_roster_init(struct gp_roster *roster, const struct gp_call *slab)
{
    *roster = (struct gp_roster){.slab = slab, .ring = make_table(FIRST_RING), .mask = FIRST_RING - 1};
    return roster->ring ? 0 : -1;
}

void gp_roster_fini(struct gp_roster *roster)
{
    free(roster->ring);
    free(roster->late);
    *roster = (struct gp_roster){0};
}

/* --- late ones --------------------------------------------------------------------------------- */

static uint32_t late_home(const struct gp_roster *roster, uint32_t stream_id)
{
    return (uint32_t)(stream_id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & roster->late_mask;
}

/* Where it stands, or the hole where it would. */
static uint32_t late_place(const struct gp_roster *roster, uint32_t stream_id)
{
    uint32_t at = late_home(roster, stream_id);

    while (roster->late[at] != GP_CALLS_NONE && roster->slab[roster->late[at]].stream_id != stream_id)
        at = (at + 1) & roster->late_mask;
    return at;
}

uint32_t gp_roster_find_late(const struct gp_roster *roster, uint32_t stream_id)
{
    return roster->late[late_place(roster, stream_id)];
}

static void put_late(struct gp_roster *roster, uint32_t call)
{
    roster->late[late_place(roster, roster->slab[call].stream_id)] = call;
    roster->in_late++;
}

/* At most half full, so that probing stays short. */
static int make_late_room(struct gp_roster *roster)
{
    uint32_t *old = roster->late;
    uint32_t old_size = old ? roster->late_mask + 1 : 0;
    uint32_t size = old ? old_size * 2 : FIRST_LATE;

    if (old && roster->in_late < old_size / 2)
        return 0;
    uint32_t *table = make_table(size);
    if (!table)
        return -1;
    roster->late = table;
    roster->late_mask = size - 1;
    roster->in_late = 0;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i] != GP_CALLS_NONE)
            put_late(roster, old[i]);
    free(old);
    return 0;
}

/* Closing up behind it (Knuth, 6.4, algorithm R) instead of leaving a mark. */
void gp_roster_remove_late(struct gp_roster *roster, uint32_t call)
{
    uint32_t hole = late_place(roster, roster->slab[call].stream_id), mask = roster->late_mask;

    assert(roster->late[hole] == call);
    for (uint32_t at = (hole + 1) & mask; roster->late[at] != GP_CALLS_NONE; at = (at + 1) & mask) {
        uint32_t home = late_home(roster, roster->slab[roster->late[at]].stream_id);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        roster->late[hole] = roster->late[at];
        hole = at;
    }
    roster->late[hole] = GP_CALLS_NONE;
    roster->in_late--;
}

/* --- the ring ---------------------------------------------------------------------------------- */

/* Those that had slots of their own have so in a ring of twice the size. */
static int grow_ring(struct gp_roster *roster)
{
    uint32_t *old = roster->ring, old_size = roster->mask + 1;
    uint32_t *ring = make_table(old_size * 2);

    if (!ring)
        return -1;
    roster->ring = ring;
    roster->mask = old_size * 2 - 1;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i] != GP_CALLS_NONE)
            *gp_roster_slot(roster, old[i]) = old[i];
    free(old);
    return 0;
}

/* A slot is taken: as long as the ring is well filled it is too small, otherwise its holder is late. */
int gp_roster_make_room(struct gp_roster *roster, uint32_t call)
{
    while (*gp_roster_slot(roster, call) != GP_CALLS_NONE && roster->in_ring > roster->mask / 2)
        if (grow_ring(roster) != 0)
            return -1;
    uint32_t *slot = gp_roster_slot(roster, call);
    if (*slot == GP_CALLS_NONE)
        return 0;
    if (make_late_room(roster) != 0)
        return -1;
    put_late(roster, *slot);
    *slot = GP_CALLS_NONE;
    roster->in_ring--;
    return 0;
}

uint32_t gp_roster_next(const struct gp_roster *roster, uint32_t *cursor)
{
    uint32_t ring_size = roster->mask + 1;
    uint32_t size = ring_size + (roster->late ? roster->late_mask + 1 : 0);

    while (*cursor < size) {
        uint32_t at = (*cursor)++;
        uint32_t call = at < ring_size ? roster->ring[at] : roster->late[at - ring_size];
        if (call != GP_CALLS_NONE)
            return call;
    }
    return GP_CALLS_NONE;
}
