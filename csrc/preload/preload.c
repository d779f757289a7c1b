/* The functions that a program finds before its allocator's, counted and handed on. The next allocator in the
 * program's own order of search does the work, be it the C library's or one that the program is linked with.
 *
 * A reallocation counts as a malloc of the new block and a free of the old one, as Valgrind counts. Sizes are
 * those of malloc_usable_size. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/count.h"

#define EXPORT __attribute__((visibility("default")))

static struct {
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
    size_t (*usable_size)(void *);
    void *(*malloc)(size_t); /* the last one found: until then the others are not used */
} next;

/* ---- the search for the next allocator, during which the dynamic linker may itself allocate ---- */

static _Alignas(max_align_t) char search_memory[4096];
static size_t search_used;

static bool of_search(const void *block)
{
    return (uintptr_t)block - (uintptr_t)search_memory < sizeof search_memory;
}

/* Zeroed, and never used again. */
static void *search_alloc(size_t size)
{
    size_t rounded = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (rounded < size || rounded > sizeof search_memory - search_used) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = search_memory + search_used;
    search_used += rounded;
    return block;
}

/* POSIX wants a function's address converted so; ISO C knows no cast from an object's. */
static void find(void *function, const char *name)
{
    *(void **)function = dlsym(RTLD_NEXT, name);
}

static bool search(void)
{
    static bool searching;
    if (searching)
        return false;
    searching = true;
    find(&next.calloc, "calloc");
    find(&next.realloc, "realloc");
    find(&next.memalign, "memalign");
    find(&next.aligned_alloc, "aligned_alloc");
    find(&next.posix_memalign, "posix_memalign");
    find(&next.free, "free");
    find(&next.usable_size, "malloc_usable_size");
    find(&next.malloc, "malloc");
    searching = false;
    return next.malloc;
}

static inline bool found(void)
{
    return __builtin_expect(next.malloc != NULL, 1) || search();
}

/* A program that allocates nothing, or in ways of its own, is to be known as counted, too. */
__attribute__((constructor)) static void start(void)
{
    gp_count_start();
}

/* ---- the functions ---- */

static inline void *counted(void *block)
{
    if (block)
        gp_count_malloc(next.usable_size(block));
    return block;
}

EXPORT void *malloc(size_t size)
{
    return found() ? counted(next.malloc(size)) : search_alloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (found())
        return counted(next.calloc(count, size));
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : search_alloc(bytes);
}

EXPORT void free(void *block)
{
    if (!block || of_search(block))
        return;
    (void)found(); /* it is not ours if nothing was allocated here before */
    gp_count_free(next.usable_size(block));
    next.free(block);
}

static void *move_from_search(void *block, size_t size)
{
    size_t there = (size_t)(search_memory + sizeof search_memory - (char *)block);
    void *moved = malloc(size);
    return moved ? memcpy(moved, block, size < there ? size : there) : NULL;
}

EXPORT void *realloc(void *block, size_t size)
{
    if (!block)
        return malloc(size);
    if (of_search(block) || !found())
        return move_from_search(block, size);
    size_t before = next.usable_size(block);
    void *moved = next.realloc(block, size);
    if (moved || size == 0)
        gp_count_free(before);
    return counted(moved);
}

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes))
        return realloc(block, bytes);
    errno = ENOMEM;
    return NULL;
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return found() ? counted(next.memalign(alignment, size)) : NULL;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return found() ? counted(next.aligned_alloc(alignment, size)) : NULL;
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
    int status = found() ? next.posix_memalign(block, alignment, size) : ENOMEM;
    if (status == 0)
        counted(*block);
    return status;
}

EXPORT void *valloc(size_t size)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

EXPORT void *pvalloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), over;
    if (!__builtin_add_overflow(size, page - 1, &over))
        return memalign(page, over & ~(page - 1));
    errno = ENOMEM;
    return NULL;
}
