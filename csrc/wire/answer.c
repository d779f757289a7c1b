/* answer: how the shape of an answer is learnt from one. */
#include "wire/answer.h"

#include <string.h>

#include "wire/message.h"

#define HEAD_OF_MESSAGE (GP_FRAME_HEADER_BYTES + GP_MESSAGE_PREFIX_BYTES)

/* Whether a whole frame of that type, with exactly these flags, begins there. */
static bool is_frame(const uint8_t *bytes, size_t size, enum gp_frame_type type, uint8_t flags,
                     struct gp_frame *frame)
{
    if (size < GP_FRAME_HEADER_BYTES)
        return false;
    *frame = gp_frame_read(bytes);
    return frame->type == type && frame->flags == flags && size - GP_FRAME_HEADER_BYTES >= frame->length;
}

static void set_part(uint8_t *wanted, uint8_t *mask, size_t capacity, const uint8_t *bytes, size_t size)
{
    memset(mask, 0, capacity);
    memset(wanted, 0, capacity);
    memset(mask, 0xff, size);
    memcpy(wanted, bytes, size);
}

/* A stream's id is not compared. */
static void pass_id(uint8_t *wanted, uint8_t *mask, size_t frame)
{
    memset(mask + frame + 5, 0, 4);
    memset(wanted + frame + 5, 0, 4);
}

bool gp_answer_learn(struct gp_answer *answer, const uint8_t *bytes, size_t size)
{
    struct gp_frame headers, data, trailers;
    size_t data_at, tail_at;

    if (!is_frame(bytes, size, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS, &headers))
        return false;
    data_at = GP_FRAME_HEADER_BYTES + headers.length;
    if (!is_frame(bytes + data_at, size - data_at, GP_FRAME_DATA, 0, &data))
        return false;
    tail_at = data_at + GP_FRAME_HEADER_BYTES + data.length;
    if (!is_frame(bytes + tail_at, size - tail_at, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM,
                  &trailers) ||
        data_at + HEAD_OF_MESSAGE > GP_ANSWER_HEAD ||
        trailers.length > GP_ANSWER_TAIL - GP_FRAME_HEADER_BYTES)
        return false;
    if (data.length < GP_MESSAGE_PREFIX_BYTES || bytes[data_at + GP_FRAME_HEADER_BYTES] != 0 ||
        gp_get_u32(bytes + data_at + GP_FRAME_HEADER_BYTES + 1) != data.length - GP_MESSAGE_PREFIX_BYTES)
        return false;
    answer->data = (uint32_t)data_at;
    answer->head_bytes = (uint32_t)(data_at + HEAD_OF_MESSAGE);
    answer->body_bytes = data.length - GP_MESSAGE_PREFIX_BYTES;
    answer->tail_bytes = GP_FRAME_HEADER_BYTES + trailers.length;
    set_part(answer->head, answer->head_mask, GP_ANSWER_HEAD, bytes, answer->head_bytes);
    pass_id(answer->head, answer->head_mask, 0);
    pass_id(answer->head, answer->head_mask, data_at);
    set_part(answer->tail, answer->tail_mask, GP_ANSWER_TAIL, bytes + tail_at, answer->tail_bytes);
    pass_id(answer->tail, answer->tail_mask, 0);
    return true;
}
