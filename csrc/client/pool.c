/* pool: which connection takes the next call. Knows only places, so that every transport picks alike. */
#include "client/pool.h"

#include <assert.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* --- lists of those that have as many calls ---------------------------------------------------- */

/* What points to a node in its list's two directions: a neighbour or, at an end, the list. */
static uint32_t *ahead_of(struct gp_pool *pool, const struct gp_pool_node *node)
{
    return node->previous == NONE ? &pool->levels[node->load].first : &pool->nodes[node->previous].next;
}

static uint32_t *behind(struct gp_pool *pool, const struct gp_pool_node *node)
{
    return node->next == NONE ? &pool->levels[node->load].last : &pool->nodes[node->next].previous;
}

static void append(struct gp_pool *pool, uint32_t place, uint32_t load)
{
    struct gp_pool_node *node = &pool->nodes[place];

    if (load > pool->most)
        load = pool->most;
    *node = (struct gp_pool_node){.load = load, .previous = pool->levels[load].last, .next = NONE};
    *ahead_of(pool, node) = place;
    pool->levels[load].last = place;
    if (load < pool->least)
        pool->least = load;
}

static void detach(struct gp_pool *pool, uint32_t place)
{
    const struct gp_pool_node node = pool->nodes[place];

    *ahead_of(pool, &node) = node.next;
    *behind(pool, &node) = node.previous;
}

static void move(struct gp_pool *pool, uint32_t from, uint32_t to)
{
    struct gp_pool_node *node = &pool->nodes[to];

    *node = pool->nodes[from];
    *ahead_of(pool, node) = to;
    *behind(pool, node) = to;
}

void gp_pool_reload(struct gp_pool *pool, uint32_t place, uint32_t load)
{
    if (pool->nodes[place].load == load)
        return;
    detach(pool, place);
    append(pool, place, load);
}

/* One that takes a call is found again one level up, so this looks at two levels as a rule. */
static uint32_t take_least(struct gp_pool *pool)
{
    while (pool->levels[pool->least].first == NONE)
        pool->least++;
    return pool->levels[pool->least].first;
}

/* --- life -------------------------------------------------------------------------------------- */

int gp_pool_init(struct gp_pool *pool, enum gp_pick pick, uint32_t capacity, uint32_t calls,
                 pthread_mutex_t *lock)
{
    *pool = (struct gp_pool){.lock = pick == GP_PICK_LOCKED ? lock : NULL, .most = calls};
    if (pick != GP_PICK_LEAST_LOADED)
        return 0;
    pool->nodes = calloc(capacity, sizeof *pool->nodes);
    pool->levels = malloc(((size_t)calls + 1) * sizeof *pool->levels);
    if (!pool->nodes || !pool->levels) {
        gp_pool_fini(pool);
        return -1;
    }
    for (uint32_t load = 0; load <= calls; load++)
        pool->levels[load] = (struct gp_pool_list){NONE, NONE};
    return 0;
}

void gp_pool_fini(struct gp_pool *pool)
{
    free(pool->nodes);
    free(pool->levels);
    *pool = (struct gp_pool){0};
}

void gp_pool_add(struct gp_pool *pool, uint32_t load)
{
    if (pool->nodes)
        append(pool, pool->connections, load);
    pool->connections++;
}

void gp_pool_remove(struct gp_pool *pool, uint32_t place)
{
    uint32_t last = --pool->connections;

    assert(place <= last);
    if (pool->nodes) {
        detach(pool, place);
        if (place != last)
            move(pool, last, place);
    }
    if (pool->next >= pool->connections)
        pool->next = 0;
}

/* In turn: a compare instead of a remainder, for a division costs more than the rest of this. */
uint32_t gp_pool_take(struct gp_pool *pool)
{
    uint32_t taken = pool->next;

    assert(pool->connections > 0);
    if (pool->nodes)
        return take_least(pool);
    pool->next = taken + 1 == pool->connections ? 0 : taken + 1;
    return taken;
}
