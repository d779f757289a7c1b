/* What a client knows of its calls beside the connections that carry them: which one's deadline is next,
 * which wait for a connection, which have failed without one. Lists threaded through one table indexed by id,
 * so that every step takes the same small time. All calls of a client have the same span to live, so that the
 * oldest is always the next to expire. */
#ifndef GP_CLIENT_WAITS_H
#define GP_CLIENT_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/call.h"

#define GP_WAITS_NONE UINT32_MAX

struct gp_waits_link {
    uint32_t previous, next;
};

struct gp_waits_list {
    uint32_t first, last;
};

struct gp_waits_call {
    uint64_t submitted_ns, held_ns;
    uint64_t sent_ns;           /* of a call that is tried again: when it was sent first */
    struct gp_waits_link age;   /* among those with a deadline */
    struct gp_waits_link place; /* among those that wait, or that have failed */
    bool aged, waiting;
    bool held; /* it has waited */
    bool retried;
    uint8_t class; /* once it has failed */
};

struct gp_waits {
    struct gp_waits_call *calls;
    uint64_t span_ns;                           /* the deadline; 0: none */
    struct gp_waits_list ages, waiting, failed; /* oldest first */
};

int gp_waits_init(struct gp_waits *waits, uint32_t max_in_flight, uint64_t span_ns); /* -1: out of memory */
void gp_waits_fini(struct gp_waits *waits);

/* A call was submitted: its deadline runs. Nothing is done, and need not be called, when there is none. */
void gp_waits_begin(struct gp_waits *waits, uint32_t id, uint64_t now_ns);
void gp_waits_end(struct gp_waits *waits, uint32_t id); /* its event has been taken */

/* When the oldest call's deadline is; UINT64_MAX: never. */
uint64_t gp_waits_due_ns(const struct gp_waits *waits);
/* A call whose deadline has come, which is told once; GP_WAITS_NONE: none has. */
uint32_t gp_waits_expire(struct gp_waits *waits, uint64_t now_ns);

void gp_waits_hold(struct gp_waits *waits, uint32_t id, uint64_t now_ns); /* it waits for a connection */
uint32_t gp_waits_release(struct gp_waits *waits); /* the first of them has one; GP_WAITS_NONE: none waits */
void gp_waits_fail(struct gp_waits *waits, uint32_t id, enum gp_class class); /* whether it waits or not */

/* The next failed one; GP_WAITS_NONE. */
uint32_t gp_waits_take_failed(struct gp_waits *waits);

static inline bool gp_waits_any_held(const struct gp_waits *waits)
{
    return waits->waiting.first != GP_WAITS_NONE;
}

#endif
