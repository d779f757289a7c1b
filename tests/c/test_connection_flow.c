/* connection: both directions of flow control, the peer's SETTINGS while calls are open, streams that have to
 * wait, and what else a peer may say. Sections are those of RFC 9113. */
#include "wire_peer.h"

#include <nghttp2/nghttp2.h>

#include "wire/connection_state.h"

static struct gp_bytes script;

static size_t data_bytes(struct peer *peer, uint32_t stream_id) /* of DATA not looked at yet */
{
    struct gp_frame frame;
    size_t bytes = 0;

    while (peer_find(peer, GP_FRAME_DATA, stream_id, &frame))
        bytes += frame.length;
    return bytes;
}

static void look_away(struct peer *peer)
{
    peer_listen(peer);
    peer->mark = gp_bytes_length(&peer->said);
}

/* --- what we send ------------------------------------------------------------------------------ */

static void sending_keeps_to_both_windows(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 50000 - 5});
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW);
    size_t mark = peer.mark;
    size_t sent = data_bytes(&peer, 1);
    peer.mark = mark;
    CHECK(sent + data_bytes(&peer, 3) == 65535); /* the connection's */
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 100000);
    CHECK(peer_say(&peer, &script) == 0);
    mark = peer.mark;
    size_t more = data_bytes(&peer, 1);
    peer.mark = mark;
    CHECK(sent + more == 50000 && sent + more + data_bytes(&peer, 3) + 65535 - sent == 100000);
    peer_close(&peer);
}

/* Windows go below 0 when the peer takes back what has been used (6.9.2), and fill up again from there. */
static void initial_window_size_changes_open_streams(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 100000 - 5});
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 1000000);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    CHECK(data_bytes(&peer, 1) == 65535);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 1000); /* now -64,535 */
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 64535);      /* now 0 */
    CHECK(peer_say(&peer, &script) == 0 && data_bytes(&peer, 1) == 0);
    gp_wire_submit(peer.wire, 1, NOW); /* a new one has the new size */
    CHECK(data_bytes(&peer, 3) == 1000);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 1);
    CHECK(peer_say(&peer, &script) == 0 && data_bytes(&peer, 1) == 1);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 1010);
    CHECK(peer_say(&peer, &script) == 0);
    size_t mark = peer.mark;
    CHECK(data_bytes(&peer, 1) == 10);
    peer.mark = mark;
    CHECK(data_bytes(&peer, 3) == 10);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 200000);
    CHECK(peer_say(&peer, &script) == 0);
    mark = peer.mark;
    CHECK(data_bytes(&peer, 1) == 100000 - 65535 - 11);
    peer.mark = mark;
    CHECK(data_bytes(&peer, 3) == 100000 - 1010);
    peer_close(&peer);
}

/* Small messages, too: the prepared frames are used only where the windows have room for them. */
static void small_messages_wait_for_windows(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 95, .max_in_flight = 4});
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 99);
    CHECK(peer_say(&peer, &script) == 0);
    for (uint32_t i = 0; i < 4; i++) {
        gp_wire_submit(peer.wire, i, NOW);
        CHECK(data_bytes(&peer, 2 * i + 1) == 99);
        put_number(&script, GP_FRAME_WINDOW_UPDATE, 2 * i + 1, 10);
        CHECK(peer_say(&peer, &script) == 0 && data_bytes(&peer, 2 * i + 1) == 1);
    }
    peer_close(&peer);
}

static void small_messages_use_up_the_connections_window(void)
{
    struct peer peer;
    struct gp_frame frame;
    const uint8_t *payload;
    size_t bytes = 0;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 1024 - 5});
    for (uint32_t i = 0; i < 64; i++)
        gp_wire_submit(peer.wire, i, NOW);
    peer_listen(&peer);
    while (peer_frame(&peer, &frame, &payload))
        bytes += frame.type == GP_FRAME_DATA ? frame.length : 0;
    CHECK(bytes == 65535 && !gp_wire_has_output(peer.wire));
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 1);
    CHECK(peer_say(&peer, &script) == 0 && data_bytes(&peer, 127) == 1);
    peer_close(&peer);
}

static void max_frame_size_is_the_peers(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 40000});
    put_setting(&script, GP_SETTING_MAX_FRAME_SIZE, 30000);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame) && frame.length == 30000);
    CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame) && frame.length == 10005);
    peer_close(&peer);
}

