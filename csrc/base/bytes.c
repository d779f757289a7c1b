/* bytes: the growing and moving behind struct gp_bytes. What the bytes mean is nobody's business here. */
#include "base/bytes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256u

void gp_bytes_init(struct gp_bytes *bytes)
{
    *bytes = (struct gp_bytes){0};
}

void gp_bytes_fini(struct gp_bytes *bytes)
{
    free(bytes->data);
    gp_bytes_init(bytes);
}

static void move_to_front(struct gp_bytes *bytes)
{
    size_t length = gp_bytes_length(bytes);

    memmove(bytes->data, bytes->data + bytes->start, length);
    bytes->start = 0;
    bytes->end = length;
}

static int grow(struct gp_bytes *bytes, size_t needed)
{
    size_t capacity = bytes->capacity ? bytes->capacity : FIRST_CAPACITY;

    while (capacity < needed)
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    uint8_t *data = realloc(bytes->data, capacity);
    if (!data)
        return -1;
    bytes->data = data;
    bytes->capacity = capacity;
    return 0;
}

int gp_bytes_reserve(struct gp_bytes *bytes, size_t more)
{
    size_t length = gp_bytes_length(bytes);

    if (more <= bytes->capacity - bytes->end)
        return 0;
    if (more > SIZE_MAX - bytes->end)
        return -1;
    /* Moving is paid for by what was taken before it, so a long queue is never moved for each few bytes. */
    if (bytes->start >= length && length + more <= bytes->capacity) {
        move_to_front(bytes);
        return 0;
    }
    return grow(bytes, bytes->end + more);
}

int gp_bytes_append(struct gp_bytes *bytes, const void *data, size_t size)
{
    if (size == 0)
        return 0;
    if (gp_bytes_reserve(bytes, size) != 0)
        return -1;
    memcpy(bytes->data + bytes->end, data, size);
    bytes->end += size;
    return 0;
}

void gp_bytes_take(struct gp_bytes *bytes, size_t size)
{
    assert(size <= gp_bytes_length(bytes));
    bytes->start += size;
    if (bytes->start == bytes->end)
        gp_bytes_clear(bytes);
}

void gp_bytes_clear(struct gp_bytes *bytes)
{
    bytes->start = 0;
    bytes->end = 0;
}
