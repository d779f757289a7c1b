/* Which of a client's connections takes the next call. Today: each in turn. */
#ifndef GP_CLIENT_POOL_H
#define GP_CLIENT_POOL_H

#include <stdint.h>

struct gp_pool {
    uint32_t connections;
    uint32_t next;
};

void gp_pool_init(struct gp_pool *pool, uint32_t connections);
uint32_t gp_pool_take(struct gp_pool *pool); /* an index below `connections` */

#endif
