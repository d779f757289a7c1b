/* packed: the distance from slot to slot and the counts, as numbers of seven bits a byte with the lowest
 * first and the top bit saying that more follow (the varints of protobuf and LEB128). */
#include "load/packed.h"

#include <stdlib.h>

static size_t size_of(uint64_t number)
{
    size_t size = 1;

    for (; number >= 128; number >>= 7)
        size++;
    return size;
}

static uint8_t *put(uint8_t *at, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        *at++ = (uint8_t)(number | 128);
    *at++ = (uint8_t)number;
    return at;
}

static uint64_t get(struct gp_packed_reader *reader)
{
    uint64_t number = 0;
    unsigned shift = 0;

    for (; *reader->at >= 128; shift += 7)
        number |= (uint64_t)(*reader->at++ & 127) << shift;
    return number | (uint64_t)*reader->at++ << shift;
}

int gp_packed_init(struct gp_packed *packed, const struct gp_histogram_entry *entries, size_t count)
{
    size_t size = 0;
    uint64_t slot = 0;
    uint8_t *at;

    *packed = (struct gp_packed){0};
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; slot = entries[i++].slot)
        size += size_of(entries[i].slot - slot) + size_of(entries[i].count);
    at = packed->bytes = malloc(size);
    if (!at)
        return -1;
    packed->size = size;
    packed->count = count;
    slot = 0;
    for (size_t i = 0; i < count; slot = entries[i++].slot)
        at = put(put(at, entries[i].slot - slot), entries[i].count);
    return 0;
}

int gp_packed_from_histogram(struct gp_packed *packed, const struct gp_histogram *histogram)
{
    size_t count = gp_histogram_export(histogram, NULL, 0);
    struct gp_histogram_entry *entries;
    int status;

    *packed = (struct gp_packed){0};
    if (count == 0)
        return 0;
    entries = malloc(count * sizeof *entries);
    if (!entries)
        return -1;
    gp_histogram_export(histogram, entries, count);
    status = gp_packed_init(packed, entries, count);
    free(entries);
    return status;
}

/* Two rising lists into one. */
static size_t merge(struct gp_histogram_entry *merged, const struct gp_packed *one,
                    const struct gp_packed *other)
{
    struct gp_packed_reader a = gp_packed_read(one), b = gp_packed_read(other);
    struct gp_histogram_entry x, y;
    bool has_x = gp_packed_next(&a, &x), has_y = gp_packed_next(&b, &y);
    size_t count = 0;

    while (has_x || has_y) {
        bool from_x = has_x && (!has_y || x.slot <= y.slot), from_y = has_y && (!has_x || y.slot <= x.slot);

        merged[count].slot = from_x ? x.slot : y.slot;
        merged[count++].count = (from_x ? x.count : 0) + (from_y ? y.count : 0);
        if (from_x)
            has_x = gp_packed_next(&a, &x);
        if (from_y)
            has_y = gp_packed_next(&b, &y);
    }
    return count;
}

int gp_packed_add(struct gp_packed *into, const struct gp_packed *from)
{
    struct gp_histogram_entry *merged;
    struct gp_packed sum;
    int status;

    if (from->count == 0)
        return 0;
    merged = malloc((into->count + from->count) * sizeof *merged);
    if (!merged)
        return -1;
    status = gp_packed_init(&sum, merged, merge(merged, into, from));
    free(merged);
    if (status != 0)
        return -1;
    gp_packed_fini(into);
    *into = sum;
    return 0;
}

struct gp_packed_reader gp_packed_read(const struct gp_packed *packed)
{
    return (struct gp_packed_reader){.at = packed->bytes,
                                     .end = packed->bytes ? packed->bytes + packed->size : NULL};
}

bool gp_packed_next(struct gp_packed_reader *reader, struct gp_histogram_entry *entry)
{
    if (reader->at == reader->end)
        return false;
    entry->slot = reader->slot += get(reader);
    entry->count = get(reader);
    return true;
}

void gp_packed_fini(struct gp_packed *packed)
{
    free(packed->bytes);
    *packed = (struct gp_packed){0};
}
