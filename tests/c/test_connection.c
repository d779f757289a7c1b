/* connection: how calls of each kind begin, go on and end with a peer that keeps the rules. */
#include "wire_peer.h"

#include <nghttp2/nghttp2.h>

#include "base/message_times.h"

static struct gp_bytes script;

/* --- preface ----------------------------------------------------------------------------------- */

static void preface_tells_our_settings(void)
{
    struct peer peer;
    struct gp_settings settings;
    struct gp_frame frame;
    const uint8_t *payload;

    peer_open(&peer,
              &(struct peer_opts){.silent = true, .stream_window = 70000, .connection_window = 100000});
    CHECK(peer_frame(&peer, &frame, &payload) && frame.type == GP_FRAME_SETTINGS && frame.flags == 0);
    gp_settings_init(&settings);
    CHECK(gp_settings_apply(&settings, payload, frame.length) == GP_H2_NO_ERROR);
    CHECK(!settings.enable_push && settings.initial_window_size == 70000 &&
          settings.max_header_list_size == 8192 && settings.max_frame_size > GP_FRAME_DEFAULT_SIZE);
    CHECK(peer_frame(&peer, &frame, &payload) && frame.type == GP_FRAME_WINDOW_UPDATE &&
          frame.stream_id == 0);
    CHECK(gp_get_u32(payload) == 100000 - GP_FRAME_DEFAULT_WINDOW);
    CHECK(!peer_frame(&peer, &frame, &payload));
    peer_close(&peer);
}

static void window_of_the_default_size_needs_no_update(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.connection_window = GP_FRAME_DEFAULT_WINDOW});
    CHECK(peer_count(&peer, GP_FRAME_WINDOW_UPDATE, 0) == 0);
    peer_close(&peer);
}

static void calls_wait_for_the_peers_settings(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.silent = true});
    gp_wire_submit(peer.wire, 3, 10);
    CHECK(!gp_wire_ready(peer.wire) && gp_wire_open(peer.wire));
    CHECK(gp_wire_queued(peer.wire) == 1 && gp_wire_in_flight(peer.wire) == 0);
    CHECK(peer_count(&peer, GP_FRAME_HEADERS, 1) == 0);
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 100);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(gp_wire_ready(peer.wire) && gp_wire_settings(peer.wire)->max_concurrent_streams == 100);
    CHECK(gp_wire_queued(peer.wire) == 0 && gp_wire_in_flight(peer.wire) == 1);
    CHECK(peer_count(&peer, GP_FRAME_HEADERS, 1) == 1);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    const struct gp_event *event = only_event(&peer, GP_CLASS_OK);
    CHECK(event->id == 3 && event->sent_ns == NOW && event->done_ns == NOW); /* not when it was submitted */
    peer_close(&peer);
}

/* --- unary ------------------------------------------------------------------------------------- */

static void unary_call_is_headers_and_one_message(void)
{
    struct peer peer;
    struct gp_frame frame;
    const uint8_t *payload;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 16});
    for (uint32_t i = 0; i < 5; i++) {
        gp_wire_submit(peer.wire, i, 10 + i);
        payload = peer_find(&peer, GP_FRAME_HEADERS, 2 * i + 1, &frame);
        CHECK(payload && frame.flags == GP_FLAG_END_HEADERS);
        payload = peer_find(&peer, GP_FRAME_DATA, 2 * i + 1, &frame);
        CHECK(payload && frame.flags == GP_FLAG_END_STREAM && frame.length == 21);
        CHECK(payload[0] == 0 && gp_get_u32(payload + 1) == 16 && payload[5 + 3] == 21);
        put_answer(&script, 2 * i + 1);
    }
    CHECK(gp_calls_owner(peer.calls, 4) == 5 && gp_calls_owner(peer.calls, 5) == UINT32_MAX);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.event_count == 5 && gp_wire_in_flight(peer.wire) == 0);
    for (uint32_t i = 0; i < 5; i++)
        CHECK(peer.events[i].id == i && peer.events[i].class == GP_CLASS_OK &&
              peer.events[i].messages_received == 1 && peer.events[i].sent_ns == 10 + i &&
              peer.events[i].done_ns == NOW && !peer.events[i].refused);
    CHECK(peer_count(&peer, GP_FRAME_RST_STREAM, 9) == 0);
    struct gp_wire_stats stats;
    gp_wire_stats(peer.wire, &stats);
    CHECK(stats.messages_sent == 5 && stats.messages_received == 5 && stats.refused == 0);
    CHECK(gp_calls_owner(peer.calls, 4) == UINT32_MAX);
    peer_close(&peer);
}

