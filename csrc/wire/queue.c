/* queue: the ring of waiting calls. */
#include "wire/queue.h"

#include <stdlib.h>

#define FIRST_CAPACITY 16u

void gp_queue_fini(struct gp_queue *queue)
{
    free(queue->entries);
    *queue = (struct gp_queue){0};
}

static struct gp_queue_entry *entry_at(const struct gp_queue *queue, uint32_t index)
{
    return &queue->entries[(queue->first + index) & (queue->capacity - 1)];
}

static void sweep(struct gp_queue *queue, gp_queue_test *is_live, const void *owner)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < queue->count; i++)
        if (is_live(owner, *entry_at(queue, i)))
            *entry_at(queue, kept++) = *entry_at(queue, i);
    queue->count = kept;
}

static int grow(struct gp_queue *queue)
{
    uint32_t capacity = queue->capacity ? queue->capacity * 2 : FIRST_CAPACITY;
    struct gp_queue_entry *entries = malloc(capacity * sizeof *entries);

    if (!entries)
        return -1;
    for (uint32_t i = 0; i < queue->count; i++)
        entries[i] = *entry_at(queue, i);
    free(queue->entries);
    queue->entries = entries;
    queue->capacity = capacity;
    queue->first = 0;
    return 0;
}

int gp_queue_push(struct gp_queue *queue, struct gp_queue_entry entry, gp_queue_test *is_live,
                  const void *owner)
{
    if (queue->count == queue->capacity) {
        sweep(queue, is_live, owner);
        /* Swept out so little that the next sweep would come soon: grow. */
        if (queue->count > queue->capacity / 2 || queue->capacity == 0)
            if (grow(queue) != 0)
                return -1;
    }
    *entry_at(queue, queue->count++) = entry;
    return 0;
}

bool gp_queue_pop(struct gp_queue *queue, struct gp_queue_entry *entry, gp_queue_test *is_live,
                  const void *owner)
{
    while (queue->count > 0) {
        *entry = *entry_at(queue, 0);
        queue->first++;
        queue->count--;
        if (is_live(owner, *entry))
            return true;
    }
    return false;
}