/* 2^31 - 1 is allowed, one more is not (6.9.1, 6.9.2). */
static void windows_may_be_as_large_as_can_be_said(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 16});
    gp_wire_submit(peer.wire, 0, NOW);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, GP_FRAME_MAX_WINDOW - 100);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 100 + 21);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, GP_FRAME_MAX_WINDOW - 65535 + 21);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 0);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 0);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, GP_FRAME_MAX_WINDOW - 100);
    CHECK(peer_say(&peer, &script) == 0);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, GP_FRAME_MAX_WINDOW - 99);
    CHECK(peer_say(&peer, &script) == -1);
    peer_close(&peer);
}

/* Everybody gets a turn. */
static void streams_take_turns(void)
{
    struct peer peer;
    struct gp_frame frame;
    const uint8_t *payload;
    uint32_t last = 0;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 40000});
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 1000000);
    CHECK(peer_say(&peer, &script) == 0);
    for (uint32_t i = 0; i < 3; i++)
        gp_wire_submit(peer.wire, i, NOW);
    peer_listen(&peer);
    while (peer_frame(&peer, &frame, &payload))
        if (frame.type == GP_FRAME_DATA) {
            CHECK(frame.stream_id != last);
            last = frame.stream_id;
        }
    peer_close(&peer);
}

/* --- what we receive --------------------------------------------------------------------------- */

static void windows_are_given_back_by_eighths(void)
{
    struct peer peer;
    const uint8_t *update;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_SERVER_STREAM,
                                         .stream_window = 100000,
                                         .connection_window = 150000});
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 12495);
    CHECK(peer_say(&peer, &script) == 0);
    look_away(&peer);
    CHECK(peer_count(&peer, GP_FRAME_WINDOW_UPDATE, 1) == 0);
    put_message(&script, 1, 0, 2495);
    CHECK(peer_say(&peer, &script) == 0);
    update = peer_find(&peer, GP_FRAME_WINDOW_UPDATE, 1, NULL);
    CHECK(update && gp_get_u32(update) == 15000);
    CHECK(peer_count(&peer, GP_FRAME_WINDOW_UPDATE, 0) == 0);
    put_frame(&script, GP_FRAME_DATA, GP_FLAG_PADDED, 1, "\7\0\0\0\0\0\0\0", 8); /* padding counts, too */
    put_message(&script, 1, 0, 4987);
    CHECK(peer_say(&peer, &script) == 0);
    update = peer_find(&peer, GP_FRAME_WINDOW_UPDATE, 0, NULL);
    CHECK(update && gp_get_u32(update) == 20000);
    peer_close(&peer);
}

/* A stream that ends, or has been left, gets no window; the connection does. */
static void closed_streams_count_for_the_connection_only(void)
{
    struct peer peer;
    const uint8_t *update;

    peer_open(&peer, &(struct peer_opts){.stream_window = 100000, .connection_window = 150000});
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_abort(peer.wire, 0, GP_CLASS_CANCELLED, NOW);
    look_away(&peer);
    put_message(&script, 1, 0, 79995);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer_count(&peer, GP_FRAME_WINDOW_UPDATE, 1) == 0);
    update = peer_find(&peer, GP_FRAME_WINDOW_UPDATE, 0, NULL);
    CHECK(update && gp_get_u32(update) == 80000);
    peer_close(&peer);
}

/* A connection window below 65,535 cannot be said; it is reached by giving nothing back until it is. */
static void small_connection_window_is_reached_by_silence(void)
{
    struct peer peer;
    const uint8_t *update;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_SERVER_STREAM, .connection_window = 20000});
    CHECK(peer_count(&peer, GP_FRAME_WINDOW_UPDATE, 0) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 48030 - 5);
    CHECK(peer_say(&peer, &script) == 0 && peer_count(&peer, GP_FRAME_WINDOW_UPDATE, 0) == 0);
    put_message(&script, 1, 0, 0);
    CHECK(peer_say(&peer, &script) == 0);
    update = peer_find(&peer, GP_FRAME_WINDOW_UPDATE, 0, NULL);
    CHECK(update && gp_get_u32(update) == 2500);
    peer_close(&peer);
}

/* --- SETTINGS ---------------------------------------------------------------------------------- */

static void settings_are_acknowledged(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){0});
    look_away(&peer);
    put_setting(&script, 0x1234, 7); /* unknown */
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer_find(&peer, GP_FRAME_SETTINGS, 0, &frame) && frame.flags == GP_FLAG_ACK && frame.length == 0);
    put_frame(&script, GP_FRAME_SETTINGS, GP_FLAG_ACK, 0, "", 0);
    CHECK(peer_say(&peer, &script) == 0 && peer_count(&peer, GP_FRAME_SETTINGS, 0) == 0);
    peer_close(&peer);
}

