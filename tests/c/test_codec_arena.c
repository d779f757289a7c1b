/* arena: pieces do not overlap, are aligned, and are all there again after a reset. */
#include "codec/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"

static bool is_aligned(const void *memory)
{
    return (uintptr_t)memory % alignof(max_align_t) == 0;
}

static void test_pieces(void)
{
    struct gp_arena arena;
    CHECK(gp_arena_init(&arena, 256) == 0);
    uint8_t *first = gp_arena_take(&arena, 1), *second = gp_arena_take(&arena, 100);
    CHECK(is_aligned(first) && is_aligned(second) && second > first);
    memset(first, 1, 1);
    memset(second, 2, 100);
    CHECK(*first == 1 && !arena.more);
    gp_arena_reset(&arena);
    CHECK(gp_arena_take(&arena, 256) == first && !arena.more);
    gp_arena_fini(&arena);
}

static void test_more_than_there_is(void)
{
    struct gp_arena arena;
    CHECK(gp_arena_init(&arena, 64) == 0);
    uint8_t *inside = gp_arena_take(&arena, 60), *outside = gp_arena_take(&arena, 1000);
    CHECK(inside && outside && is_aligned(outside) && arena.more);
    memset(inside, 1, 60);
    memset(outside, 2, 1000);
    CHECK(gp_arena_take(&arena, 1) && gp_arena_take(&arena, 0));
    CHECK(!gp_arena_take(&arena, SIZE_MAX) && !gp_arena_take(&arena, SIZE_MAX - 20));
    CHECK(inside[59] == 1 && outside[999] == 2);
    gp_arena_reset(&arena);
    CHECK(!arena.more && gp_arena_take(&arena, 60) == inside);
    gp_arena_fini(&arena);
    gp_arena_fini(&arena);
}

int main(void)
{
    test_pieces();
    test_more_than_there_is();
    return 0;
}
