/* Why calls ended badly: distinct texts, each with how many calls it took along. A bounded number of them;
 * what comes after that is counted together.
 *
 * Connections write their causes when they happen, the calls come to light later and in the same order: so a
 * cause is noted for a span of a client's finished calls, counted from its first, and counts those among them
 * that ended in its class. */
#ifndef GP_CLIENT_CAUSES_H
#define GP_CLIENT_CAUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"

struct gp_causes_span {
    uint64_t from, to; /* finished calls: [from, to) */
    uint32_t cause;
};

struct gp_causes {
    struct gp_client_cause known[GP_CLIENT_CAUSES];
    uint32_t count;
    struct gp_causes_span *spans; /* those not passed yet, oldest first: [first, last) */
    size_t first, last, capacity;
};

void gp_causes_init(struct gp_causes *causes);
void gp_causes_fini(struct gp_causes *causes);

/* A cause at once, for so many calls. */
void gp_causes_add(struct gp_causes *causes, enum gp_class class, const char *text, uint64_t calls);

/* The calls finished in [from, to) that ended in `class` have this cause. `from` never falls; the same calls
 * may have a cause for each class. */
void gp_causes_note(struct gp_causes *causes, enum gp_class class, const char *text, uint64_t from,
                    uint64_t to);

static inline bool gp_causes_pending(const struct gp_causes *causes)
{
    return causes->first < causes->last;
}

/* The call finished as number `at` ended in `class`. Each is told once, in order. */
void gp_causes_pass(struct gp_causes *causes, enum gp_class class, uint64_t at);

#endif
