/* The whole relay: a listener, the connections that it passes on, their times, and the parent's questions,
 * all in one thread. */
#ifndef GP_RELAY_RELAY_H
#define GP_RELAY_RELAY_H

#include <stdbool.h>

#include "base/timer_heap.h"
#include "net/listener.h"
#include "net/poller.h"
#include "process/report.h"
#include "relay/options.h"
#include "relay/pair.h"

struct gp_error;

struct gp_relay {
    const struct gp_relay_options *options;
    struct gp_poller poller;
    struct gp_listener listener;
    struct gp_report report;
    struct gp_fabric fabric;
    struct gp_timer_heap times; /* of pairs */
    struct gp_pair pairs;       /* a ring's head */
    struct gp_pair *over;       /* to be freed, when no list of what is ready names them any more */
    bool blackhole;
};

/* Listens when it returns. `options` stay the caller's. */
int gp_relay_start(struct gp_relay *relay, const struct gp_relay_options *options, struct gp_error *err);

/* Say Ready to the parent on a descriptor, and answer it from now on. */
int gp_relay_report(struct gp_relay *relay, int fd, struct gp_error *err);

/* Relay until the parent says so, or is gone. */
void gp_relay_run(struct gp_relay *relay);

#endif
