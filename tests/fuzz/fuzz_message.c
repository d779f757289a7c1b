/* The scan of messages, cut as the fuzzer likes, against a reading of the whole: same count, same fault.
 *
 * Input: a byte of flags and limit, a byte that seeds the cuts, then the stream. */
#include <string.h>
#include <zlib.h>

#include "../c/check.h"
#include "base/random.h"
#include "wire/message.h"

#define OUTPUT_MAX 65536u

/* zlib's own one-shot, with one byte more than allowed: whoever fills it is too large. Faults that lie behind
 * the limit do not count: nobody reads so far. */
static enum gp_message_fault judge_gzip(const uint8_t *data, size_t size, uint32_t max_bytes)
{
    static uint8_t output[OUTPUT_MAX + 1];
    z_stream stream = {.next_in = (z_const Bytef *)data, .avail_in = (uInt)size};

    CHECK(inflateInit2(&stream, 31) == Z_OK);
    stream.next_out = output;
    stream.avail_out = max_bytes + 1;
    int result = inflate(&stream, Z_SYNC_FLUSH);
    size_t produced = max_bytes + 1 - stream.avail_out, unread = stream.avail_in;
    inflateEnd(&stream);
    if (produced > max_bytes)
        return GP_MESSAGE_TOO_LARGE;
    return result == Z_STREAM_END && unread == 0 ? GP_MESSAGE_FINE : GP_MESSAGE_BAD_GZIP;
}

static uint32_t read_whole(const uint8_t *data, size_t size, uint32_t max_bytes, bool gzip_allowed,
                           enum gp_message_fault *fault, bool *between)
{
    uint32_t messages = 0;

    *fault = GP_MESSAGE_FINE;
    while (size >= GP_MESSAGE_PREFIX_BYTES && *fault == GP_MESSAGE_FINE) {
        size_t length = (size_t)data[1] << 24 | data[2] << 16 | data[3] << 8 | data[4];
        if (data[0] > 1 || (data[0] == 1 && !gzip_allowed))
            *fault = GP_MESSAGE_BAD_FLAG;
        else if (length > max_bytes)
            *fault = GP_MESSAGE_TOO_LARGE;
        else if (length > size - GP_MESSAGE_PREFIX_BYTES)
            break;
        else if (data[0] == 1 && length > 0)
            *fault = judge_gzip(data + GP_MESSAGE_PREFIX_BYTES, length, max_bytes);
        if (*fault != GP_MESSAGE_FINE)
            break;
        messages++;
        data += GP_MESSAGE_PREFIX_BYTES + length;
        size -= GP_MESSAGE_PREFIX_BYTES + length;
    }
    *between = size == 0;
    return messages;
}

static uint32_t read_cut(const uint8_t *data, size_t size, uint32_t max_bytes, bool gzip_allowed,
                         uint8_t seed, enum gp_message_fault *fault, bool *between)
{
    struct gp_message_scan scan = {0};
    struct gp_random random;
    uint32_t messages = 0;

    *fault = GP_MESSAGE_FINE;
    gp_random_init(&random, seed);
    while (size > 0 && *fault == GP_MESSAGE_FINE) {
        size_t piece = seed == 0 ? size : 1 + gp_random_below(&random, seed);
        piece = piece < size ? piece : size;
        uint8_t *copy = malloc(piece); /* of its own, for the sanitizer */
        memcpy(copy, data, piece);
        messages += gp_message_scan(&scan, copy, piece, max_bytes, gzip_allowed, fault);
        free(copy);
        data += piece;
        size -= piece;
    }
    *between = gp_message_between(&scan);
    gp_message_scan_fini(&scan);
    return messages;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A cut-off gzip message may already show its fault to the scan: then the whole, which waits for its end, has
 * seen none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum gp_message_fault fault, wanted_fault;
    bool between, wanted_between;

    if (size < 2)
        return 0;
    bool gzip_allowed = data[0] & 1;
    uint32_t max_bytes = data[0] & 2 ? OUTPUT_MAX : data[0];
    uint32_t wanted = read_whole(data + 2, size - 2, max_bytes, gzip_allowed, &wanted_fault, &wanted_between);
    uint32_t messages = read_cut(data + 2, size - 2, max_bytes, gzip_allowed, data[1], &fault, &between);
    CHECK(messages == wanted);
    if (wanted_fault != GP_MESSAGE_FINE || wanted_between || fault == GP_MESSAGE_FINE)
        CHECK(fault == wanted_fault);
    if (fault == GP_MESSAGE_FINE)
        CHECK(between == wanted_between);
    return 0;
}
