/* connection: what a peer can do wrong, one case each, and what becomes of the calls. Every case is heard at
 * once and byte by byte. Sections are those of RFC 9113. */
#include "wire_peer.h"

#define NONE (-1)
#define KEEPS NONE /* the connection goes on */

struct fault {
    const char *name;
    void (*say)(struct gp_bytes *script); /* stream 1 and 3 are open; 5 is idle */
    int goaway;                           /* the code the connection ends with, or KEEPS */
    enum gp_class class;                  /* of the call on stream 1; TRANSPORT for both when it ends */
    int reset;                            /* the code stream 1 is reset with, or NONE */
    const char *cause;
};

/* --- frames on streams that are none ----------------------------------------------------------- */

static void data_on_stream_0(struct gp_bytes *s)
{
    put_message(s, 0, 0, 1);
}
static void data_on_idle_stream(struct gp_bytes *s)
{
    put_message(s, 5, 0, 1);
}
static void data_on_even_stream(struct gp_bytes *s)
{
    put_message(s, 2, 0, 1);
}
static void headers_on_stream_0(struct gp_bytes *s)
{
    put_headers(s, 0, 0, HEADERS_OK);
}
static void headers_on_idle_stream(struct gp_bytes *s)
{
    put_headers(s, 7, 0, HEADERS_OK);
}
static void headers_on_even_stream(struct gp_bytes *s)
{
    put_headers(s, 2, 0, HEADERS_OK);
}
static void reset_on_stream_0(struct gp_bytes *s)
{
    put_number(s, GP_FRAME_RST_STREAM, 0, 8);
}
static void reset_on_idle_stream(struct gp_bytes *s)
{
    put_number(s, GP_FRAME_RST_STREAM, 5, 8);
}
static void window_on_idle_stream(struct gp_bytes *s)
{
    put_number(s, GP_FRAME_WINDOW_UPDATE, 5, 8);
}
static void priority_on_stream_0(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_PRIORITY, 0, 0, "12345", 5);
}
static void ping_on_a_stream(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_PING, 0, 1, "12345678", 8);
}
static void settings_on_a_stream(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_SETTINGS, 0, 1, "", 0);
}
static void goaway_on_a_stream(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_GOAWAY, 0, 1, "12345678", 8);
}

/* --- frames of a wrong size -------------------------------------------------------------------- */

static void reset_of_3_bytes(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_RST_STREAM, 0, 1, "123", 3);
}
static void window_of_3_bytes(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_WINDOW_UPDATE, 0, 1, "123", 3);
}
static void ping_of_7_bytes(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_PING, 0, 0, "1234567", 7);
}
static void settings_of_5_bytes(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_SETTINGS, 0, 0, "12345", 5);
}
static void goaway_of_7_bytes(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_GOAWAY, 0, 0, "1234567", 7);
}
static void priority_of_4_bytes(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_PRIORITY, 0, 1, "1234", 4);
}

static void settings_ack_with_payload(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_SETTINGS, GP_FLAG_ACK, 0, "123456", 6);
}

static void put_head(struct gp_bytes *s, uint32_t length, uint8_t type)
{
    uint8_t head[GP_FRAME_HEADER_BYTES];

    gp_frame_write(head, (struct gp_frame){length, 1, type, 0});
    CHECK(gp_bytes_append(s, head, sizeof head) == 0);
}

static void frame_above_max_frame_size(struct gp_bytes *s)
{
    put_head(s, (1u << 20) + 1, GP_FRAME_DATA);
}
static void huge_headers(struct gp_bytes *s)
{
    put_head(s, 300000, GP_FRAME_HEADERS);
}

/* --- SETTINGS ---------------------------------------------------------------------------------- */

static void initial_window_too_large(struct gp_bytes *s)
{
    put_setting(s, GP_SETTING_INITIAL_WINDOW_SIZE, 0x80000000u);
}

static void initial_window_overflows_a_stream(struct gp_bytes *s)
{
    put_number(s, GP_FRAME_WINDOW_UPDATE, 1, 0x7fffffff - 65535);
    put_setting(s, GP_SETTING_INITIAL_WINDOW_SIZE, 65536 + 21);
}

