/* Whole answers recognised by their bytes: HEADERS, DATA with one message, trailers. What a server says to
 * one unary call it says to all, but for the stream's id and the message; when all three frames are here and
 * nothing else differs, the call is over in one step instead of three. */
#ifndef GP_WIRE_ANSWER_H
#define GP_WIRE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

#define GP_ANSWER_HEAD 160u /* at most: HEADERS, the head of DATA and the message's prefix */
#define GP_ANSWER_TAIL 96u  /* and the trailers */
#define GP_ANSWER_STEP 16u  /* bytes compared at a time; both above are multiples of it */

/* Bytes where they are compared, and 0xff in the mask there; 0 in both elsewhere. */
struct gp_answer {
    uint32_t head_bytes, body_bytes, tail_bytes; /* head and tail as they are on the wire */
    uint32_t data;                               /* where the DATA frame begins */
    uint8_t head[GP_ANSWER_HEAD], head_mask[GP_ANSWER_HEAD];
    uint8_t tail[GP_ANSWER_TAIL], tail_mask[GP_ANSWER_TAIL];
};

/* Whether such an answer lies whole at the beginning of these bytes; then `answer` is made from it. */
bool gp_answer_learn(struct gp_answer *answer, const uint8_t *bytes, size_t size);

static inline size_t gp_answer_bytes(const struct gp_answer *answer)
{
    return answer->head_bytes + answer->body_bytes + answer->tail_bytes;
}

/* Without an end before the last byte: these bytes are equal nearly always. */
static inline bool gp_answer_equal(const uint8_t *bytes, const uint8_t *wanted, const uint8_t *mask,
                                   size_t size)
{
    typedef uint64_t step __attribute__((vector_size(GP_ANSWER_STEP)));
    step differs = {0};

    for (size_t i = 0; i < size; i += GP_ANSWER_STEP) {
        step here, want, compared;
        __builtin_memcpy(&here, bytes + i, sizeof here);
        __builtin_memcpy(&want, wanted + i, sizeof want);
        __builtin_memcpy(&compared, mask + i, sizeof compared);
        differs |= (here & compared) ^ want;
    }
    return (differs[0] | differs[1]) == 0;
}

/* The stream that the answer at the beginning of these bytes is for; 0 when it is not the one we know. Looks
 * a step beyond its end, so an answer at the very end of `size` is not recognised. */
static inline uint32_t gp_answer_recognise(const struct gp_answer *answer, const uint8_t *bytes, size_t size)
{
    const uint8_t *tail = bytes + answer->head_bytes + answer->body_bytes;
    uint32_t stream_id;

    if (size < gp_answer_bytes(answer) + GP_ANSWER_STEP ||
        !gp_answer_equal(bytes, answer->head, answer->head_mask, answer->head_bytes) ||
        !gp_answer_equal(tail, answer->tail, answer->tail_mask, answer->tail_bytes))
        return 0;
    stream_id = gp_get_u32(bytes + 5);
    return gp_get_u32(bytes + answer->data + 5) == stream_id && gp_get_u32(tail + 5) == stream_id ? stream_id
                                                                                                  : 0;
}

#endif
