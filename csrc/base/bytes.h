/* A growable run of bytes: append at the end, take from the front. */
#ifndef GP_BASE_BYTES_H
#define GP_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct gp_bytes {
    uint8_t *data; /* NULL until something is reserved */
    size_t start;  /* the first byte not yet taken */
    size_t end;    /* one past the last byte */
    size_t capacity;
};

void gp_bytes_init(struct gp_bytes *bytes);
void gp_bytes_fini(struct gp_bytes *bytes);
int gp_bytes_reserve(struct gp_bytes *bytes,
                     size_t more); /* room for `more` at the end; -1 when out of memory */
int gp_bytes_append(struct gp_bytes *bytes, const void *data, size_t size);
void gp_bytes_take(struct gp_bytes *bytes, size_t size); /* drop `size` from the front; size <= length */
void gp_bytes_clear(struct gp_bytes *bytes);

static inline size_t gp_bytes_length(const struct gp_bytes *bytes)
{
    return bytes->end - bytes->start;
}

static inline const uint8_t *gp_bytes_front(const struct gp_bytes *bytes)
{
    return bytes->data + bytes->start;
}

#endif
