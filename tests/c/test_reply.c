/* The header blocks of responses, in the eyes of nghttp2's inflater: whatever the order and the tables. */
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/random.h"
#include "check.h"
#include "wire/frame.h"
#include "wire/reply.h"

struct peer {
    struct gp_reply reply;
    nghttp2_hd_inflater *inflater;
    size_t longest; /* of the blocks */
};

/* The fields of a frame's block, as "name=value " one after the other. */
static void read_frame(struct peer *peer, const uint8_t *bytes, size_t size, uint8_t flags,
                       const char *expected)
{
    struct gp_frame frame = gp_frame_read(bytes);
    char fields[300] = "";
    int inflate_flags = 0;

    CHECK(frame.type == GP_FRAME_HEADERS && frame.flags == flags && frame.stream_id == 77);
    CHECK(frame.length + GP_FRAME_HEADER_BYTES == size && size <= GP_REPLY_BYTES);
    peer->longest = frame.length > peer->longest ? frame.length : peer->longest;
    for (size_t at = GP_FRAME_HEADER_BYTES; !(inflate_flags & NGHTTP2_HD_INFLATE_FINAL);) {
        nghttp2_nv field;
        inflate_flags = 0;
        ssize_t taken =
            nghttp2_hd_inflate_hd2(peer->inflater, &field, &inflate_flags, bytes + at, size - at, 1);
        CHECK(taken >= 0);
        at += (size_t)taken;
        if (inflate_flags & NGHTTP2_HD_INFLATE_EMIT)
            snprintf(fields + strlen(fields), sizeof fields - strlen(fields), "%.*s=%.*s ",
                     (int)field.namelen, (char *)field.name, (int)field.valuelen, (char *)field.value);
    }
    nghttp2_hd_inflate_end_headers(peer->inflater);
    CHECK(strcmp(fields, expected) == 0);
}

static void headers(struct peer *peer)
{
    uint8_t out[GP_REPLY_BYTES];

    read_frame(peer, out, gp_reply_headers(&peer->reply, out, 77), GP_FLAG_END_HEADERS,
               ":status=200 content-type=application/grpc ");
}

static void ok(struct peer *peer)
{
    uint8_t out[GP_REPLY_BYTES];

    read_frame(peer, out, gp_reply_ok(&peer->reply, out, 77), GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM,
               "grpc-status=0 ");
}

static void failure(struct peer *peer, bool alone)
{
    uint8_t out[GP_REPLY_BYTES];
    size_t size = gp_reply_failure(&peer->reply, out, 77, alone, GP_CLASS_UNIMPLEMENTED, "no such method");

    read_frame(peer, out, size, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM,
               alone ? ":status=200 content-type=application/grpc grpc-status=12 grpc-message=no such method "
                     : "grpc-status=12 grpc-message=no such method ");
    size = gp_reply_failure(&peer->reply, out, 77, false, (enum gp_class)3, "x");
    read_frame(peer, out, size, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM, "grpc-status=3 grpc-message=x ");
}

static void begin(struct peer *peer)
{
    *peer = (struct peer){0};
    CHECK(nghttp2_hd_inflate_new(&peer->inflater) == 0);
}

/* The peer's limit: nghttp2 then demands to be told of a smaller table, and that it is not larger. */
static void resize(struct peer *peer, uint32_t bytes)
{
    CHECK(nghttp2_hd_inflate_change_table_size(peer->inflater, bytes) == 0);
    gp_reply_table_size(&peer->reply, bytes);
}

static void comes_to_rest(void)
{
    struct peer peer;

    begin(&peer);
    failure(&peer, true);
    headers(&peer);
    CHECK(!gp_reply_at_rest(&peer.reply));
    headers(&peer);
    failure(&peer, true);
    ok(&peer);
    CHECK(gp_reply_at_rest(&peer.reply));
    peer.longest = 0;
    for (unsigned i = 0; i < 3; i++) {
        headers(&peer);
        ok(&peer);
    }
    CHECK(peer.longest == 2);
    nghttp2_hd_inflate_del(peer.inflater);
}

static void small_tables(void)
{
    static const uint32_t sizes[] = {0, 103, 127};
    struct peer peer;

    for (unsigned i = 0; i < 3; i++) {
        begin(&peer);
        resize(&peer, sizes[i]);
        CHECK(!gp_reply_at_rest(&peer.reply)); /* the peer is yet to be told */
        headers(&peer);
        CHECK(gp_reply_at_rest(&peer.reply));
        ok(&peer);
        failure(&peer, true);
        headers(&peer);
        ok(&peer);
        nghttp2_hd_inflate_del(peer.inflater);
    }
}

static void any_order(uint64_t seed)
{
    static const uint32_t sizes[] = {0, 60, 127, 128, 200, 4095, 4096, 65536};
    struct gp_random random;
    struct peer peer;

    begin(&peer);
    gp_random_init(&random, seed);
    for (unsigned i = 0; i < 40; i++) {
        switch (gp_random_below(&random, 8)) {
        case 0:
            resize(&peer, sizes[gp_random_below(&random, 8)]);
            break;
        case 1:
            failure(&peer, gp_random_below(&random, 2));
            break;
        case 2:
        case 3:
            ok(&peer);
            break;
        default:
            headers(&peer);
        }
    }
    nghttp2_hd_inflate_del(peer.inflater);
}

int main(void)
{
    comes_to_rest();
    small_tables();
    for (uint64_t seed = 0; seed < 3000; seed++)
        any_order(seed);
    return 0;
}
