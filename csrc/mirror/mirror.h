/* The whole mirror: a listener, its connections, and the parent's questions, all in one thread. */
#ifndef GP_MIRROR_MIRROR_H
#define GP_MIRROR_MIRROR_H

#include "mirror/visitor.h"
#include "net/listener.h"
#include "net/poller.h"
#include "process/report.h"
#include "wire/responder.h"

struct gp_arguments;
struct gp_error;

struct gp_mirror {
    struct gp_poller poller;
    struct gp_listener listener;
    struct gp_report report;
    struct gp_responder_counts counts; /* over all connections, also past ones */
    struct gp_visitor visitors;        /* a ring's head */
    uint8_t *buffer;                   /* what is read, from whichever connection */
};

/* Listens when it returns. */
int gp_mirror_start(struct gp_mirror *mirror, const struct gp_arguments *arguments, struct gp_error *err);

/* Say Ready to the parent on a descriptor, and answer it from now on. */
int gp_mirror_report(struct gp_mirror *mirror, int fd, struct gp_error *err);

/* Serve until the parent says so, or is gone. */
void gp_mirror_run(struct gp_mirror *mirror);

#endif