/* Every block, the first ones and those at rest, in one nghttp2 inflater: one state of HPACK for all. */
static void request_headers_are_what_grpc_asks_for(void)
{
    struct peer peer;
    struct gp_frame frame;
    nghttp2_hd_inflater *inflater;

    CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
    peer_open(&peer, &(struct peer_opts){0});
    for (uint32_t i = 0; i < 6; i++) {
        gp_wire_submit(peer.wire, i, NOW);
        const uint8_t *block = peer_find(&peer, GP_FRAME_HEADERS, 2 * i + 1, &frame);
        size_t left = frame.length;
        int flags = 0;
        bool path = false, te = false;
        CHECK(block);
        while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
            nghttp2_nv field;
            ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, left, 1);
            CHECK(taken >= 0);
            block += taken;
            left -= (size_t)taken;
            if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
                continue;
            path = path || (field.namelen == 5 && memcmp(field.name, ":path", 5) == 0 &&
                            memcmp(field.value, "/test.Service/Method", field.valuelen) == 0);
            te = te || (field.namelen == 2 && memcmp(field.value, "trailers", 8) == 0);
        }
        nghttp2_hd_inflate_end_headers(inflater);
        CHECK(path && te);
    }
    nghttp2_hd_inflate_del(inflater);
    peer_close(&peer);
}

static void large_message_is_shared_and_split_by_max_frame_size(void)
{
    struct peer peer;
    struct gp_frame frame;
    const uint8_t *payload;
    size_t at = 0;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 40000});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    while (peer_frame(&peer, &frame, &payload)) {
        if (frame.type != GP_FRAME_DATA)
            continue;
        CHECK(frame.length <= GP_FRAME_DEFAULT_SIZE);
        for (size_t i = 0; i < frame.length; i++, at++)
            CHECK(at < 5 || payload[i] == (uint8_t)((at - 5) * 7 + (at - 5) / 251));
        CHECK((frame.flags == GP_FLAG_END_STREAM) == (at == 40005));
    }
    CHECK(at == 40005);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

static void unary_call_needs_exactly_one_response(void)
{
    static const struct {
        uint32_t responses;
        enum gp_class class;
    } cases[] = {{0, GP_CLASS_UNIMPLEMENTED}, {1, GP_CLASS_OK}, {2, GP_CLASS_UNIMPLEMENTED}};

    for (size_t i = 0; i < 3; i++) {
        struct peer peer;
        peer_open(&peer, &(struct peer_opts){0});
        gp_wire_submit(peer.wire, 7, NOW);
        put_headers(&script, 1, 0, HEADERS_OK);
        for (uint32_t n = 0; n < cases[i].responses; n++)
            put_message(&script, 1, 0, n);
        put_trailers(&script, 1, TRAILERS_OK);
        CHECK(peer_say(&peer, &script) == 0);
        CHECK(only_event(&peer, cases[i].class)->messages_received == cases[i].responses);
        peer_close(&peer);
    }
}

/* A server that answers a unary call without end must not hold it for ever. */
static void second_response_ends_a_unary_call(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    gp_wire_submit(peer.wire, 7, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 1);
    put_message(&script, 1, 0, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_UNIMPLEMENTED);
    CHECK(strstr(gp_wire_cause(peer.wire), "more than one response"));
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    peer_close(&peer);
}

static void what_follows_the_second_response_does_not_count(void)
{
    static const uint8_t four[20]; /* empty messages */
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    gp_wire_submit(peer.wire, 7, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_frame(&script, GP_FRAME_DATA, 0, 1, four, sizeof four);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_UNIMPLEMENTED)->messages_received == 2);
    peer_close(&peer);
}

/* An answer to half a request: the rest of it need not be sent, and is not. */
static void early_answer_ends_the_upload(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 100000});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 4); /* 65,535 bytes */
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    CHECK(peer_reset_code(&peer, 1) == GP_H2_NO_ERROR); /* RFC 9113, 8.1 */
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 100000);
    CHECK(peer_say(&peer, &script) == 0);
    peer.mark = gp_bytes_length(&peer.said);
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 0);
    peer_close(&peer);
}

