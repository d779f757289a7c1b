/* Who waits, in the order in which they came. */
#include "server/fifo.h"

#include <assert.h>

void gp_fifo_push(struct gp_fifo *fifo, struct gp_fifo_link *link)
{
    assert(!link->in);
    *link = (struct gp_fifo_link){.previous = fifo->last, .in = fifo};
    *(fifo->last ? &fifo->last->next : &fifo->first) = link;
    fifo->last = link;
    fifo->count++;
}

struct gp_fifo_link *gp_fifo_pop(struct gp_fifo *fifo)
{
    struct gp_fifo_link *first = fifo->first;
    if (first)
        gp_fifo_remove(fifo, first);
    return first;
}

bool gp_fifo_remove(struct gp_fifo *fifo, struct gp_fifo_link *link)
{
    if (link->in != fifo)
        return false;
    *(link->previous ? &link->previous->next : &fifo->first) = link->next;
    *(link->next ? &link->next->previous : &fifo->last) = link->previous;
    link->in = NULL;
    fifo->count--;
    return true;
}

struct gp_fifo_link *gp_fifo_take_all(struct gp_fifo *fifo)
{
    struct gp_fifo_link *first = fifo->first;
    for (struct gp_fifo_link *link = first; link; link = link->next)
        link->in = NULL;
    *fifo = (struct gp_fifo){0};
    return first;
}
