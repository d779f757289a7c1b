/* message: the walk over length-prefixed messages, and gzip by zlib. Nothing of a message is kept but where
 * it ends. */
#include "wire/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "wire/frame.h"

#define GZIP_WINDOW_BITS (15 + 16) /* zlib's way to say gzip and nothing else */
#define GZIP_MEM_LEVEL 8
#define SCRATCH_BYTES 16384

_Static_assert(sizeof(struct gp_message_scan) <= 24, "one for each call in flight");

struct gzip {
    z_stream stream;
    uint64_t produced;
    bool ended;
};

static struct gzip *gzip_create(void)
{
    struct gzip *gzip = calloc(1, sizeof *gzip);

    if (gzip && inflateInit2(&gzip->stream, GZIP_WINDOW_BITS) != Z_OK) {
        free(gzip);
        gzip = NULL;
    }
    return gzip;
}

static void gzip_destroy(struct gp_message_scan *scan)
{
    struct gzip *gzip = scan->gzip;

    if (!gzip)
        return;
    inflateEnd(&gzip->stream);
    free(gzip);
    scan->gzip = NULL;
}

/* Output goes nowhere: only its size counts, and a message that grows past the limit ends there and then. */
static enum gp_message_fault gzip_feed(struct gzip *gzip, const uint8_t *data, size_t size,
                                       uint32_t max_bytes)
{
    uint8_t scratch[SCRATCH_BYTES];
    z_stream *stream = &gzip->stream;

    stream->next_in = (z_const Bytef *)data;
    stream->avail_in = (uInt)size;
    while (stream->avail_in > 0) { /* output that is left waits for the trailer, if for nothing else */
        if (gzip->ended)
            return GP_MESSAGE_BAD_GZIP; /* a second member: C core takes only one, too */
        stream->next_out = scratch;
        stream->avail_out = sizeof scratch;
        int result = inflate(stream, Z_NO_FLUSH);
        gzip->produced += sizeof scratch - stream->avail_out;
        if (gzip->produced > max_bytes)
            return GP_MESSAGE_TOO_LARGE;
        gzip->ended = result == Z_STREAM_END;
        if (result != Z_OK && result != Z_STREAM_END)
            return GP_MESSAGE_BAD_GZIP;
    }
    return GP_MESSAGE_FINE;
}

/* A compressed message of no bytes never sees the inflater and counts as an empty one, as in C core. */
static enum gp_message_fault begin_body(struct gp_message_scan *scan, uint32_t max_bytes, bool gzip_allowed)
{
    uint8_t flag = scan->prefix[0];

    if (flag > 1 || (flag == 1 && !gzip_allowed))
        return GP_MESSAGE_BAD_FLAG;
    scan->left = gp_get_u32(scan->prefix + 1);
    if (scan->left > max_bytes)
        return GP_MESSAGE_TOO_LARGE;
    if (flag == 0)
        return GP_MESSAGE_FINE;
    scan->gzip = gzip_create();
    return scan->gzip ? GP_MESSAGE_FINE : GP_MESSAGE_TOO_LARGE; /* no memory: RESOURCE_EXHAUSTED it is */
}

static enum gp_message_fault feed_body(struct gp_message_scan *scan, const uint8_t *data, size_t size,
                                       uint32_t max_bytes)
{
    struct gzip *gzip = scan->gzip;

    scan->left -= (uint32_t)size;
    if (!gzip)
        return GP_MESSAGE_FINE;
    enum gp_message_fault fault = gzip_feed(gzip, data, size, max_bytes);
    if (fault == GP_MESSAGE_FINE && scan->left == 0 && !gzip->ended)
        fault = GP_MESSAGE_BAD_GZIP;
    return fault;
}

static size_t take_prefix(struct gp_message_scan *scan, const uint8_t *data, size_t size)
{
    size_t wanted = GP_MESSAGE_PREFIX_BYTES - scan->prefix_bytes;
    size_t taken = size < wanted ? size : wanted;

    memcpy(scan->prefix + scan->prefix_bytes, data, taken);
    scan->prefix_bytes += (uint8_t)taken;
    return taken;
}

