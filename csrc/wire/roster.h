/* Which call a stream belongs to, for one connection of a client: from the stream's id to the call's.
 * The ids of streams rise by two, so a ring indexed by them finds the call at once; a call that
 * outlives a whole round of the ring moves to a small hash table, and thousands of calls that pass one
 * that is stuck cost no memory. */
#ifndef GP_WIRE_ROSTER_H
#define GP_WIRE_ROSTER_H

#include <stdint.h>

#include "wire/calls.h"

struct gp_roster {
    const struct gp_call *slab;
    uint32_t *ring; /* ids of calls, GP_CALLS_NONE where there is none */
    uint32_t mask;
    uint32_t in_ring;
    uint32_t *late; /* a hash table, open addressing; NULL until something is late */
    uint32_t late_mask, in_late;
};

int gp_roster_init(struct gp_roster *roster, const struct gp_call *slab); /* -1 when out of memory */
void gp_roster_fini(struct gp_roster *roster);

/* What is not in its slot of the ring: room for it, finding it, and taking it out. */
int gp_roster_make_room(struct gp_roster *roster, uint32_t call);
uint32_t gp_roster_find_late(const struct gp_roster *roster, uint32_t stream_id);
void gp_roster_remove_late(struct gp_roster *roster, uint32_t call);

static inline uint32_t *gp_roster_slot(const struct gp_roster *roster, uint32_t call)
{
    return &roster->ring[roster->slab[call].stream_id >> 1 & roster->mask];
}

/* The call's record has the stream's id, before insert and until remove. -1 when out of memory. */
static inline int gp_roster_insert(struct gp_roster *roster, uint32_t call)
{
    if (*gp_roster_slot(roster, call) != GP_CALLS_NONE && gp_roster_make_room(roster, call) != 0)
        return -1;
    *gp_roster_slot(roster, call) = call;
    roster->in_ring++;
    return 0;
}

static inline void gp_roster_remove(struct gp_roster *roster, uint32_t call)
{
    uint32_t *slot = gp_roster_slot(roster, call);

    if (*slot != call) {
        gp_roster_remove_late(roster, call);
        return;
    }
    *slot = GP_CALLS_NONE;
    roster->in_ring--;
}

static inline uint32_t gp_roster_find(const struct gp_roster *roster, uint32_t stream_id)
{
    uint32_t call = roster->ring[stream_id >> 1 & roster->mask];

    if (call != GP_CALLS_NONE && roster->slab[call].stream_id == stream_id)
        return call;
    return roster->in_late ? gp_roster_find_late(roster, stream_id) : GP_CALLS_NONE;
}

/* Visit all: start with *cursor 0; GP_CALLS_NONE at the end. The one visited may be removed; others may then
 * be missed by this round, but by none that begins after it. */
uint32_t gp_roster_next(const struct gp_roster *roster, uint32_t *cursor);

#endif
