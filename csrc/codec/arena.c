/* arena: a bump of a position in one block; what is too large for the rest of it has a block of its own. */
#include "codec/arena.h"

#include <stdalign.h>
#include <stdlib.h>

struct gp_arena_block {
    struct gp_arena_block *next;
    alignas(max_align_t) uint8_t memory[];
};

int gp_arena_init(struct gp_arena *arena, size_t capacity)
{
    *arena = (struct gp_arena){.memory = malloc(capacity), .capacity = capacity};
    return arena->memory ? 0 : -1;
}

static void *take_block(struct gp_arena *arena, size_t size)
{
    struct gp_arena_block *block =
        size <= PTRDIFF_MAX - sizeof(struct gp_arena_block) ? malloc(sizeof *block + size) : NULL;
    if (!block)
        return NULL;
    block->next = arena->more;
    arena->more = block;
    return block->memory;
}

void *gp_arena_take(struct gp_arena *arena, size_t size)
{
    size_t start = (arena->used + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (start > arena->capacity || size > arena->capacity - start)
        return take_block(arena, size);
    arena->used = start + size;
    return arena->memory + start;
}

void gp_arena_reset(struct gp_arena *arena)
{
    while (arena->more) {
        struct gp_arena_block *block = arena->more;
        arena->more = block->next;
        free(block);
    }
    arena->used = 0;
}

void gp_arena_fini(struct gp_arena *arena)
{
    gp_arena_reset(arena);
    free(arena->memory);
    arena->memory = NULL;
    arena->capacity = 0;
}