static void gzip_both_ways(void)
{
    struct peer peer;
    struct gp_frame frame;
    size_t size;
    uint8_t *answer = gp_message_frame("0123456789012345678901234567890123456789", 40, true, &size);

    peer_open(&peer, &(struct peer_opts){.message_bytes = 500, .gzip = true});
    gp_wire_submit(peer.wire, 0, NOW);
    const uint8_t *payload = peer_find(&peer, GP_FRAME_DATA, 1, &frame);
    CHECK(payload && payload[0] == 1 && frame.length < 500);
    put_headers(&script, 1, 0, HEADERS_OK "|grpc-encoding=gzip");
    put_frame(&script, GP_FRAME_DATA, 0, 1, answer, size / 2); /* cut in the middle of the inflation */
    put_frame(&script, GP_FRAME_DATA, 0, 1, answer + size / 2, size - size / 2);
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    gp_wire_submit(peer.wire, 0, NOW); /* and one that ends while an inflation is under way */
    put_headers(&script, 3, 0, HEADERS_OK "|grpc-encoding=gzip");
    put_frame(&script, GP_FRAME_DATA, 0, 3, answer, size - 1);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_abort(peer.wire, 0, GP_CLASS_DEADLINE_EXCEEDED, NOW);
    take_events(&peer);
    CHECK(peer.event_count == 2 && peer.events[1].class == GP_CLASS_DEADLINE_EXCEEDED);
    free(answer);
    peer_close(&peer);
}

/* --- client_stream ----------------------------------------------------------------------------- */

static void client_stream_sends_its_messages_and_closes_with_the_last(void)
{
    struct peer peer;
    struct gp_frame frame;
    const uint8_t *payload;
    uint32_t count = 0;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_CLIENT_STREAM, .messages = 4, .message_bytes = 2});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    while (peer_frame(&peer, &frame, &payload))
        if (frame.type == GP_FRAME_DATA)
            CHECK(frame.length == 7 && (frame.flags == GP_FLAG_END_STREAM) == (++count == 4));
    CHECK(count == 4);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

static void endless_client_stream_closes_when_told_to_end(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_CLIENT_STREAM, .message_bytes = 1000});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer); /* as much as the window takes: 65 messages and a part of one */
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 66);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 3000);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 66 * 1005 - 65535); /* exactly to the end of that one */
    CHECK(peer_say(&peer, &script) == 0);
    peer_listen(&peer);
    peer.mark = gp_bytes_length(&peer.said);
    gp_wire_end(peer.wire, NOW);
    CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame) && frame.length == 0 &&
          frame.flags == GP_FLAG_END_STREAM);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

/* In the middle of a message when told to end: the message goes out whole, with END_STREAM. */
static void endless_client_stream_ends_after_the_message_it_is_at(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_CLIENT_STREAM, .message_bytes = 1000});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    peer.mark = gp_bytes_length(&peer.said);
    gp_wire_end(peer.wire, NOW);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 3000);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 3000);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame));
    CHECK(frame.length == 66 * 1005 - 65535 && frame.flags == GP_FLAG_END_STREAM);
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 0);
    put_answer(&script, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

/* --- server_stream ----------------------------------------------------------------------------- */

static void server_stream_is_cancelled_after_its_messages(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_SERVER_STREAM, .messages = 3});
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 10);
    put_message(&script, 1, 0, 10);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 0);
    put_message(&script, 1, 0, 10);
    put_message(&script, 1, 0, 10);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 3);
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    put_message(&script, 1, 0, 10); /* was under way */
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 1);
    peer_close(&peer);
}

/* A stream that the server ends by itself is not reset: many resets are what servers take for an attack. */
static void server_stream_that_ends_in_time_is_not_reset(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_SERVER_STREAM, .messages = 2});
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 10);
    put_message(&script, 1, 0, 10);
    put_trailers(&script, 1,
                 "grpc-status=13"); /* came after what we wanted: C core does not see it, either */
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 2);
    CHECK(peer_count(&peer, GP_FRAME_RST_STREAM, 1) == 0);
    peer_close(&peer);
}

static void server_stream_may_be_shorter_but_not_empty(void)
{
    for (uint32_t messages = 0; messages < 2; messages++) {
        struct peer peer;
        peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_SERVER_STREAM, .messages = 3});
        gp_wire_submit(peer.wire, 0, NOW);
        put_headers(&script, 1, 0, HEADERS_OK);
        if (messages)
            put_message(&script, 1, 0, 1);
        put_trailers(&script, 1, TRAILERS_OK);
        CHECK(peer_say(&peer, &script) == 0);
        only_event(&peer, messages ? GP_CLASS_OK : GP_CLASS_UNKNOWN);
        peer_close(&peer);
    }
}

