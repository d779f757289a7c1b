/* For tests in which memory runs out: linked with SHORT_MEMORY (tests/c/meson.build), what our own libraries
 * ask for comes by here first. */
#ifndef GP_TESTS_SHORT_MEMORY_H
#define GP_TESTS_SHORT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    bool on, for_good;
    uint32_t failing, asked;
} short_memory;

/* From now on the allocation of that number (from 0) fails, and all behind it if `for_good`. */
static inline void short_memory_begin(uint32_t failing, bool for_good)
{
    short_memory.on = true;
    short_memory.for_good = for_good;
    short_memory.failing = failing;
    short_memory.asked = 0;
}

static inline uint32_t short_memory_end(void) /* how many there were */
{
    short_memory.on = false;
    return short_memory.asked;
}

static inline bool short_memory_fails(void)
{
    if (!short_memory.on)
        return false;
    uint32_t number = short_memory.asked++;
    return number == short_memory.failing || (short_memory.for_good && number > short_memory.failing);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return short_memory_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return short_memory_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return short_memory_fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return short_memory_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return short_memory_fails() ? NULL : __real_strdup(text);
}

#endif
