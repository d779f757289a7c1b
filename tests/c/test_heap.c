/* heap: what is allocated shows, and what is freed goes. */
#include <stdlib.h>

#include "check.h"
#include "process/heap.h"

#define BLOCK 1000u
#define COUNT 1000u

int main(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return 77; /* its allocator is not glibc's; meson counts it as skipped */
#else
    static void *blocks[COUNT];
    struct gp_heap before = gp_heap_read();

    for (unsigned i = 0; i < COUNT; i++)
        CHECK(blocks[i] = malloc(BLOCK));
    struct gp_heap during = gp_heap_read();
    CHECK(during.alloc - before.alloc >= BLOCK * COUNT &&
          during.alloc - before.alloc < BLOCK * COUNT * 11 / 10);
    CHECK(during.sys >= during.alloc);
    for (unsigned i = 0; i + 1 < COUNT; i++) /* the last one keeps the rest from going back to the kernel */
        free(blocks[i]);
    struct gp_heap after = gp_heap_read();
    CHECK(after.alloc < before.alloc + BLOCK * 20 && after.idle >= BLOCK * (COUNT - 20));
    free(blocks[COUNT - 1]);
    return 0;
#endif
}
