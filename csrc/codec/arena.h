/* Memory for one operation at a time: taken piece by piece, given back all at once. */
#ifndef GP_CODEC_ARENA_H
#define GP_CODEC_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct gp_arena_block;

struct gp_arena {
    uint8_t *memory; /* one block, kept; NULL while there is none */
    size_t capacity, used;
    struct gp_arena_block *more; /* what did not fit into it, until the next reset */
};

int gp_arena_init(struct gp_arena *arena, size_t capacity); /* -1 when there is no memory */
void *gp_arena_take(struct gp_arena *arena, size_t size);   /* aligned for anything; NULL: no memory */
void gp_arena_reset(struct gp_arena *arena);                /* all that was taken is given back */
void gp_arena_fini(struct gp_arena *arena);

#endif