static void max_frame_size_too_small(struct gp_bytes *s)
{
    put_setting(s, GP_SETTING_MAX_FRAME_SIZE, 16383);
}
static void push_enabled(struct gp_bytes *s)
{
    put_setting(s, GP_SETTING_ENABLE_PUSH, 1);
}
static void push_neither(struct gp_bytes *s)
{
    put_setting(s, GP_SETTING_ENABLE_PUSH, 2);
}
static void push_promise(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_PUSH_PROMISE, 4, 1, "\0\0\0\2", 4);
}

/* --- windows ----------------------------------------------------------------------------------- */

static void connection_window_by_0(struct gp_bytes *s)
{
    put_number(s, GP_FRAME_WINDOW_UPDATE, 0, 0);
}
static void connection_window_overflows(struct gp_bytes *s)
{
    put_number(s, 8, 0, 0x7fffffff);
}
static void stream_window_by_0(struct gp_bytes *s)
{
    put_number(s, GP_FRAME_WINDOW_UPDATE, 1, 0);
}
static void stream_window_overflows(struct gp_bytes *s)
{
    put_number(s, 8, 1, 0x7fffffff);
}

static void more_than_the_stream_window(struct gp_bytes *s) /* of 100,000 */
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, 0, 100000 - 4);
}

static void more_than_the_connection_window(struct gp_bytes *s) /* of 150,000 */
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, 0, 150000);
}

/* --- header blocks ----------------------------------------------------------------------------- */

static void not_hpack(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff", 6);
}

static void continuation_without_headers(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 1, "", 0);
}

static void continuation_of_another_stream(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, 0, 1, "\x88", 1);
    put_frame(s, GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 3, "", 0);
}

static void ping_inside_a_block(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, 0, 1, "\x88", 1);
    put_frame(s, GP_FRAME_PING, 0, 0, "12345678", 8);
}

static void unknown_frame_inside_a_block(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, 0, 1, "\x88", 1);
    put_frame(s, 0x77, 0, 1, "", 0);
}

static void endless_empty_continuations(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, 0, 1, "\x88", 1);
    for (int i = 0; i < 70; i++)
        put_frame(s, GP_FRAME_CONTINUATION, 0, 1, "", 0);
}

static void endless_block(struct gp_bytes *s)
{
    static const uint8_t zeros[16384];

    put_frame(s, GP_FRAME_HEADERS, 0, 1, "\x88", 1);
    for (int i = 0; i < 17; i++)
        put_frame(s, GP_FRAME_CONTINUATION, 0, 1, zeros, sizeof zeros);
}

/* --- padding ----------------------------------------------------------------------------------- */

static void padded_data_without_a_length(struct gp_bytes *s)
{
    put_frame(s, 0, GP_FLAG_PADDED, 1, "", 0);
}

static void data_that_is_less_than_its_padding(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_frame(s, GP_FRAME_DATA, GP_FLAG_PADDED, 1, "\3ab", 3);
}

static void headers_that_are_less_than_their_padding(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, GP_FLAG_PADDED | GP_FLAG_END_HEADERS, 1, "\2a", 2);
}

static void headers_too_short_for_priority(struct gp_bytes *s)
{
    put_frame(s, GP_FRAME_HEADERS, GP_FLAG_PRIORITY | GP_FLAG_END_HEADERS, 1, "1234", 4);
}

static void ping_flood(struct gp_bytes *s)
{
    for (int i = 0; i < 1100; i++)
        put_frame(s, GP_FRAME_PING, 0, 0, "12345678", 8);
}

static void settings_flood(struct gp_bytes *s)
{
    for (int i = 0; i < 1100; i++)
        put_frame(s, GP_FRAME_SETTINGS, 0, 0, "", 0);
}

/* --- responses that break rules ---------------------------------------------------------------- */

