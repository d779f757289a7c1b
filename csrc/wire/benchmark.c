/* benchmark: a walk over the fields of SimpleRequest that stops at none but response_size, and the beginning
 * of SimpleResponse. */
#include "wire/benchmark.h"

#include "wire/frame.h"
#include "wire/message.h"

#define RESPONSE_SIZE_FIELD 2u
#define VARINT_BITS_MAX 70u /* ten bytes of seven bits */

enum stage { TAG, RESPONSE_SIZE, OTHER_NUMBER, SIZE };

enum wire_type { VARINT = 0, FIXED64 = 1, SIZED = 2, FIXED32 = 5 };

static bool skip(struct gp_ask *ask, uint64_t size)
{
    if (size > ask->message_left)
        return false;
    ask->skip = (uint32_t)size;
    return true;
}

static bool take_tag(struct gp_ask *ask, uint64_t tag)
{
    uint64_t field = tag >> 3;

    if (field == 0 || tag > UINT32_MAX)
        return false;
    switch (tag & 7) {
    case VARINT:
        ask->stage = field == RESPONSE_SIZE_FIELD ? RESPONSE_SIZE : OTHER_NUMBER;
        return true;
    case FIXED64:
        return skip(ask, 8);
    case SIZED:
        ask->stage = SIZE;
        return true;
    case FIXED32:
        return skip(ask, 4);
    default:
        return false;
    }
}

/* A whole varint: what it is depends on the stage. */
static bool take_number(struct gp_ask *ask)
{
    uint64_t number = ask->number;
    enum stage stage = ask->stage;

    ask->number = 0;
    ask->shift = 0;
    ask->stage = TAG;
    if (stage == TAG)
        return take_tag(ask, number);
    if (stage == SIZE)
        return skip(ask, number);
    if (stage == RESPONSE_SIZE)
        ask->response_size = (int32_t)(uint32_t)number;
    return true;
}

static bool take_byte(struct gp_ask *ask, uint8_t byte)
{
    ask->message_left--;
    ask->number |= (uint64_t)(byte & 0x7f) << ask->shift;
    ask->shift += 7;
    return byte & 0x80 ? ask->shift < VARINT_BITS_MAX : take_number(ask);
}

/* false: what there is of the message is none. */
static bool read_body(struct gp_ask *ask, const uint8_t **at, const uint8_t *end)
{
    while (ask->message_left > 0 && *at < end) {
        if (ask->skip > 0) {
            size_t size = (size_t)(end - *at) < ask->skip ? (size_t)(end - *at) : ask->skip;
            ask->skip -= (uint32_t)size;
            ask->message_left -= (uint32_t)size;
            *at += size;
        } else if (!take_byte(ask, *(*at)++)) {
            return false;
        }
    }
    return true;
}

/* false: the flag is neither of the two there are. */
static bool read_prefix(struct gp_ask *ask, uint8_t byte)
{
    if (ask->prefix_bytes++ == 0) {
        *ask = (struct gp_ask){.prefix_bytes = 1};
        return byte == 0;
    }
    ask->message_left = ask->message_left << 8 | byte;
    return true;
}

enum gp_asked gp_ask_read(struct gp_ask *ask, const uint8_t **at, const uint8_t *end)
{
    while (ask->prefix_bytes < GP_MESSAGE_PREFIX_BYTES) {
        if (*at == end)
            return GP_ASKED_MORE;
        uint8_t byte = *(*at)++;
        if (!read_prefix(ask, byte))
            return byte == 1 ? GP_ASKED_COMPRESSED : GP_ASKED_MALFORMED;
    }
    if (!read_body(ask, at, end))
        return GP_ASKED_MALFORMED;
    if (ask->message_left > 0)
        return GP_ASKED_MORE;
    ask->prefix_bytes = 0;
    return ask->stage == TAG && ask->shift == 0 ? GP_ASKED_MESSAGE : GP_ASKED_MALFORMED;
}

static size_t put_varint(uint8_t *out, uint32_t value)
{
    size_t length = 0;

    for (; value >= 0x80; value >>= 7)
        out[length++] = (uint8_t)(value | 0x80);
    out[length++] = (uint8_t)value;
    return length;
}

size_t gp_benchmark_head(int32_t body_bytes, uint8_t head[GP_BENCHMARK_HEAD_BYTES])
{
    uint8_t inner[8];
    size_t size = GP_MESSAGE_PREFIX_BYTES;
    uint32_t body = (uint32_t)body_bytes;

    if (body > 0) {
        inner[0] = 2 << 3 | SIZED; /* Payload.body */
        uint32_t inner_size = 1 + (uint32_t)put_varint(inner + 1, body);
        head[size++] = 1 << 3 | SIZED; /* SimpleResponse.payload */
        size += put_varint(head + size, inner_size + body);
        for (uint32_t i = 0; i < inner_size; i++)
            head[size++] = inner[i];
    }
    head[0] = 0;
    gp_put_u32(head + 1, (uint32_t)size - GP_MESSAGE_PREFIX_BYTES + body);
    return size;
}