/* The peer's table shrinks and grows again; an inflater of that size follows all blocks. */
static void header_table_size_is_kept_to(void)
{
    static const uint32_t sizes[] = {4096, 0, 200, 4096, 100};
    struct peer peer;
    struct gp_frame frame;
    nghttp2_hd_inflater *inflater;

    CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
    peer_open(&peer, &(struct peer_opts){0});
    for (uint32_t i = 0; i < 15; i++) {
        if (i % 3 == 0) {
            put_setting(&script, GP_SETTING_HEADER_TABLE_SIZE, sizes[i / 3]);
            CHECK(peer_say(&peer, &script) == 0);
            CHECK(nghttp2_hd_inflate_change_table_size(inflater, sizes[i / 3]) == 0);
        }
        gp_wire_submit(peer.wire, i, NOW);
        const uint8_t *block = peer_find(&peer, GP_FRAME_HEADERS, 2 * i + 1, &frame);
        size_t left = frame.length;
        unsigned fields = 0;
        int flags = 0;
        while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
            nghttp2_nv field;
            ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, left, 1);
            CHECK(taken >= 0);
            block += taken;
            left -= (size_t)taken;
            fields += (flags & NGHTTP2_HD_INFLATE_EMIT) != 0;
        }
        nghttp2_hd_inflate_end_headers(inflater);
        CHECK(fields >= 7);
    }
    nghttp2_hd_inflate_del(inflater);
    peer_close(&peer);
}

/* HEADERS and CONTINUATION of at most the peer's MAX_FRAME_SIZE, nothing in between (6.2). */
static void long_request_headers_are_continued(void)
{
    static char value[15001];
    static const struct gp_metadata metadata[] = {{"first", value}, {"second", value}, {"third", value}};
    struct peer peer;
    struct gp_frame frame;
    const uint8_t *payload;
    uint8_t type = GP_FRAME_HEADERS;
    struct gp_bytes block = {0};
    size_t fields = 0, bytes = 0;

    memset(value, 'v', sizeof value - 1);
    peer_open(&peer, &(struct peer_opts){.metadata = metadata, .metadata_count = 3});
    look_away(&peer);
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    do {
        CHECK(peer_frame(&peer, &frame, &payload) && frame.type == type && frame.stream_id == 1);
        CHECK(frame.length <= GP_FRAME_DEFAULT_SIZE && gp_bytes_append(&block, payload, frame.length) == 0);
        type = GP_FRAME_CONTINUATION;
    } while (!(frame.flags & GP_FLAG_END_HEADERS));
    CHECK(gp_bytes_length(&block) > 2 * GP_FRAME_DEFAULT_SIZE);
    CHECK(peer_frame(&peer, &frame, &payload) && frame.type == GP_FRAME_DATA);
    nghttp2_hd_inflater *inflater;
    CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
    for (int flags = 0; !(flags & NGHTTP2_HD_INFLATE_FINAL);) {
        nghttp2_nv field;
        ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, gp_bytes_front(&block),
                                               gp_bytes_length(&block), 1);
        CHECK(taken >= 0);
        gp_bytes_take(&block, (size_t)taken);
        fields += (flags & NGHTTP2_HD_INFLATE_EMIT) != 0;
        bytes += flags & NGHTTP2_HD_INFLATE_EMIT ? field.valuelen : 0;
    }
    CHECK(fields >= 10 && bytes > 45000);
    nghttp2_hd_inflate_del(inflater);
    gp_bytes_fini(&block);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

static void header_list_that_the_peer_does_not_want_is_not_sent(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    put_setting(&script, GP_SETTING_MAX_HEADER_LIST_SIZE, 100);
    CHECK(peer_say(&peer, &script) == 0);
    look_away(&peer);
    gp_wire_submit(peer.wire, 0, NOW);
    take_events(&peer);
    only_event(&peer, GP_CLASS_RESOURCE_EXHAUSTED);
    CHECK(strstr(gp_wire_cause(peer.wire), "MAX_HEADER_LIST_SIZE") && !gp_wire_has_output(peer.wire));
    put_setting(&script, GP_SETTING_MAX_HEADER_LIST_SIZE, 10000);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 2 && peer.events[1].class == GP_CLASS_OK);
    peer_close(&peer);
}

/* --- MAX_CONCURRENT_STREAMS -------------------------------------------------------------------- */