static void data_before_headers(struct gp_bytes *s)
{
    put_message(s, 1, 0, 3);
}
static void no_http_status(struct gp_bytes *s)
{
    put_headers(s, 1, 0, "content-type=application/grpc");
}
static void http_status_101(struct gp_bytes *s)
{
    put_headers(s, 1, 0, ":status=101");
}
static void informational_at_the_end(struct gp_bytes *s)
{
    put_trailers(s, 1, ":status=103");
}
static void upper_case_name(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK "|Date=x");
}
static void connection_field(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK "|connection=close");
}
static void http_404(struct gp_bytes *s)
{
    put_headers(s, 1, 0, ":status=404|content-type=text/html");
}
static void http_503(struct gp_bytes *s)
{
    put_headers(s, 1, 0, ":status=503");
}
static void http_401_at_once(struct gp_bytes *s)
{
    put_trailers(s, 1, ":status=401");
}
static void html(struct gp_bytes *s)
{
    put_headers(s, 1, 0, ":status=200|content-type=text/html");
}
static void nothing_but_http_200(struct gp_bytes *s)
{
    put_trailers(s, 1, ":status=200");
}
static void status_13(struct gp_bytes *s)
{
    put_trailers(s, 1, HEADERS_OK "|grpc-status=13|grpc-message=a%20b");
}
static void status_77(struct gp_bytes *s)
{
    put_trailers(s, 1, HEADERS_OK "|grpc-status=77");
}
static void http_503_but_grpc_status(struct gp_bytes *s)
{
    put_trailers(s, 1, ":status=503|grpc-status=16");
}
static void ok_without_a_response(struct gp_bytes *s)
{
    put_trailers(s, 1, TRAILERS_ONLY_OK);
}

static void headers_after_headers(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_headers(s, 1, 0, HEADERS_OK);
}

static void trailers_with_http_status(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_trailers(s, 1, ":status=200|grpc-status=0");
}

static void trailers_without_status(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, 0, 1);
    put_trailers(s, 1, "a=b");
}

static void no_trailers(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, GP_FLAG_END_STREAM, 1);
}

static void message_cut_off(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_frame(s, GP_FRAME_DATA, 0, 1, "\0\0\0\0\7abc", 8);
    put_trailers(s, 1, TRAILERS_OK);
}

static void prefix_cut_off(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, 0, 1);
    put_frame(s, GP_FRAME_DATA, 0, 1, "\0\0", 2);
    put_trailers(s, 1, TRAILERS_OK);
}

static void bad_compressed_flag(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_frame(s, GP_FRAME_DATA, 0, 1, "\2\0\0\0\1a", 6);
}

static void compressed_without_encoding(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_frame(s, GP_FRAME_DATA, 0, 1, "\1\0\0\0\1a", 6);
}

static void bad_gzip(struct gp_bytes *s)
{
    put_headers(s, 1, 0, HEADERS_OK "|grpc-encoding=gzip");
    put_frame(s, GP_FRAME_DATA, 0, 1, "\1\0\0\0\1a", 6);
}

static void message_above_the_limit(struct gp_bytes *s) /* of 50,000 */
{
    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, 0, 50001);
}

static void long_fields(char *fields, const char *first, size_t count)
{
    strcpy(fields, first);
    for (size_t i = 0; i < count; i++)
        strcat(fields, "|long=0123456789012345678901234567890123456789012345678901234567890123456789");
}

static void header_list_above_the_limit(struct gp_bytes *s) /* of 1,000 */
{
    char fields[2000];

    long_fields(fields, HEADERS_OK, 10);
    put_headers(s, 1, 0, fields);
}

static void trailers_above_the_limit(struct gp_bytes *s)
{
    char fields[2000];

    put_headers(s, 1, 0, HEADERS_OK);
    put_message(s, 1, 0, 1);
    long_fields(fields, TRAILERS_OK, 10);
    put_trailers(s, 1, fields);
}

#define RESET(name, code)                                                                                    \
    static void name(struct gp_bytes *s)                                                                     \
    {                                                                                                        \
        put_number(s, GP_FRAME_RST_STREAM, 1, code);                                                         \
    }
RESET(reset_no_error, GP_H2_NO_ERROR)
RESET(reset_refused, GP_H2_REFUSED_STREAM)
RESET(reset_cancel, GP_H2_CANCEL)
RESET(reset_calm, GP_H2_ENHANCE_YOUR_CALM)
RESET(reset_security, GP_H2_INADEQUATE_SECURITY)
RESET(reset_unknown, 0x12345678)

#define ENDS(what, code, text) {#what, what, GP_H2_##code, GP_CLASS_TRANSPORT, NONE, text}
#define CALL(what, status, code, text) {#what, what, KEEPS, GP_CLASS_##status, code, text}

