/* The stacks of the server's own threads: completion queues, timer, control, and one for each call where the
 * model has them. Not in it: the main thread, which only waits for a signal, and the threads of C core. */
#ifndef GP_SERVER_STACKS_H
#define GP_SERVER_STACKS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct gp_stack { /* lives on the stack it describes */
    struct gp_stack *next, *previous;
    uintptr_t start;
    size_t bytes;
};

struct gp_stacks {
    pthread_mutex_t lock;
    pthread_cond_t entered;
    struct gp_stack ring; /* a list head */
    uint32_t count;
    size_t page_bytes;
};

void gp_stacks_init(struct gp_stacks *stacks);
void gp_stacks_enter(struct gp_stacks *stacks, struct gp_stack *stack); /* by each thread, first thing */
void gp_stacks_leave(struct gp_stacks *stacks, struct gp_stack *stack); /* and last thing */

void gp_stacks_wait(struct gp_stacks *stacks, uint32_t count); /* until at least so many have entered */
uint32_t gp_stacks_count(struct gp_stacks *stacks);            /* threads that are registered now */

/* Bytes resident in and bytes spanned by all of them: 13 ms for 10,000. */
void gp_stacks_measure(struct gp_stacks *stacks, uint64_t *inuse_bytes, uint64_t *sys_bytes);

/* Start a detached thread that is registered for as long as `run` runs, and is when this returns. 0 or an
 * errno. */
int gp_stacks_thread(struct gp_stacks *stacks, void (*run)(void *), void *argument);

#endif
