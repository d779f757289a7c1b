/* An allocator that counts with a lock's certainty, one atomic addition per event: loaded after the preload
 * object, it is what that hands on to, and says what came through. */
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

void oracle_counts(uint64_t counts[4]);

static _Atomic uint64_t totals[4]; /* mallocs, frees, allocated and freed bytes */

static void *made(void *block)
{
    if (block) {
        atomic_fetch_add(&totals[0], 1);
        atomic_fetch_add(&totals[2], malloc_usable_size(block));
    }
    return block;
}

static void gone(size_t bytes)
{
    atomic_fetch_add(&totals[1], 1);
    atomic_fetch_add(&totals[3], bytes);
}

EXPORT void oracle_counts(uint64_t counts[4])
{
    for (int i = 0; i < 4; i++)
        counts[i] = atomic_load(&totals[i]);
}

EXPORT void *malloc(size_t size)
{
    return made(__libc_malloc(size));
}

EXPORT void *calloc(size_t count, size_t size)
{
    return made(__libc_calloc(count, size));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return made(__libc_memalign(alignment, size));
}

EXPORT void *realloc(void *block, size_t size)
{
    size_t before = block ? malloc_usable_size(block) : 0;
    void *moved = __libc_realloc(block, size);
    if (block && (moved || size == 0))
        gone(before);
    return made(moved);
}

EXPORT void free(void *block)
{
    if (block)
        gone(malloc_usable_size(block));
    __libc_free(block);
}
