/* What a connection has to say and has not said yet: bytes of its own, and between them pieces of the
 * client's one message, which large as it may be is never copied. */
#ifndef GP_WIRE_OUTPUT_H
#define GP_WIRE_OUTPUT_H

#include <stdint.h>
#include <sys/uio.h>

#include "base/bytes.h"

struct gp_output_piece {
    uint64_t at; /* before this one of our own bytes, counted from the beginning of the connection */
    const uint8_t *data;
    size_t size;
};

struct gp_output {
    struct gp_bytes own;
    uint64_t own_at; /* of the first of our own bytes that is still here */
    struct gp_output_piece *pieces;
    uint32_t first, end, capacity; /* of pieces */
    size_t queued;                 /* bytes, of both sorts */
    size_t most;                   /* of our own bytes at a time, lately */
};

void gp_output_fini(struct gp_output *output);

/* Room for that many bytes of our own; NULL when out of memory. More than commit takes does no harm. */
static inline uint8_t *gp_output_reserve(struct gp_output *output, size_t size)
{
    if (output->own.capacity - output->own.end < size && gp_bytes_reserve(&output->own, size) != 0)
        return NULL;
    return output->own.data + output->own.end;
}

static inline void gp_output_commit(struct gp_output *output, size_t size)
{
    output->own.end += size;
    output->queued += size;
}

/* Shared bytes come next; they stay where they are until written. -1 when out of memory. */
int gp_output_share(struct gp_output *output, const uint8_t *data, size_t size);

size_t gp_output_gather(const struct gp_output *output, struct iovec *pieces, size_t capacity);
void gp_output_written(struct gp_output *output, size_t bytes);

#endif