static const struct fault faults[] = {
    ENDS(data_on_stream_0, PROTOCOL_ERROR, "idle"), /* 6.1 */
    ENDS(data_on_idle_stream, PROTOCOL_ERROR, "idle"),
    ENDS(data_on_even_stream, PROTOCOL_ERROR, "idle"),
    ENDS(headers_on_stream_0, PROTOCOL_ERROR, "idle"), /* 6.2 */
    ENDS(headers_on_idle_stream, PROTOCOL_ERROR, "idle"),
    ENDS(headers_on_even_stream, PROTOCOL_ERROR, "idle"),
    ENDS(reset_on_stream_0, PROTOCOL_ERROR, "idle"), /* 6.4 */
    ENDS(reset_on_idle_stream, PROTOCOL_ERROR, "idle"),
    ENDS(window_on_idle_stream, PROTOCOL_ERROR, "idle"), /* 5.1 */
    ENDS(priority_on_stream_0, PROTOCOL_ERROR, "PRIORITY"),
    ENDS(ping_on_a_stream, PROTOCOL_ERROR, "PING"),
    ENDS(settings_on_a_stream, PROTOCOL_ERROR, "SETTINGS"),
    ENDS(goaway_on_a_stream, PROTOCOL_ERROR, "GOAWAY"),
    ENDS(reset_of_3_bytes, FRAME_SIZE_ERROR, "RST_STREAM"),
    ENDS(window_of_3_bytes, FRAME_SIZE_ERROR, "WINDOW_UPDATE"),
    ENDS(ping_of_7_bytes, FRAME_SIZE_ERROR, "PING"),
    ENDS(settings_of_5_bytes, FRAME_SIZE_ERROR, "SETTINGS"),
    ENDS(goaway_of_7_bytes, FRAME_SIZE_ERROR, "GOAWAY"),
    ENDS(settings_ack_with_payload, FRAME_SIZE_ERROR, "ACK"),
    ENDS(frame_above_max_frame_size, FRAME_SIZE_ERROR, "MAX_FRAME_SIZE"),
    ENDS(huge_headers, ENHANCE_YOUR_CALM, "too much"),
    ENDS(initial_window_too_large, FLOW_CONTROL_ERROR, "SETTINGS"),          /* 6.5.2 */
    ENDS(initial_window_overflows_a_stream, FLOW_CONTROL_ERROR, "SETTINGS"), /* 6.9.2 */
    ENDS(max_frame_size_too_small, PROTOCOL_ERROR, "SETTINGS"),
    ENDS(push_enabled, PROTOCOL_ERROR, "SETTINGS"),
    ENDS(push_neither, PROTOCOL_ERROR, "SETTINGS"),
    ENDS(push_promise, PROTOCOL_ERROR, "PUSH_PROMISE"),
    ENDS(connection_window_by_0, PROTOCOL_ERROR, "by 0"), /* 6.9 */
    ENDS(connection_window_overflows, FLOW_CONTROL_ERROR, "above"),
    ENDS(more_than_the_connection_window, FLOW_CONTROL_ERROR, "the connection's window"),
    ENDS(not_hpack, COMPRESSION_ERROR, "HPACK"), /* 4.3 */
    ENDS(continuation_without_headers, PROTOCOL_ERROR, "CONTINUATION"),
    ENDS(continuation_of_another_stream, PROTOCOL_ERROR, "interrupted"), /* 6.10 */
    ENDS(ping_inside_a_block, PROTOCOL_ERROR, "interrupted"),
    ENDS(unknown_frame_inside_a_block, PROTOCOL_ERROR, "interrupted"),
    ENDS(endless_empty_continuations, ENHANCE_YOUR_CALM, "header block"),
    ENDS(endless_block, ENHANCE_YOUR_CALM, "header block"),
    ENDS(padded_data_without_a_length, FRAME_SIZE_ERROR, "padded"),
    ENDS(data_that_is_less_than_its_padding, PROTOCOL_ERROR, "padding"),
    ENDS(headers_that_are_less_than_their_padding, PROTOCOL_ERROR, "padding"),
    ENDS(headers_too_short_for_priority, FRAME_SIZE_ERROR, "priority"),
    ENDS(ping_flood, ENHANCE_YOUR_CALM, "replies"), /* 10.5 */
    ENDS(settings_flood, ENHANCE_YOUR_CALM, "replies"),
    CALL(priority_of_4_bytes, INTERNAL, GP_H2_FRAME_SIZE_ERROR, "PRIORITY"), /* 6.3 */
    CALL(stream_window_by_0, INTERNAL, GP_H2_PROTOCOL_ERROR, "by 0"),
    CALL(stream_window_overflows, INTERNAL, GP_H2_FLOW_CONTROL_ERROR, "above"),
    CALL(more_than_the_stream_window, INTERNAL, GP_H2_FLOW_CONTROL_ERROR, "the stream's window"),
    CALL(data_before_headers, INTERNAL, GP_H2_PROTOCOL_ERROR, "before headers"),
    CALL(no_http_status, INTERNAL, GP_H2_PROTOCOL_ERROR, "malformed"),           /* 8.3.2 */
    CALL(http_status_101, INTERNAL, GP_H2_PROTOCOL_ERROR, "malformed"),          /* 8.6 */
    CALL(informational_at_the_end, INTERNAL, GP_H2_PROTOCOL_ERROR, "malformed"), /* 8.1 */
    CALL(upper_case_name, INTERNAL, GP_H2_PROTOCOL_ERROR, "malformed"),          /* 8.2.1 */
    CALL(connection_field, INTERNAL, GP_H2_PROTOCOL_ERROR, "malformed"),         /* 8.2.2 */
    CALL(headers_after_headers, INTERNAL, GP_H2_PROTOCOL_ERROR, "headers after headers"),
    CALL(trailers_with_http_status, INTERNAL, GP_H2_PROTOCOL_ERROR, "malformed"),
    CALL(http_404, UNIMPLEMENTED, GP_H2_CANCEL, "404"),
    CALL(http_503, UNAVAILABLE, GP_H2_CANCEL, "503"),
    CALL(http_401_at_once, UNAUTHENTICATED, NONE, "401"),
    CALL(html, UNKNOWN, GP_H2_CANCEL, "content-type"),
    CALL(nothing_but_http_200, UNKNOWN, NONE, "without grpc-status"),
    CALL(status_13, INTERNAL, NONE, "a b"),
    CALL(status_77, UNKNOWN, NONE, "grpc-status"),
    CALL(http_503_but_grpc_status, UNAUTHENTICATED, NONE, "grpc-status 16"),
    CALL(ok_without_a_response, UNIMPLEMENTED, NONE, "0 messages"),
    CALL(trailers_without_status, UNKNOWN, NONE, "without grpc-status"),
    CALL(no_trailers, UNKNOWN, NONE, "without trailers"),
    CALL(message_cut_off, INTERNAL, NONE, "inside a message"),
    CALL(prefix_cut_off, INTERNAL, NONE, "inside a message"),
    CALL(bad_compressed_flag, INTERNAL, GP_H2_CANCEL, "compressed flag"),
    CALL(compressed_without_encoding, INTERNAL, GP_H2_CANCEL, "compressed flag"),
    CALL(bad_gzip, INTERNAL, GP_H2_CANCEL, "gzip"),
    CALL(message_above_the_limit, RESOURCE_EXHAUSTED, GP_H2_CANCEL, "50000"),
    CALL(header_list_above_the_limit, RESOURCE_EXHAUSTED, GP_H2_CANCEL, "MAX_HEADER_LIST_SIZE"),
    CALL(trailers_above_the_limit, RESOURCE_EXHAUSTED, NONE, "MAX_HEADER_LIST_SIZE"),
    CALL(reset_no_error, INTERNAL, NONE, "NO_ERROR"),
    CALL(reset_refused, UNAVAILABLE, NONE, "REFUSED_STREAM"),
    CALL(reset_cancel, CANCELLED, NONE, "CANCEL"),
    CALL(reset_calm, RESOURCE_EXHAUSTED, NONE, "ENHANCE_YOUR_CALM"),
    CALL(reset_security, PERMISSION_DENIED, NONE, "INADEQUATE_SECURITY"),
    CALL(reset_unknown, INTERNAL, NONE, "unknown"),
};

