/* Counting what a thread allocates and frees, in a slot of its own: no lock, and no atomic addition but for
 * threads that have none (any more). */
#ifndef GP_PRELOAD_COUNT_H
#define GP_PRELOAD_COUNT_H

#include <stddef.h>
#include <stdint.h>

#include "preload/slots.h"

/* The calling thread's slot, NULL before it has one and when it is about to end. */
extern __thread struct gp_slot *gp_count_own;

/* Begin counting, when the environment says where. Nothing happens the second time, or while it is too early
 * in the life of the process to read the environment. Keeps errno. */
void gp_count_start(void);

/* A slot for the calling thread, which has none; NULL when it is to use the functions below. Keeps errno. */
struct gp_slot *gp_count_arrive(void);

/* For threads without a slot: additions to one that they share. */
void gp_count_shared_malloc(size_t bytes);
void gp_count_shared_free(size_t bytes);

/* Released, so that who sees a free also sees the malloc before it. */
static inline void gp_count_add(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + more, memory_order_release);
}

/* A block that has been allocated, and is not yet known to anybody. */
static inline void gp_count_malloc(size_t bytes)
{
    struct gp_slot *slot = gp_count_own;
    if (__builtin_expect(!slot, 0) && !(slot = gp_count_arrive())) {
        gp_count_shared_malloc(bytes);
        return;
    }
    gp_count_add(&slot->mallocs, 1);
    gp_count_add(&slot->allocated_bytes, bytes);
}

static inline void gp_count_free(size_t bytes)
{
    struct gp_slot *slot = gp_count_own;
    if (__builtin_expect(!slot, 0) && !(slot = gp_count_arrive())) {
        gp_count_shared_free(bytes);
        return;
    }
    gp_count_add(&slot->frees, 1);
    gp_count_add(&slot->freed_bytes, bytes);
}

#endif