static uint32_t scan_any(struct gp_message_scan *scan, const uint8_t *data, size_t size, uint32_t max_bytes,
                         bool gzip_allowed, enum gp_message_fault *fault)
{
    uint32_t completed = 0;

    while (size > 0 && *fault == GP_MESSAGE_FINE) {
        size_t taken;
        if (scan->prefix_bytes < GP_MESSAGE_PREFIX_BYTES) {
            taken = take_prefix(scan, data, size);
            if (scan->prefix_bytes == GP_MESSAGE_PREFIX_BYTES)
                *fault = begin_body(scan, max_bytes, gzip_allowed);
        } else {
            taken = size < scan->left ? size : scan->left;
            *fault = feed_body(scan, data, taken, max_bytes);
        }
        data += taken;
        size -= taken;
        if (*fault == GP_MESSAGE_FINE && scan->prefix_bytes == GP_MESSAGE_PREFIX_BYTES && scan->left == 0) {
            completed++;
            gp_message_scan_fini(scan);
        }
    }
    if (*fault != GP_MESSAGE_FINE)
        gp_message_scan_fini(scan);
    return completed;
}

/* As a rule a payload is one whole message, or part of the body of a large one; the rest is scan_any's. */
uint32_t gp_message_scan(struct gp_message_scan *scan, const uint8_t *data, size_t size, uint32_t max_bytes,
                         bool gzip_allowed, enum gp_message_fault *fault)
{
    *fault = GP_MESSAGE_FINE;
    if (scan->prefix_bytes == 0 && size >= GP_MESSAGE_PREFIX_BYTES && data[0] == 0) {
        uint32_t length = gp_get_u32(data + 1);
        if (length == size - GP_MESSAGE_PREFIX_BYTES && length <= max_bytes)
            return 1;
    } else if (scan->left > size && !scan->gzip) {
        scan->left -= (uint32_t)size;
        return 0;
    }
    return scan_any(scan, data, size, max_bytes, gzip_allowed, fault);
}

bool gp_message_between(const struct gp_message_scan *scan)
{
    return scan->prefix_bytes == 0;
}

void gp_message_scan_fini(struct gp_message_scan *scan)
{
    gzip_destroy(scan);
    *scan = (struct gp_message_scan){0};
}

static uint8_t *frame_plain(const void *message, size_t size, size_t *framed_size)
{
    uint8_t *framed = malloc(GP_MESSAGE_PREFIX_BYTES + size);

    if (!framed)
        return NULL;
    framed[0] = 0;
    gp_put_u32(framed + 1, (uint32_t)size);
    if (size > 0)
        memcpy(framed + GP_MESSAGE_PREFIX_BYTES, message, size);
    *framed_size = GP_MESSAGE_PREFIX_BYTES + size;
    return framed;
}

static uint8_t *frame_gzip(const void *message, size_t size, size_t *framed_size)
{
    z_stream stream = {0};
    uint8_t *framed = NULL;

    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEM_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    uLong bound = deflateBound(&stream, (uLong)size);
    if (bound <= UINT32_MAX)
        framed = malloc(GP_MESSAGE_PREFIX_BYTES + bound);
    if (framed) {
        stream.next_in = (z_const Bytef *)message;
        stream.avail_in = (uInt)size;
        stream.next_out = framed + GP_MESSAGE_PREFIX_BYTES;
        stream.avail_out = (uInt)bound;
        int result = deflate(&stream, Z_FINISH);
        assert(result == Z_STREAM_END); /* deflateBound's promise */
        (void)result;
        framed[0] = 1;
        gp_put_u32(framed + 1, (uint32_t)stream.total_out);
        *framed_size = GP_MESSAGE_PREFIX_BYTES + stream.total_out;
    }
    deflateEnd(&stream);
    return framed;
}

uint8_t *gp_message_frame(const void *message, size_t size, bool gzip, size_t *framed_size)
{
    assert(size <= UINT32_MAX); /* all that the prefix can say */
    return gzip ? frame_gzip(message, size, framed_size) : frame_plain(message, size, framed_size);
}
