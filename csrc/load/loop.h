/* What makes a closed loop and an open loop of the one loop in generator.c. */
#ifndef GP_LOAD_LOOP_H
#define GP_LOAD_LOOP_H

#include "load/generator.h"

struct gp_loop {
    int (*init)(struct gp_generator *generator); /* -1: out of memory */
    void (*fini)(struct gp_generator *generator);
    void (*begin)(struct gp_generator *generator); /* the run's times are known; nothing is sent yet */
    void (*send)(struct gp_generator *generator);  /* send, in one batch, what is to be sent by now */
    /* A call has ended: its slot is free. */
    void (*release)(struct gp_generator *generator, const struct gp_event *event);
    /* When send is wanted if nothing ends before. */
    uint64_t (*next_ns)(const struct gp_generator *generator);
    void (*cease)(struct gp_generator *generator); /* the window has ended: what is still due is settled */
};

extern const struct gp_loop gp_closed_loop, gp_open_loop;

/* For their use: hand the batch over to the client. Its slots carry their plans; `held` of the calls were due
 * before there was room. */
void gp_generator_submit(struct gp_generator *generator, uint32_t held);

#endif
