/* One client's connection to a mirror: a socket, and the responder that says what goes over it. */
#ifndef GP_MIRROR_VISITOR_H
#define GP_MIRROR_VISITOR_H

#include <stdbool.h>
#include <stdint.h>

struct gp_poller;
struct gp_responder;
struct gp_responder_counts;

#define GP_VISITOR_READ_BYTES (1u << 20) /* of the buffer that all of them share */

struct gp_visitor {
    int fd;
    struct gp_responder *responder;
    enum { GP_VISITOR_READS, GP_VISITOR_READS_AND_WRITES, GP_VISITOR_WRITES } wanted; /* of the poller */
    struct gp_visitor *next, *previous;
};

/* Takes the descriptor over. NULL when there is no memory for it. */
struct gp_visitor *gp_visitor_create(int fd, struct gp_poller *poller, struct gp_responder_counts *counts);

/* It is ready: read what has come, unless it has been sending without reading, and write what there is to
 * say. False: it is over. */
bool gp_visitor_serve(struct gp_visitor *visitor, struct gp_poller *poller, uint8_t *buffer, bool readable);

void gp_visitor_destroy(struct gp_visitor *visitor, struct gp_poller *poller);

#endif