static void calls_wait_for_a_stream_in_order(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 2);
    CHECK(peer_say(&peer, &script) == 0);
    for (uint32_t i = 0; i < 6; i++)
        gp_wire_submit(peer.wire, i, 10);
    CHECK(gp_wire_in_flight(peer.wire) == 2 && gp_wire_queued(peer.wire) == 4);
    gp_wire_abort(peer.wire, 3, GP_CLASS_DEADLINE_EXCEEDED, 700); /* while it waits */
    take_events(&peer);
    CHECK(only_event(&peer, GP_CLASS_DEADLINE_EXCEEDED)->sent_ns == 700); /* never was */
    CHECK(peer_count(&peer, GP_FRAME_RST_STREAM, 0) == 0);
    put_answer(&script, 3);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.events[1].id == 1 && peer.events[2].id == 0 && peer.events[1].sent_ns == 10);
    CHECK(gp_wire_in_flight(peer.wire) == 2 && gp_wire_queued(peer.wire) == 1);
    gp_wire_abort(peer.wire, 2, GP_CLASS_CANCELLED, 800); /* frees a stream */
    CHECK(gp_wire_in_flight(peer.wire) == 2 && gp_wire_queued(peer.wire) == 0);
    put_answer(&script, 9);
    put_answer(&script, 7);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.event_count == 6 && peer.events[4].id == 5 && peer.events[4].sent_ns == 800);
    CHECK(peer.events[5].id == 4 && peer.events[5].sent_ns == NOW);
    peer_close(&peer);
}

static void fewer_or_no_streams_hold_new_calls_back(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW);
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 0);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 2, NOW);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0 && gp_wire_in_flight(peer.wire) == 1);
    CHECK(gp_wire_queued(peer.wire) == 1);
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 2);
    CHECK(peer_say(&peer, &script) == 0 && gp_wire_in_flight(peer.wire) == 2);
    CHECK(gp_wire_queued(peer.wire) == 0);
    peer_close(&peer);
}

/* Thousands of aborted waiters leave nothing behind. */
static void aborted_waiters_are_swept_out(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 1);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW); /* stays at the head of the queue */
    for (uint32_t i = 0; i < 5000; i++) {
        gp_wire_submit(peer.wire, 2, NOW);
        gp_wire_abort(peer.wire, 2, GP_CLASS_CANCELLED, NOW);
        peer.event_count = 0;
        take_events(&peer);
        CHECK(peer.event_count == 1);
    }
    CHECK(gp_wire_queued(peer.wire) == 1 && peer.wire->pending.capacity <= 32);
    peer_close(&peer);
}

/* --- what is allowed ---------------------------------------------------------------------------- */

static void harmless_frames_do_no_harm(void)
{
    struct peer peer;
    static const uint8_t large[300000];
    uint8_t padded[64] = {3, 0, 0, 0, 1, 9}; /* padding, priority */
    size_t size;

    peer_open(&peer, &(struct peer_opts){0});
    gp_wire_submit(peer.wire, 0, NOW);
    put_frame(&script, 0x55, 0xff, 77, large,
              sizeof large); /* of an unknown type, on a stream that is none */
    put_frame(&script, GP_FRAME_PRIORITY, 0, 99, "12345", 5); /* on an idle stream (5.1) */
    put_frame(&script, GP_FRAME_PRIORITY, 0, 1, "12345", 5);
    put_headers(&script, 1, 0, ":status=100");
    put_headers(&script, 1, 0, ":status=103|link=x");
    size = 6 + encode_fields(HEADERS_OK, padded + 6);
    put_frame(&script, GP_FRAME_HEADERS, GP_FLAG_PADDED | GP_FLAG_PRIORITY | GP_FLAG_END_HEADERS | 0x40, 1,
              padded, size + 3);
    put_frame(&script, GP_FRAME_DATA, GP_FLAG_PADDED, 1, "\3\0\0\0\0\2a\1\2\3", 10);
    put_frame(&script, GP_FRAME_DATA, 0, 1, "", 0);
    put_frame(&script, GP_FRAME_DATA, GP_FLAG_PADDED | 0xf0, 1, "\0b", 2);
    put_frame(&script, GP_FRAME_DATA, GP_FLAG_PADDED, 1, "\1\0", 2);
    put_frame(&script, GP_FRAME_WINDOW_UPDATE, 0xff, 1, "\x80\0\0\1", 4); /* with its reserved bit */
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 1);
    CHECK(peer_count(&peer, GP_FRAME_RST_STREAM, 1) == 0);
    peer_close(&peer);
}

