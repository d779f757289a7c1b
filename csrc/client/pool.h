/* Which of a client's connections takes the next call. Connections stand at places 0, 1, ... without gaps;
 * what else there is to know of one is told from outside: how many calls it has.
 *
 *   init  ( add | remove | enter, take, load, leave )*  fini
 *
 * A load thread owns its connections, so nothing here needs a lock. GP_PICK_LOCKED takes one all the same, as
 * a pool that callers of many threads share would have to: one for all threads of a run, held for each call
 * from the choice of its connection until that has been handed the call. */
#ifndef GP_CLIENT_POOL_H
#define GP_CLIENT_POOL_H

#include <pthread.h>
#include <stdint.h>

enum gp_pick {
    GP_PICK_ROUND_ROBIN,
    GP_PICK_LOCKED,       /* round robin under a lock */
    GP_PICK_LEAST_LOADED, /* the one with fewest calls in flight; of equals, who has waited longest */
};

struct gp_pool_node { /* in the list of those that have as many calls */
    uint32_t load, previous, next;
};

struct gp_pool_list {
    uint32_t first, last;
};

struct gp_pool {
    uint32_t connections;
    uint32_t next;               /* in turn */
    pthread_mutex_t *lock;       /* NULL: none */
    struct gp_pool_node *nodes;  /* least loaded only, as is what follows: by place */
    struct gp_pool_list *levels; /* by load */
    uint32_t least;              /* no level below has any */
    uint32_t most;               /* the last level: more count as so many */
};

/* For at most `capacity` connections, which have at most `calls` together. `lock`: for GP_PICK_LOCKED, not
 * owned; NULL: the client is alone. -1: out of memory. */
int gp_pool_init(struct gp_pool *pool, enum gp_pick pick, uint32_t capacity, uint32_t calls,
                 pthread_mutex_t *lock);
void gp_pool_fini(struct gp_pool *pool);

void gp_pool_add(struct gp_pool *pool, uint32_t load);     /* at the place `connections` */
void gp_pool_remove(struct gp_pool *pool, uint32_t place); /* the last one comes to its place */
uint32_t gp_pool_take(struct gp_pool *pool);               /* a place; there must be one */

void gp_pool_reload(struct gp_pool *pool, uint32_t place, uint32_t load); /* for gp_pool_load */

/* The connection at a place has so many calls now. */
static inline void gp_pool_load(struct gp_pool *pool, uint32_t place, uint32_t load)
{
    if (pool->nodes)
        gp_pool_reload(pool, place, load);
}

static inline void gp_pool_enter(struct gp_pool *pool)
{
    if (pool->lock)
        pthread_mutex_lock(pool->lock);
}

static inline void gp_pool_leave(struct gp_pool *pool)
{
    if (pool->lock)
        pthread_mutex_unlock(pool->lock);
}

#endif