/* --- every case, both ways --------------------------------------------------------------------- */

static int hear(struct peer *peer, struct gp_bytes *script, size_t step)
{
    const uint8_t *data = gp_bytes_front(script);
    size_t size = gp_bytes_length(script);
    int result = 0;

    for (size_t at = 0; at < size; at += step)
        result = gp_wire_receive(peer->wire, data + at, size - at < step ? size - at : step, NOW);
    gp_bytes_clear(script);
    take_events(peer);
    return result;
}

static void check_end(struct peer *peer, const struct fault *fault)
{
    CHECK(peer->event_count == 2 && !gp_wire_open(peer->wire) && !gp_wire_ready(peer->wire));
    CHECK(peer->events[0].class == GP_CLASS_TRANSPORT && peer->events[1].class == GP_CLASS_TRANSPORT);
    CHECK(peer->events[0].id + peer->events[1].id == 1 && !peer->events[0].refused);
    CHECK(gp_wire_in_flight(peer->wire) == 0 && peer_goaway_code(peer) == fault->goaway);
    gp_wire_submit(peer->wire, 0, NOW);
    take_events(peer);
    CHECK(peer->event_count == 3 && peer->events[2].class == GP_CLASS_TRANSPORT && peer->events[2].refused);
    CHECK(gp_wire_receive(peer->wire, (const uint8_t *)"x", 1, NOW) == -1 && !gp_wire_has_output(peer->wire));
}

