/* A relayed connection: the client's socket, the one made to the target for it, and a lane each way.
 *
 *   waits (for as long as the TCP handshake would take through the link) -> connects -> open -> over
 *
 * What happens to it is decided in pair.c; when it is looked at, in relay.c. */
#ifndef GP_RELAY_PAIR_H
#define GP_RELAY_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer_heap.h"
#include "net/socket.h"
#include "relay/lane.h"
#include "relay/pace.h"

struct gp_poller;

enum gp_side { GP_CLIENT, GP_SERVER };

struct gp_pair;

struct gp_end {
    struct gp_pair *pair;
    int fd; /* -1: none yet, or none any more */
    bool watched, reads, writes;
};

struct gp_pair {
    struct gp_end ends[2];   /* by side */
    struct gp_lane lanes[2]; /* by the side that they come from */
    enum { GP_PAIR_WAITS, GP_PAIR_CONNECTS, GP_PAIR_OPEN, GP_PAIR_OVER } state;
    bool deaf;          /* nothing comes through */
    bool forgotten;     /* it was quiet for too long */
    uint64_t open_ns;   /* when it is to be connected */
    uint64_t active_ns; /* when something last came in */
    struct gp_timer timer;
    struct gp_pair *next, *previous;
};

/* What all pairs have in common. */
struct gp_fabric {
    struct gp_poller *poller;
    const struct gp_link_opts *opts;
    const struct gp_endpoint *target;
    struct gp_pace paces[2]; /* by the side that they come from */
    uint8_t *buffer;
};

/* Takes the client's descriptor over. NULL when there is no memory for it. */
struct gp_pair *gp_pair_create(struct gp_fabric *fabric, int fd, uint64_t now_ns);
void gp_pair_destroy(struct gp_fabric *fabric, struct gp_pair *pair); /* in no heap by then */

/* Something came or can go at an end. */
void gp_pair_serve(struct gp_fabric *fabric, struct gp_end *end, bool readable, bool writable,
                   uint64_t now_ns);

/* Time has passed. */
void gp_pair_tick(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns);

/* When to tick next; UINT64_MAX: never. */
uint64_t gp_pair_due_ns(const struct gp_fabric *fabric, const struct gp_pair *pair, uint64_t now_ns);

/* Both peers are told by a reset; the pair is over. */
void gp_pair_reset(struct gp_fabric *fabric, struct gp_pair *pair);

/* As if one side had closed its half. */
void gp_pair_half_close(struct gp_fabric *fabric, struct gp_pair *pair, enum gp_side side, uint64_t now_ns);

/* Nothing is relayed any more; once what was sent has been acknowledged, or TCP would repeat it for as long
 * as it is not, the peers' packets are dropped too. And the contrary, which for one that was forgotten is a
 * reset. */
void gp_pair_stop(struct gp_fabric *fabric, struct gp_pair *pair);
bool gp_pair_is_acknowledged(const struct gp_pair *pair);
void gp_pair_deafen(struct gp_pair *pair);
void gp_pair_undeafen(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns);

#endif
