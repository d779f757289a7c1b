/* reply: HPACK written by hand (RFC 7541): indices of the static table, of the two entries that we make, and
 * literals. */
#include "wire/reply.h"

#include <assert.h>
#include <string.h>

#include "wire/frame.h"
#include "wire/hpack.h"

enum { STATIC_STATUS_200 = 8, STATIC_CONTENT_TYPE = 31 };

#define CONTENT_TYPE "application/grpc"
#define ENTRIES_BYTES (12u + 16u + 11u + 1u + 2u * GP_HPACK_ENTRY_BYTES) /* content-type, grpc-status: 0 */
#define SMALL_TABLE 128u

_Static_assert(ENTRIES_BYTES <= SMALL_TABLE, "both entries must fit");

struct block {
    uint8_t *at;
};

static void put(struct block *block, uint8_t byte)
{
    *block->at++ = byte;
}

static void put_text(struct block *block, const char *text)
{
    size_t size = strlen(text);

    assert(size < 0x7f);
    put(block, (uint8_t)size);
    memcpy(block->at, text, size);
    block->at += size;
}

/* The entry that was made last is the first after the static ones. */
static void put_entry(struct block *block, unsigned from_last)
{
    put(block, (uint8_t)(GP_HPACK_INDEXED | (GP_HPACK_STATIC_ENTRIES + 1 + from_last)));
}

/* Down to nothing, which also empties it, and up to what was agreed (RFC 7541, 4.2). */
static void put_resize(struct gp_reply *reply, struct block *block)
{
    if (!reply->resized)
        return;
    put(block, GP_HPACK_TABLE_SIZE);
    if (reply->state != GP_REPLY_NO_TABLE) {
        put(block, GP_HPACK_TABLE_SIZE | 31);
        put(block, SMALL_TABLE - 31);
    }
    reply->resized = false;
}

static void put_content_type(struct gp_reply *reply, struct block *block, bool may_index)
{
    if (reply->state == GP_REPLY_HALF) {
        put_entry(block, 0);
    } else if (reply->state == GP_REPLY_AT_REST) {
        put_entry(block, 1);
    } else if (may_index && reply->state == GP_REPLY_OPENING) {
        put(block, GP_HPACK_INDEXING | STATIC_CONTENT_TYPE);
        put_text(block, CONTENT_TYPE);
        reply->state = GP_REPLY_HALF;
    } else {
        put(block, GP_HPACK_LITERAL | 15);
        put(block, STATIC_CONTENT_TYPE - 15);
        put_text(block, CONTENT_TYPE);
    }
}

static struct block begin(uint8_t *out)
{
    return (struct block){.at = out + GP_FRAME_HEADER_BYTES};
}

static size_t end(uint8_t *out, struct block block, uint32_t stream_id, uint8_t flags)
{
    size_t size = (size_t)(block.at - out);

    assert(size <= GP_REPLY_BYTES);
    gp_frame_write(out, (struct gp_frame){
                            .length = (uint32_t)(size - GP_FRAME_HEADER_BYTES),
                            .type = GP_FRAME_HEADERS,
                            .flags = GP_FLAG_END_HEADERS | flags,
                            .stream_id = stream_id,
                        });
    return size;
}

/* Every size that has room for our entries is as good as the small one, which the peer is then told of. */
void gp_reply_table_size(struct gp_reply *reply, uint32_t bytes)
{
    if (reply->state == GP_REPLY_NO_TABLE || bytes >= GP_HPACK_DEFAULT_TABLE)
        return;
    reply->state = bytes < SMALL_TABLE ? GP_REPLY_NO_TABLE : GP_REPLY_OPENING;
    reply->resized = true;
}

size_t gp_reply_headers(struct gp_reply *reply, uint8_t *out, uint32_t stream_id)
{
    struct block block = begin(out);

    put_resize(reply, &block);
    put(&block, GP_HPACK_INDEXED | STATIC_STATUS_200);
    put_content_type(reply, &block, true);
    return end(out, block, stream_id, 0);
}

/* Headers of this stream or of an earlier one have made the first entry, unless
 * the table was emptied since. */
size_t gp_reply_ok(struct gp_reply *reply, uint8_t *out, uint32_t stream_id)
{
    struct block block = begin(out);

    put_resize(reply, &block);
    if (reply->state == GP_REPLY_AT_REST) {
        put_entry(&block, 0);
    } else {
        put(&block, reply->state == GP_REPLY_HALF ? GP_HPACK_INDEXING : GP_HPACK_LITERAL);
        put_text(&block, "grpc-status");
        put_text(&block, "0");
        reply->state = reply->state == GP_REPLY_HALF ? GP_REPLY_AT_REST : reply->state;
    }
    return end(out, block, stream_id, GP_FLAG_END_STREAM);
}

size_t gp_reply_failure(struct gp_reply *reply, uint8_t *out, uint32_t stream_id, bool alone,
                        enum gp_class class, const char *text)
{
    struct block block = begin(out);
    char number[3] = {(char)('0' + class % 10)};

    if (class >= 10) {
        number[0] = '1';
        number[1] = (char)('0' + class % 10);
    }
    put_resize(reply, &block);
    if (alone) {
        put(&block, GP_HPACK_INDEXED | STATIC_STATUS_200);
        put_content_type(reply, &block, false);
    }
    put(&block, GP_HPACK_LITERAL);
    put_text(&block, "grpc-status");
    put_text(&block, number);
    put(&block, GP_HPACK_LITERAL);
    put_text(&block, "grpc-message");
    assert(strlen(text) <= GP_REPLY_TEXT_BYTES);
    put_text(&block, text);
    return end(out, block, stream_id, GP_FLAG_END_STREAM);
}
