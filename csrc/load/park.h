/* Parked calls: opened, and held in flight by a thread of their own until the server lets them go or they are
 * cancelled. The connections come first, so that what they cost can be told apart, and stay until destroy.
 *
 *   create  start  ( open | counts )*  cancel?  ( counts )*  destroy
 *
 * All functions may be called from any thread; one caller at a time for destroy. */
#ifndef GP_LOAD_PARK_H
#define GP_LOAD_PARK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

struct gp_error;
struct gp_park;

struct gp_park_opts {
    struct gp_client_opts client; /* max_in_flight: the most that open may ask for; request.parked */
    uint64_t connect_timeout_ns;
};

struct gp_park_counts {
    bool connecting;
    bool failed; /* it could not connect: gp_park_error has the cause */
    uint32_t connected;
    uint64_t sent;     /* calls submitted */
    uint64_t finished; /* of them, ended, whatever the class */
    uint64_t classes[GP_CLASS_COUNT];
    uint64_t first_sent_ns, last_finished_ns; /* gp_clock_now_ns */
};

/* Copies what it needs of opts. */
int gp_park_create(struct gp_park **park, const struct gp_park_opts *opts, struct gp_error *err);
int gp_park_start(struct gp_park *park, struct gp_error *err);

/* So many calls in all; fewer than before: nothing changes. */
void gp_park_open(struct gp_park *park, uint64_t calls);

void gp_park_counts(struct gp_park *park, struct gp_park_counts *counts);
int gp_park_error(struct gp_park *park, struct gp_error *err); /* -1 and filled when counts.failed, else 0 */
void gp_park_cancel(struct gp_park *park);                     /* cancel every call; returns at once */

/* Whether every call has ended, those that are yet to be opened too. */
bool gp_park_wait_finished(struct gp_park *park, uint64_t timeout_ns);

void gp_park_destroy(struct gp_park *park); /* cancels, joins */

#endif
