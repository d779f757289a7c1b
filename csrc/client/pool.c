/* pool: which connection takes the next call. Knows only their number, so that every transport picks alike.
 */
#include "client/pool.h"

#include <assert.h>

void gp_pool_init(struct gp_pool *pool, uint32_t connections)
{
    assert(connections > 0);
    *pool = (struct gp_pool){.connections = connections};
}

void gp_pool_resize(struct gp_pool *pool, uint32_t connections)
{
    pool->connections = connections;
    if (pool->next >= connections)
        pool->next = 0;
}

/* Round robin. A compare instead of a remainder: a division costs more than the rest of this. */
uint32_t gp_pool_take(struct gp_pool *pool)
{
    uint32_t taken = pool->next;

    pool->next = taken + 1 == pool->connections ? 0 : taken + 1;
    return taken;
}
