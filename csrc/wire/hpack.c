/* hpack: integers and strings of RFC 7541, written and skipped. */
#include "wire/hpack.h"

#include "base/bytes.h"

#define MAX_INTEGER_BYTES 6u

static size_t encode_integer(uint8_t *out, uint8_t pattern, uint8_t mask, uint32_t value)
{
    size_t size = 0;

    if (value < mask) {
        out[size++] = pattern | (uint8_t)value;
        return size;
    }
    out[size++] = pattern | mask;
    for (value -= mask; value >= 0x80; value >>= 7)
        out[size++] = 0x80 | (uint8_t)(value & 0x7f);
    out[size++] = (uint8_t)value;
    return size;
}

/* The integer's share of the first byte. */
static uint8_t integer_mask(uint8_t pattern)
{
    if (pattern & GP_HPACK_INDEXED)
        return 0x7f;
    if (pattern & GP_HPACK_INDEXING)
        return 0x3f;
    return pattern & GP_HPACK_TABLE_SIZE ? 0x1f : 0x0f;
}

int gp_hpack_put_integer(struct gp_bytes *out, enum gp_hpack_pattern pattern, uint32_t value)
{
    uint8_t bytes[MAX_INTEGER_BYTES];

    return gp_bytes_append(out, bytes, encode_integer(bytes, pattern, integer_mask(pattern), value));
}

int gp_hpack_put_string(struct gp_bytes *out, const char *text, size_t size)
{
    uint8_t bytes[MAX_INTEGER_BYTES];

    if (size > UINT32_MAX || gp_bytes_append(out, bytes, encode_integer(bytes, 0, 0x7f, (uint32_t)size)) != 0)
        return -1;
    return gp_bytes_append(out, text, size);
}

/* NULL when the integer is cut off or too large to be meant; `at` is before `end`. */
static const uint8_t *read_integer(const uint8_t *at, const uint8_t *end, uint8_t mask, uint32_t *value)
{
    uint64_t sum = *at++ & mask;

    if (sum == mask) {
        unsigned shift = 0;
        do {
            if (at == end || shift > 28)
                return NULL;
            sum += (uint64_t)(*at & 0x7f) << shift;
            shift += 7;
        } while (*at++ & 0x80);
    }
    *value = (uint32_t)sum;
    return sum > UINT32_MAX ? NULL : at;
}

static const uint8_t *skip_string(const uint8_t *at, const uint8_t *end)
{
    uint32_t size;

    if (at == end)
        return NULL;
    at = read_integer(at, end, 0x7f, &size);
    return at && size <= (size_t)(end - at) ? at + size : NULL;
}

bool gp_hpack_leaves_table(const uint8_t *block, size_t size)
{
    const uint8_t *at = block, *end = block + size;

    while (at && at < end) {
        uint8_t first = *at;
        uint32_t index;
        if (!(first & GP_HPACK_INDEXED) && first & (GP_HPACK_INDEXING | GP_HPACK_TABLE_SIZE))
            return false;
        at = read_integer(at, end, integer_mask(first), &index);
        if (first & GP_HPACK_INDEXED || !at)
            continue;
        if (index == 0)
            at = skip_string(at, end);
        if (at)
            at = skip_string(at, end);
    }
    return at != NULL;
}