static void endless_server_stream_ends_with_its_next_message(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_SERVER_STREAM});
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 10);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_end(peer.wire, NOW);
    take_events(&peer);
    CHECK(peer.event_count == 0);
    uint8_t two[12] = {0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 1, 'b'}; /* in one frame */
    put_frame(&script, GP_FRAME_DATA, 0, 1, two, sizeof two);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 2);
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    peer_close(&peer);
}

/* --- bidi -------------------------------------------------------------------------------------- */

static void ping_pong_sends_when_the_answer_has_come(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI, .messages = 3, .message_bytes = 4});
    gp_wire_submit(peer.wire, 0, NOW);
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 1);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame));
        CHECK((frame.flags == GP_FLAG_END_STREAM) == (i == 2));
        CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 0);
        if (i == 0)
            put_headers(&script, 1, 0, HEADERS_OK);
        put_message(&script, 1, 0, 4);
        CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 0);
    }
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 3);
    CHECK(peer_count(&peer, GP_FRAME_RST_STREAM, 1) == 0);
    peer_close(&peer);
}

static void ping_pong_needs_an_answer_to_each(void)
{
    for (uint32_t answers = 1; answers <= 3; answers++) { /* of two that are due */
        struct peer peer;
        peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI, .messages = 2});
        gp_wire_submit(peer.wire, 0, NOW);
        put_headers(&script, 1, 0, HEADERS_OK);
        for (uint32_t i = 0; i < answers; i++)
            put_message(&script, 1, 0, 0);
        put_trailers(&script, 1, TRAILERS_OK);
        CHECK(peer_say(&peer, &script) == 0);
        only_event(&peer, answers == 2 ? GP_CLASS_OK : GP_CLASS_UNKNOWN);
        peer_close(&peer);
    }
}

static void endless_ping_pong_closes_after_the_answer(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI});
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 0);
    CHECK(peer_say(&peer, &script) == 0);
    peer_listen(&peer);
    peer.mark = gp_bytes_length(&peer.said);
    gp_wire_end(peer.wire, NOW);
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 0); /* the second one has no answer yet */
    put_message(&script, 1, 0, 0);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame) && frame.length == 0 &&
          frame.flags == GP_FLAG_END_STREAM);
    put_trailers(&script, 1, TRAILERS_OK);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 2);
    peer_close(&peer);
}

static void free_running_stream_ends_when_both_sides_are_through(void)
{
    struct peer peer;
    struct gp_frame frame;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI_FREE, .messages = 3, .message_bytes = 4});
    gp_wire_submit(peer.wire, 0, NOW);
    CHECK(peer_count(&peer, GP_FRAME_DATA, 1) == 3);
    put_headers(&script, 1, 0, HEADERS_OK);
    for (int i = 0; i < 5; i++)
        put_message(&script, 1, 0, 4);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 3);
    for (int i = 0; i < 4; i++)
        CHECK(peer_find(&peer, GP_FRAME_DATA, 1, &frame));
    CHECK(frame.length == 0 && frame.flags == GP_FLAG_END_STREAM);
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    peer_close(&peer);
}

/* All answers are there before the last message could be sent: the end comes with that. */
static void free_running_stream_waits_for_its_own_side(void)
{
    struct peer peer;
    struct iovec pieces[3];

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI_FREE, .messages = 2, .message_bytes = 40000});
    gp_wire_submit(peer.wire, 0, NOW);
    put_headers(&script, 1, 0, HEADERS_OK);
    for (int i = 0; i < 4; i++)
        put_message(&script, 1, 0, 4);
    peer_listen(&peer);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 0);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 50000);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 50000);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_gather(peer.wire, pieces, 3, 5000);
    take_events(&peer);
    CHECK(only_event(&peer, GP_CLASS_OK)->messages_received == 4 && peer.events[0].done_ns == 5000);
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    peer_close(&peer);
}

static void endless_free_running_stream_ends_when_told(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI_FREE, .message_bytes = 65530});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 4);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 0);
    gp_wire_end(peer.wire, NOW);
    take_events(&peer);
    only_event(&peer, GP_CLASS_OK);
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    peer_close(&peer);
}

/* --- parked ------------------------------------------------------------------------------------ */