static void check_going_on(struct peer *peer, const struct fault *fault, struct gp_bytes *script)
{
    CHECK(peer->events[0].id == 0 && peer->events[0].class == fault->class);
    CHECK(peer->events[0].refused == (fault->say == reset_refused));
    CHECK(peer_reset_code(peer, 1) == fault->reset);
    put_answer(script, 3);
    CHECK(peer_say(peer, script) == 0);
    CHECK(peer->event_count == 2 && peer->events[1].id == 1 && peer->events[1].class == GP_CLASS_OK);
    CHECK(peer_goaway_code(peer) == NONE);
}

static void run(const struct fault *fault, size_t step)
{
    struct peer peer;
    struct gp_bytes script = {0};

    peer_open(&peer,
              &(struct peer_opts){.message_bytes = 16,
                                  .stream_window = fault->say == more_than_the_connection_window ? 0 : 100000,
                                  .connection_window = 150000,
                                  .max_message_bytes = 50000,
                                  .max_header_bytes = 1000});
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW);
    peer_listen(&peer);
    fault->say(&script);
    int result = hear(&peer, &script, step);
    if ((result != 0) != (fault->goaway != KEEPS) || peer.event_count == 0 ||
        !strstr(gp_wire_cause(peer.wire), fault->cause))
        fprintf(stderr, "%s: %d, %zu events, \"%s\"\n", fault->name, result, peer.event_count,
                gp_wire_cause(peer.wire));
    CHECK((result != 0) == (fault->goaway != KEEPS));
    CHECK(peer.event_count > 0 && strstr(gp_wire_cause(peer.wire), fault->cause));
    if (fault->goaway == KEEPS)
        check_going_on(&peer, fault, &script);
    else
        check_end(&peer, fault);
    peer_close(&peer);
    gp_bytes_fini(&script);
}

/* --- the greeting ------------------------------------------------------------------------------ */

static void greeting(const void *bytes, size_t size, const char *cause)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.silent = true});
    gp_wire_submit(peer.wire, 0, NOW);
    CHECK(gp_wire_receive(peer.wire, bytes, size, NOW) == -1);
    take_events(&peer);
    CHECK(only_event(&peer, GP_CLASS_TRANSPORT)->refused); /* it was never sent */
    CHECK(strstr(gp_wire_cause(peer.wire), cause) && peer_goaway_code(&peer) == GP_H2_PROTOCOL_ERROR);
    peer_close(&peer);
}

static void peer_must_begin_with_settings(void) /* 3.4 */
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    struct gp_bytes script = {0};

    greeting(http, sizeof http - 1, "HTTP/1");
    put_frame(&script, GP_FRAME_PING, 0, 0, "12345678", 8);
    greeting(script.data, script.end, "SETTINGS");
    gp_bytes_clear(&script);
    put_frame(&script, GP_FRAME_SETTINGS, GP_FLAG_ACK, 0, "", 0);
    greeting(script.data, script.end, "SETTINGS");
    gp_bytes_fini(&script);
}

int main(void)
{
    peer_must_begin_with_settings();
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        run(&faults[i], SIZE_MAX / 2);
        run(&faults[i], 1);
    }
    return 0;
}
