/* due: the heap. Pauses differ from slot to slot (think time, or the growing rest after failures), so a plain
 * queue would not stay in order. */
#include "load/due.h"

#include <assert.h>
#include <stdlib.h>

int gp_due_init(struct gp_due *due, size_t capacity)
{
    *due = (struct gp_due){.capacity = capacity};
    due->entries = calloc(capacity ? capacity : 1, sizeof *due->entries);
    return due->entries ? 0 : -1;
}

void gp_due_fini(struct gp_due *due)
{
    free(due->entries);
    *due = (struct gp_due){0};
}

void gp_due_push(struct gp_due *due, uint64_t due_ns, uint64_t id)
{
    assert(due->count < due->capacity);
    size_t at = due->count++;

    for (; at > 0 && due->entries[(at - 1) / 2].due_ns > due_ns; at = (at - 1) / 2)
        due->entries[at] = due->entries[(at - 1) / 2];
    due->entries[at] = (struct gp_due_entry){.due_ns = due_ns, .id = id};
}

static size_t earlier_child(const struct gp_due *due, size_t at)
{
    size_t left = 2 * at + 1;

    if (left + 1 < due->count && due->entries[left + 1].due_ns < due->entries[left].due_ns)
        return left + 1;
    return left;
}

uint64_t gp_due_pop(struct gp_due *due)
{
    assert(due->count > 0);
    uint64_t id = due->entries[0].id;
    struct gp_due_entry last = due->entries[--due->count];
    size_t at = 0;

    for (size_t child = earlier_child(due, at); child < due->count; child = earlier_child(due, at)) {
        if (due->entries[child].due_ns >= last.due_ns)
            break;
        due->entries[at] = due->entries[child];
        at = child;
    }
    if (due->count > 0)
        due->entries[at] = last;
    return id;
}