static void frames_on_closed_streams_are_late(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    gp_wire_submit(peer.wire, 0, NOW);
    put_answer(&script, 1);
    put_number(&script, GP_FRAME_RST_STREAM, 1, GP_H2_NO_ERROR); /* 8.1: it wants no more of the request */
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 0);
    put_message(&script, 1, GP_FLAG_END_STREAM, 100);
    put_headers(&script, 1, 0, "a=b");
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

/* A block on a closed stream fills the table all the same; the next call's block refers to it (4.3). */
static void blocks_on_closed_streams_keep_the_table_right(void)
{
    static const uint8_t fills[] = "\x88\x40\x0bgrpc-status\x01"
                                   "0"; /* with indexing */
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_abort(peer.wire, 0, GP_CLASS_CANCELLED, NOW);
    put_frame(&script, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS, 1, fills, sizeof fills - 1);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 1, NOW);
    put_headers(&script, 3, 0, HEADERS_OK);
    put_message(&script, 3, 0, 0);
    put_frame(&script, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM, 3, "\xbe", 1);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.event_count == 2 && peer.events[1].class == GP_CLASS_OK);
    peer_close(&peer);
}

static void continued_blocks_are_put_together(void)
{
    struct peer peer;
    uint8_t block[128];
    size_t size = encode_fields(TRAILERS_ONLY_OK, block);

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI, .parked = true});
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW);
    put_frame(&script, GP_FRAME_HEADERS, GP_FLAG_END_STREAM, 3, block, size - 1);
    put_frame(&script, GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 3, block + size - 1, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer.event_count = 0; /* and another, of which nothing of the first is part */
    put_frame(&script, GP_FRAME_HEADERS, GP_FLAG_END_STREAM, 1, block, 3);
    for (size_t i = 3; i + 1 < size; i++)
        if (i % 2)
            put_frame(&script, GP_FRAME_CONTINUATION, 0, 1, block + i, i + 2 < size ? 2 : 1);
    put_frame(&script, GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 1, block + size - size % 2, size % 2);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

static void pings_are_answered(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){0});
    look_away(&peer);
    put_frame(&script, GP_FRAME_PING, 0, 0, "abcdefgh", 8);
    CHECK(peer_say(&peer, &script) == 0);
    const uint8_t *payload = peer_find(&peer, GP_FRAME_PING, 0, &frame);
    CHECK(payload && frame.flags == GP_FLAG_ACK && memcmp(payload, "abcdefgh", 8) == 0);
    gp_wire_ping(peer.wire);
    payload = peer_find(&peer, GP_FRAME_PING, 0, &frame);
    CHECK(payload && frame.flags == 0 && gp_wire_pongs(peer.wire) == 0);
    put_frame(&script, GP_FRAME_PING, GP_FLAG_ACK, 0, payload, 8);
    CHECK(peer_say(&peer, &script) == 0 && gp_wire_pongs(peer.wire) == 1);
    for (int i = 0; i < 1000; i++) /* as many as may be owed at a time */
        put_frame(&script, GP_FRAME_PING, 0, 0, "abcdefgh", 8);
    CHECK(peer_say(&peer, &script) == 0);
    look_away(&peer);
    for (int i = 0; i < 5000; i++) { /* a peer that reads our answers may ask as often as it likes */
        put_frame(&script, GP_FRAME_PING, 0, 0, "abcdefgh", 8);
        CHECK(peer_say(&peer, &script) == 0);
        look_away(&peer);
    }
    peer_close(&peer);
}

int main(void)
{
    sending_keeps_to_both_windows();
    initial_window_size_changes_open_streams();
    small_messages_wait_for_windows();
    small_messages_use_up_the_connections_window();
    max_frame_size_is_the_peers();
    windows_may_be_as_large_as_can_be_said();
    streams_take_turns();
    windows_are_given_back_by_eighths();
    closed_streams_count_for_the_connection_only();
    small_connection_window_is_reached_by_silence();
    settings_are_acknowledged();
    header_table_size_is_kept_to();
    long_request_headers_are_continued();
    header_list_that_the_peer_does_not_want_is_not_sent();
    calls_wait_for_a_stream_in_order();
    fewer_or_no_streams_hold_new_calls_back();
    aborted_waiters_are_swept_out();
    harmless_frames_do_no_harm();
    frames_on_closed_streams_are_late();
    blocks_on_closed_streams_keep_the_table_right();
    continued_blocks_are_put_together();
    pings_are_answered();
    gp_bytes_fini(&script);
    return 0;
}
