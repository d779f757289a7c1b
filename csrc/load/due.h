/* Slots that wait for their time: a binary heap of (due time, id), earliest first. */
#ifndef GP_LOAD_DUE_H
#define GP_LOAD_DUE_H

#include <stddef.h>
#include <stdint.h>

struct gp_due_entry {
    uint64_t due_ns, id;
};

struct gp_due {
    struct gp_due_entry *entries;
    size_t count, capacity;
};

int gp_due_init(struct gp_due *due, size_t capacity); /* all memory it will ever use; -1 when there is none */
void gp_due_fini(struct gp_due *due);
void gp_due_push(struct gp_due *due, uint64_t due_ns, uint64_t id); /* never more than capacity */
uint64_t gp_due_pop(struct gp_due *due); /* the id of the earliest; not when empty */

/* When the earliest is due; UINT64_MAX when none waits. */
static inline uint64_t gp_due_next_ns(const struct gp_due *due)
{
    return due->count > 0 ? due->entries[0].due_ns : UINT64_MAX;
}

#endif
