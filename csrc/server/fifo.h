/* Who waits, in the order in which they came: a list of links that live in their owners, so that one who
 * leaves early is taken out at once. Pure; whoever shares one locks it. */
#ifndef GP_SERVER_FIFO_H
#define GP_SERVER_FIFO_H

#include <stdbool.h>
#include <stddef.h>

struct gp_fifo;

struct gp_fifo_link { /* begins as zeros */
    struct gp_fifo_link *next, *previous;
    const struct gp_fifo *in; /* NULL: in none */
};

struct gp_fifo { /* begins as zeros */
    struct gp_fifo_link *first, *last;
    size_t count;
};

void gp_fifo_push(struct gp_fifo *fifo, struct gp_fifo_link *link);
struct gp_fifo_link *gp_fifo_pop(struct gp_fifo *fifo);               /* NULL: it is empty */
bool gp_fifo_remove(struct gp_fifo *fifo, struct gp_fifo_link *link); /* false: was not in it */

/* All at once: the first, from which `next` leads to the others. */
struct gp_fifo_link *gp_fifo_take_all(struct gp_fifo *fifo);

#endif
