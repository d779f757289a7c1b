/* Which of a client's connections takes the next call. Today: each in turn. */
#ifndef GP_CLIENT_POOL_H
#define GP_CLIENT_POOL_H

#include <stdint.h>

struct gp_pool {
    uint32_t connections;
    uint32_t next;
};

void gp_pool_init(struct gp_pool *pool, uint32_t connections);
void gp_pool_resize(struct gp_pool *pool, uint32_t connections); /* there are more or fewer of them now */
uint32_t gp_pool_take(struct gp_pool *pool); /* an index below `connections`, which must not be 0 */

#endif