static void parked_call_stays_until_the_server_ends_it(void)
{
    static const struct {
        enum gp_kind kind;
        uint32_t messages, frames, answers;
        enum gp_class class;
    } cases[] = {
        {GP_KIND_SERVER_STREAM, 0, 1, 0, GP_CLASS_OK},
        {GP_KIND_CLIENT_STREAM, 0, 0, 1, GP_CLASS_OK},
        {GP_KIND_CLIENT_STREAM, 2, 2, 0, GP_CLASS_UNIMPLEMENTED},
        {GP_KIND_BIDI, 0, 0, 0, GP_CLASS_OK},
        {GP_KIND_BIDI, 1, 1, 0, GP_CLASS_OK},
        {GP_KIND_BIDI_FREE, 1, 1, 1, GP_CLASS_OK},
        {GP_KIND_BIDI_FREE, 0, 0, 0, GP_CLASS_OK},
        {GP_KIND_SERVER_STREAM, 2, 1, 5, GP_CLASS_OK},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer peer;
        peer_open(&peer,
                  &(struct peer_opts){.kind = cases[i].kind, .messages = cases[i].messages, .parked = true});
        for (uint32_t call = 0; call < 4; call++) { /* the first one is the one that is looked at further */
            gp_wire_submit(peer.wire, call, NOW);
            CHECK(peer_count(&peer, GP_FRAME_HEADERS, 2 * call + 1) == 1);
            CHECK(peer_count(&peer, GP_FRAME_DATA, 2 * call + 1) == cases[i].frames);
        }
        put_headers(&script, 1, 0, HEADERS_OK);
        for (uint32_t n = 0; n < cases[i].answers; n++)
            put_message(&script, 1, 0, 1);
        CHECK(peer_say(&peer, &script) == 0);
        gp_wire_end(peer.wire, NOW);
        take_events(&peer);
        CHECK(peer.event_count == 0);
        put_trailers(&script, 1, TRAILERS_OK);
        CHECK(peer_say(&peer, &script) == 0);
        only_event(&peer, cases[i].class);
        peer_close(&peer);
    }
}

/* --- times of messages -------------------------------------------------------------------------- */

static void times_of_messages_are_noted(void)
{
    struct gp_message_times times;
    struct gp_request request = {
        .kind = GP_KIND_BIDI, .method = "/test.Service/Method", .message = "", .messages = 3};
    struct peer peer = {0};

    CHECK(gp_message_times_init(&times, GP_KIND_BIDI, 4) == 0);
    times.on = true;
    CHECK(gp_calls_create(&peer.calls, &(struct gp_calls_opts){4, &request, .times = &times}, NULL) == 0);
    CHECK(gp_wire_create(&peer.wire,
                         &(struct gp_wire_opts){
                             .calls = peer.calls, .request = &request, .scheme = "http", .authority = "test"},
                         NULL) == 0);
    put_frame(&script, GP_FRAME_SETTINGS, 0, 0, "", 0);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 2, 100);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 1);
    CHECK(gp_wire_receive(peer.wire, gp_bytes_front(&script), gp_bytes_length(&script), 150) == 0);
    gp_bytes_clear(&script);
    put_message(&script, 1, 0, 1);
    CHECK(gp_wire_receive(peer.wire, gp_bytes_front(&script), gp_bytes_length(&script), 170) == 0);
    gp_bytes_clear(&script);
    CHECK(times.first.count == 1 && times.first.min_ns == 50);
    CHECK(times.round_trip.count == 2 && times.round_trip.max_ns == 50 && times.round_trip.min_ns == 20);
    peer_close(&peer);
    gp_message_times_fini(&times);
}

int main(void)
{
    preface_tells_our_settings();
    window_of_the_default_size_needs_no_update();
    calls_wait_for_the_peers_settings();
    unary_call_is_headers_and_one_message();
    request_headers_are_what_grpc_asks_for();
    large_message_is_shared_and_split_by_max_frame_size();
    unary_call_needs_exactly_one_response();
    second_response_ends_a_unary_call();
    what_follows_the_second_response_does_not_count();
    early_answer_ends_the_upload();
    gzip_both_ways();
    client_stream_sends_its_messages_and_closes_with_the_last();
    endless_client_stream_closes_when_told_to_end();
    endless_client_stream_ends_after_the_message_it_is_at();
    server_stream_is_cancelled_after_its_messages();
    server_stream_that_ends_in_time_is_not_reset();
    server_stream_may_be_shorter_but_not_empty();
    endless_server_stream_ends_with_its_next_message();
    ping_pong_sends_when_the_answer_has_come();
    ping_pong_needs_an_answer_to_each();
    endless_ping_pong_closes_after_the_answer();
    free_running_stream_ends_when_both_sides_are_through();
    free_running_stream_waits_for_its_own_side();
    endless_free_running_stream_ends_when_told();
    parked_call_stays_until_the_server_ends_it();
    times_of_messages_are_noted();
    gp_bytes_fini(&script);
    return 0;
}
