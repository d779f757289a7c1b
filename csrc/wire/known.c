/* known: a handful of blocks, compared one after the other: sizes first, which tell nearly all apart. */
#include "wire/known.h"

#include <stdlib.h>
#include <string.h>

struct gp_known_block {
    size_t meaning_room; /* the block's bytes follow the room */
    size_t capacity;
    _Alignas(max_align_t) uint8_t bytes[]; /* the meaning first, for its alignment */
};

const void *gp_known_find(const struct gp_known *known, const uint8_t *block, size_t size)
{
    for (unsigned i = 0; i < known->count; i++) {
        const struct gp_known_block *candidate = known->blocks[i];
        if (known->sizes[i] == size && memcmp(candidate->bytes + candidate->meaning_room, block, size) == 0)
            return candidate->bytes;
    }
    return NULL;
}

void gp_known_add(struct gp_known *known, const uint8_t *block, size_t size, const void *meaning,
                  size_t meaning_size)
{
    uint8_t slot = known->next;
    struct gp_known_block *place = known->blocks[slot];
    size_t needed = meaning_size + size;

    if (size > GP_KNOWN_BYTES_MAX)
        return;
    if (!place || place->capacity < needed) {
        place = realloc(place, sizeof *place + needed);
        if (!place)
            return;
        known->blocks[slot] = place;
        place->capacity = needed;
    }
    place->meaning_room = meaning_size;
    memcpy(place->bytes, meaning, meaning_size);
    memcpy(place->bytes + meaning_size, block, size);
    known->sizes[slot] = (uint16_t)size;
    known->next = (uint8_t)((slot + 1) % GP_KNOWN_BLOCKS);
    if (known->count <= slot)
        known->count = (uint8_t)(slot + 1);
}

void gp_known_forget(struct gp_known *known)
{
    known->count = 0;
    known->next = 0;
}

void gp_known_fini(struct gp_known *known)
{
    for (unsigned i = 0; i < GP_KNOWN_BLOCKS; i++)
        free(known->blocks[i]);
    *known = (struct gp_known){0};
}
