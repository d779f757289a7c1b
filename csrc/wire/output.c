/* output: own bytes and shared pieces, in order, until they are written. */
#include "wire/output.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PIECES 16u
#define KEPT_BYTES 1024u /* an empty buffer up to this size is kept without further thought */

void gp_output_fini(struct gp_output *output)
{
    gp_bytes_fini(&output->own);
    free(output->pieces);
    *output = (struct gp_output){0};
}

static int make_piece_room(struct gp_output *output)
{
    uint32_t count = output->end - output->first;

    if (output->end < output->capacity)
        return 0;
    if (output->first < output->capacity / 2 || output->capacity == 0) {
        uint32_t capacity = output->capacity ? output->capacity * 2 : FIRST_PIECES;
        struct gp_output_piece *pieces = realloc(output->pieces, capacity * sizeof *pieces);
        if (!pieces)
            return -1;
        output->pieces = pieces;
        output->capacity = capacity;
    }
    memmove(output->pieces, output->pieces + output->first, count * sizeof *output->pieces);
    output->first = 0;
    output->end = count;
    return 0;
}

int gp_output_share(struct gp_output *output, const uint8_t *data, size_t size)
{
    if (make_piece_room(output) != 0)
        return -1;
    output->pieces[output->end++] = (struct gp_output_piece){
        .at = output->own_at + gp_bytes_length(&output->own), .data = data, .size = size};
    output->queued += size;
    return 0;
}

size_t gp_output_gather(const struct gp_output *output, struct iovec *pieces, size_t capacity)
{
    const struct gp_output_piece *next = output->pieces + output->first;
    const struct gp_output_piece *end = output->pieces + output->end;
    uint64_t at = output->own_at, own_end = at + gp_bytes_length(&output->own);
    size_t count = 0;

    while (count < capacity && (at < own_end || next < end)) {
        uint64_t until = next < end ? next->at : own_end;
        if (at < until) {
            pieces[count++] = (struct iovec){(void *)(gp_bytes_front(&output->own) + (at - output->own_at)),
                                             (size_t)(until - at)};
            at = until;
        } else {
            pieces[count++] = (struct iovec){(void *)next->data, next->size};
            next++;
        }
    }
    return count;
}

/* A buffer that was large once is given back when it has not been needed for a while: there may be thousands
 * of connections. */
static void rest(struct gp_output *output)
{
    size_t used = output->own.end;

    gp_bytes_clear(&output->own);
    output->first = output->end = 0;
    output->most = used > output->most ? used : output->most - output->most / 8;
    if (output->own.capacity > KEPT_BYTES && output->most < output->own.capacity / 8)
        gp_bytes_fini(&output->own);
}

void gp_output_written(struct gp_output *output, size_t bytes)
{
    assert(bytes <= output->queued);
    output->queued -= bytes;
    if (output->queued == 0) {
        output->own_at += gp_bytes_length(&output->own);
        rest(output);
        return;
    }
    while (bytes > 0) {
        struct gp_output_piece *next = output->first < output->end ? output->pieces + output->first : NULL;
        size_t own = next ? (size_t)(next->at - output->own_at) : gp_bytes_length(&output->own);
        size_t taken = own > 0 ? own : next->size;
        if (taken > bytes)
            taken = bytes;
        if (own > 0) {
            output->own_at += taken;
            output->own.start += taken;
        } else {
            next->data += taken;
            next->size -= taken;
            output->first += next->size == 0;
        }
        bytes -= taken;
    }
}
