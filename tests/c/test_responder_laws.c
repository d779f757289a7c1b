/* The responder and peers that break the rules of RFC 9113, one case per rule, written as bytes: what ends a
 * stream, what ends the connection, what is none of its business. And garbage, that no case foresees. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "wire/frame.h"
#include "wire/responder.h"

#define GOOD 0xffu /* lives on: the PING that follows is answered */

/* A request's header block: POST, http, :path as a literal. */
#define UNARY_PATH "/grpc.testing.BenchmarkService/UnaryCall"
#define PING_PONG_PATH "/grpc.testing.BenchmarkService/StreamingCall"
#define UNARY "\x83\x86\x04\x28" UNARY_PATH
#define PING_PONG "\x83\x86\x04\x2c" PING_PONG_PATH

struct peer {
    struct gp_responder *responder;
    struct gp_responder_counts counts;
    struct gp_bytes said, heard;
};

static void say(struct peer *peer, const void *data, size_t size)
{
    CHECK(gp_bytes_append(&peer->said, data, size) == 0);
}

static void say_frame(struct peer *peer, struct gp_frame frame, const void *payload)
{
    uint8_t header[GP_FRAME_HEADER_BYTES];

    gp_frame_write(header, frame);
    say(peer, header, sizeof header);
    say(peer, payload, frame.length);
}

static void hear(struct peer *peer)
{
    struct iovec pieces[4];
    size_t count, size;

    while ((count = gp_responder_gather(peer->responder, pieces, 4)) > 0 &&
           gp_bytes_length(&peer->heard) < 1u << 20) {
        size = 0;
        for (size_t i = 0; i < count; i++) {
            CHECK(gp_bytes_append(&peer->heard, pieces[i].iov_base, pieces[i].iov_len) == 0);
            size += pieces[i].iov_len;
        }
        gp_responder_written(peer->responder, size);
    }
}

static void begin(struct peer *peer)
{
    struct gp_error err;

    *peer = (struct peer){0};
    CHECK(gp_responder_create(&peer->responder, &peer->counts, &err) == 0);
    gp_bytes_init(&peer->said);
    gp_bytes_init(&peer->heard);
}

static void greet(struct peer *peer)
{
    begin(peer);
    say(peer, gp_frame_preface, GP_FRAME_PREFACE_BYTES);
    say_frame(peer, (struct gp_frame){.type = GP_FRAME_SETTINGS}, "");
}

static void end(struct peer *peer)
{
    gp_responder_destroy(peer->responder);
    CHECK(peer->counts.running == 0 && peer->counts.started == peer->counts.finished);
    gp_bytes_fini(&peer->said);
    gp_bytes_fini(&peer->heard);
}

/* The next frame of what was heard, whole; false at the end. Nothing is ever left over. */
static bool next_frame(const struct peer *peer, size_t *at, struct gp_frame *frame, const uint8_t **payload)
{
    const uint8_t *heard = gp_bytes_front(&peer->heard);
    size_t size = gp_bytes_length(&peer->heard);

    if (*at == size)
        return false;
    CHECK(size - *at >= GP_FRAME_HEADER_BYTES);
    *frame = gp_frame_read(heard + *at);
    *payload = heard + *at + GP_FRAME_HEADER_BYTES;
    *at += GP_FRAME_HEADER_BYTES + frame->length;
    CHECK(*at <= size);
    return true;
}

/* --- cases: frames after the preface and SETTINGS, and what they lead to */

struct said {
    uint8_t type, flags;
    uint32_t id;
    const char *payload;
    uint32_t size;
};

struct law {
    const char *name;
    struct said frames[8];
    uint32_t goaway; /* its error, or GOOD */
    uint32_t reset;  /* the error of RST_STREAM that is expected besides, plus 1 */
};

#define P(bytes) bytes, sizeof(bytes) - 1
#define DATA GP_FRAME_DATA
#define HEADERS GP_FRAME_HEADERS
#define END_BOTH (GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM)
#define MESSAGE "\0\0\0\0\2\x10\1"
#define ZEROS_16 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

static const struct law laws[] = {
    {"unknown frames are nothing", {{77, 0xff, 0, P("abc")}, {99, 1, 8, P("")}}, GOOD},
    {"PRIORITY is nothing", {{GP_FRAME_PRIORITY, 0, 9, P("\0\0\0\1\1")}}, GOOD},
    {"PRIORITY has five bytes", {{GP_FRAME_PRIORITY, 0, 9, P("\0\0\0\1")}}, GP_H2_FRAME_SIZE_ERROR},
    {"PRIORITY is of a stream", {{GP_FRAME_PRIORITY, 0, 0, P("\0\0\0\1\1")}}, GP_H2_PROTOCOL_ERROR},
    {"GOAWAY asks for nothing", {{GP_FRAME_GOAWAY, 0, 0, P("\0\0\0\0\0\0\0\0bye")}}, GOOD},
    {"GOAWAY has eight bytes", {{GP_FRAME_GOAWAY, 0, 0, P("\0\0\0\0\0\0\0")}}, GP_H2_FRAME_SIZE_ERROR},
    {"GOAWAY is of the connection", {{GP_FRAME_GOAWAY, 0, 1, P("\0\0\0\0\0\0\0\0")}}, GP_H2_PROTOCOL_ERROR},
    {"PING has eight bytes", {{GP_FRAME_PING, 0, 0, P("\0\0\0\0\0\0\0")}}, GP_H2_FRAME_SIZE_ERROR},
    {"PING is of the connection", {{GP_FRAME_PING, 0, 1, P("12345678")}}, GP_H2_PROTOCOL_ERROR},
    {"PING ACK is not answered", {{GP_FRAME_PING, GP_FLAG_ACK, 0, P("12345678")}}, GOOD},
    {"SETTINGS ACK", {{GP_FRAME_SETTINGS, GP_FLAG_ACK, 0, P("")}}, GOOD},
    {"SETTINGS ACK is empty",
     {{GP_FRAME_SETTINGS, GP_FLAG_ACK, 0, P("\0\0\0\0\0\0")}},
     GP_H2_FRAME_SIZE_ERROR},
    {"SETTINGS come in sixes", {{GP_FRAME_SETTINGS, 0, 0, P("\0\0\0\0\0")}}, GP_H2_FRAME_SIZE_ERROR},
    {"SETTINGS are of the connection", {{GP_FRAME_SETTINGS, 0, 1, P("")}}, GP_H2_PROTOCOL_ERROR},
    {"SETTINGS: a window", {{GP_FRAME_SETTINGS, 0, 0, P("\0\4\x80\0\0\0")}}, GP_H2_FLOW_CONTROL_ERROR},
    {"SETTINGS: a frame's size", {{GP_FRAME_SETTINGS, 0, 0, P("\0\5\0\0\0\1")}}, GP_H2_PROTOCOL_ERROR},
    {"PUSH_PROMISE is not a client's",
     {{GP_FRAME_PUSH_PROMISE, 4, 1, P("\0\0\0\2\x88")}},
     GP_H2_PROTOCOL_ERROR},
    {"WINDOW_UPDATE", {{GP_FRAME_WINDOW_UPDATE, 0, 0, P("\0\0\0\1")}}, GOOD},
    {"WINDOW_UPDATE has four bytes", {{GP_FRAME_WINDOW_UPDATE, 0, 0, P("\0\0\1")}}, GP_H2_FRAME_SIZE_ERROR},
    {"WINDOW_UPDATE of nothing", {{GP_FRAME_WINDOW_UPDATE, 0, 0, P("\0\0\0\0")}}, GP_H2_PROTOCOL_ERROR},
    {"WINDOW_UPDATE beyond all",
     {{GP_FRAME_WINDOW_UPDATE, 0, 0, P("\x7f\xff\xff\xff")}},
     GP_H2_FLOW_CONTROL_ERROR},
    {"WINDOW_UPDATE, idle", {{GP_FRAME_WINDOW_UPDATE, 0, 1, P("\0\0\0\1")}}, GP_H2_PROTOCOL_ERROR},
    {"WINDOW_UPDATE of nothing on a stream",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)}, {GP_FRAME_WINDOW_UPDATE, 0, 1, P("\0\0\0\0")}},
     GOOD,
     1 + GP_H2_PROTOCOL_ERROR},
    {"WINDOW_UPDATE beyond all on a stream",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)}, {GP_FRAME_WINDOW_UPDATE, 0, 1, P("\x7f\xff\xff\xff")}},
     GOOD,
     1 + GP_H2_FLOW_CONTROL_ERROR},
    {"SETTINGS make a stream's window too large",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)},
      {GP_FRAME_WINDOW_UPDATE, 0, 1, P("\x7f\xff\0\0")},
      {GP_FRAME_SETTINGS, 0, 0, P("\0\4\x7f\xff\xff\xff")}},
     GP_H2_FLOW_CONTROL_ERROR},
    {"WINDOW_UPDATE on a stream that has ended",
     {{HEADERS, END_BOTH, 1, P(PING_PONG)}, {GP_FRAME_WINDOW_UPDATE, 0, 1, P("\0\0\0\1")}},
     GOOD},
    {"RST_STREAM, idle", {{GP_FRAME_RST_STREAM, 0, 1, P("\0\0\0\x8")}}, GP_H2_PROTOCOL_ERROR},
    {"RST_STREAM, of a server's stream", {{GP_FRAME_RST_STREAM, 0, 2, P("\0\0\0\x8")}}, GP_H2_PROTOCOL_ERROR},
    {"RST_STREAM is of a stream", {{GP_FRAME_RST_STREAM, 0, 0, P("\0\0\0\x8")}}, GP_H2_PROTOCOL_ERROR},
    {"RST_STREAM has four bytes", {{GP_FRAME_RST_STREAM, 0, 1, P("\0\0\x8")}}, GP_H2_FRAME_SIZE_ERROR},
    {"RST_STREAM twice",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)},
      {GP_FRAME_RST_STREAM, 0, 1, P("\0\0\0\x8")},
      {GP_FRAME_RST_STREAM, 0, 1, P("\0\0\0\x8")}},
     GOOD},
    {"DATA, idle", {{DATA, 0, 1, P("x")}}, GP_H2_PROTOCOL_ERROR},
    {"DATA is of a stream", {{DATA, 0, 0, P("x")}}, GP_H2_PROTOCOL_ERROR},
    {"DATA, of a server's stream", {{DATA, 0, 2, P("x")}}, GP_H2_PROTOCOL_ERROR},
    {"DATA after the end",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(UNARY)},
      {GP_FRAME_SETTINGS, 0, 0, P("\0\4\0\0\0\0")}, /* so that the answer stays */
      {DATA, GP_FLAG_END_STREAM, 1, P(MESSAGE)},
      {DATA, 0, 1, P("x")}},
     GOOD,
     1 + GP_H2_STREAM_CLOSED},
    {"DATA on a stream that is over", {{HEADERS, END_BOTH, 1, P(PING_PONG)}, {DATA, 0, 1, P("x")}}, GOOD},
    {"DATA padded",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)},
      {DATA, GP_FLAG_PADDED, 1, P("\3\0\0\0\0\2xxx")},
      {DATA, GP_FLAG_PADDED | GP_FLAG_END_STREAM, 1, P("\4\x10\1xxxx")}},
     GOOD},
    {"DATA of padding alone",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)},
      {DATA, GP_FLAG_PADDED | GP_FLAG_END_STREAM, 1, P("\2xx")}},
     GOOD},
    {"DATA with more padding than there is",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)}, {DATA, GP_FLAG_PADDED, 1, P("\3xx")}},
     GP_H2_PROTOCOL_ERROR},
    {"DATA padded, without a length",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(PING_PONG)}, {DATA, GP_FLAG_PADDED, 1, P("")}},
     GP_H2_PROTOCOL_ERROR},
    {"HEADERS of a server's stream", {{HEADERS, END_BOTH, 2, P(PING_PONG)}}, GP_H2_PROTOCOL_ERROR},
    {"HEADERS are of a stream", {{HEADERS, END_BOTH, 0, P(PING_PONG)}}, GP_H2_PROTOCOL_ERROR},
    {"HEADERS that go back",
     {{HEADERS, END_BOTH, 5, P(PING_PONG)}, {HEADERS, END_BOTH, 3, P(PING_PONG)}},
     GOOD}, /* 3 is closed by 5: trailers of a call that we have ended, for all we know */
    {"HEADERS without a path", {{HEADERS, END_BOTH, 1, P("\x83\x86")}}, GOOD, 1 + GP_H2_PROTOCOL_ERROR},
    {"HEADERS of no fields", {{HEADERS, END_BOTH, 1, P("")}}, GOOD, 1 + GP_H2_PROTOCOL_ERROR},
    {"HEADERS that are not HPACK", {{HEADERS, END_BOTH, 1, P("\x80")}}, GP_H2_COMPRESSION_ERROR},
    {"HEADERS of an entry that is not there", {{HEADERS, END_BOTH, 1, P("\xff\7")}}, GP_H2_COMPRESSION_ERROR},
    {"HEADERS that break off", {{HEADERS, END_BOTH, 1, P("\x83\x04\x28/grpc")}}, GP_H2_COMPRESSION_ERROR},
    {"HEADERS with padding and priority",
     {{HEADERS, END_BOTH | GP_FLAG_PADDED | GP_FLAG_PRIORITY, 1, P("\2\0\0\0\0\1" PING_PONG "xx")}},
     GOOD},
    {"HEADERS with more padding than there is",
     {{HEADERS, END_BOTH | GP_FLAG_PADDED, 1, P("\xff" PING_PONG)}},
     GP_H2_PROTOCOL_ERROR},
    {"HEADERS too short for a priority",
     {{HEADERS, END_BOTH | GP_FLAG_PRIORITY, 1, P("abc")}},
     GP_H2_FRAME_SIZE_ERROR},
    {"trailers",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(UNARY)},
      {DATA, 0, 1, P(MESSAGE)},
      {HEADERS, END_BOTH, 1, P("\x0f\x2b\1x")}},
     GOOD},
    {"trailers that do not end",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(UNARY)}, {HEADERS, GP_FLAG_END_HEADERS, 1, P("")}},
     GOOD,
     1 + GP_H2_PROTOCOL_ERROR},
    {"trailers after the end",
     {{HEADERS, GP_FLAG_END_HEADERS, 1, P(UNARY)},
      {GP_FRAME_SETTINGS, 0, 0, P("\0\4\0\0\0\0")},
      {DATA, GP_FLAG_END_STREAM, 1, P(MESSAGE)},
      {HEADERS, END_BOTH, 1, P("")}},
     GOOD,
     1 + GP_H2_STREAM_CLOSED},
    {"a block in three frames",
     {{HEADERS, GP_FLAG_END_STREAM, 1, P("\x83\x86\x04")},
      {GP_FRAME_CONTINUATION, 0, 1, P("\x2c/grpc.testing.Benchmark")},
      {GP_FRAME_CONTINUATION, 0, 1, P("")},
      {GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 1, P("Service/StreamingCall")},
      {HEADERS, GP_FLAG_END_STREAM, 3, P("\x83")},
      {GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 3, P("\x86\x04\x2c" PING_PONG_PATH)}},
     GOOD},
    {"CONTINUATION of nothing",
     {{GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 1, P("")}},
     GP_H2_PROTOCOL_ERROR},
    {"CONTINUATION of another stream",
     {{HEADERS, 0, 1, P("\x83")}, {GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, 3, P("")}},
     GP_H2_PROTOCOL_ERROR},
    {"a PING between",
     {{HEADERS, 0, 1, P("\x83")}, {GP_FRAME_PING, 0, 0, P("12345678")}},
     GP_H2_PROTOCOL_ERROR},
    {"an unknown frame between", {{HEADERS, 0, 1, P("\x83")}, {77, 0, 1, P("")}}, GP_H2_PROTOCOL_ERROR},
};

static void check_heard(struct peer *peer, const struct law *law)
{
    struct gp_frame frame;
    const uint8_t *payload;
    bool ponged = false, reset = false, goaway = false;

    for (size_t at = 0; next_frame(peer, &at, &frame, &payload);) {
        CHECK(!goaway); /* nothing comes after it */
        if (frame.type == GP_FRAME_PING)
            ponged = frame.flags == GP_FLAG_ACK && memcmp(payload, "so what?", 8) == 0;
        if (frame.type == GP_FRAME_RST_STREAM && gp_get_u32(payload) != GP_H2_NO_ERROR) {
            CHECK(law->reset && gp_get_u32(payload) == law->reset - 1);
            reset = true;
        }
        if (frame.type == GP_FRAME_GOAWAY) {
            CHECK(gp_get_u32(payload + 4) == law->goaway);
            goaway = true;
        }
    }
    if (goaway == ponged || ponged != (law->goaway == GOOD) || reset != (law->reset > 0))
        fprintf(stderr, "%s\n", law->name);
    CHECK(ponged == (law->goaway == GOOD) && goaway == !ponged && reset == (law->reset > 0));
}

/* Said in pieces of at most `cut` bytes; heard at the end. */
static void try_law(const struct law *law, size_t cut)
{
    struct peer peer;
    int over = 0;

    greet(&peer);
    for (size_t i = 0; law->frames[i].payload; i++) {
        const struct said *said = &law->frames[i];
        say_frame(&peer,
                  (struct gp_frame){
                      .length = said->size, .type = said->type, .flags = said->flags, .stream_id = said->id},
                  said->payload);
    }
    say_frame(&peer, (struct gp_frame){.length = 8, .type = GP_FRAME_PING}, "so what?");
    for (size_t at = 0, size; at < gp_bytes_length(&peer.said) && !over; at += size) {
        size = gp_bytes_length(&peer.said) - at < cut ? gp_bytes_length(&peer.said) - at : cut;
        over = gp_responder_receive(peer.responder, gp_bytes_front(&peer.said) + at, size);
    }
    hear(&peer);
    if ((over != 0) != (law->goaway != GOOD))
        fprintf(stderr, "%s\n", law->name);
    CHECK((over != 0) == (law->goaway != GOOD));
    check_heard(&peer, law);
    CHECK(!over || gp_responder_receive(peer.responder, (const uint8_t *)"", 0) != 0);
    end(&peer);
}

/* --- what no table can hold */

static void say_unary(struct peer *peer, uint32_t id, bool headers, bool data)
{
    struct gp_frame frame = {.length = sizeof UNARY - 1, .type = HEADERS, .flags = 4, .stream_id = id};

    if (headers)
        say_frame(peer, frame, UNARY);
    frame = (struct gp_frame){.length = sizeof MESSAGE - 1, .type = DATA, .flags = 1, .stream_id = id};
    if (data)
        say_frame(peer, frame, MESSAGE);
}

static void answered(struct peer *peer)
{
    CHECK(gp_responder_receive(peer->responder, gp_bytes_front(&peer->said), gp_bytes_length(&peer->said)) ==
          0);
    gp_bytes_clear(&peer->said);
    hear(peer);
}

/* Ids only rise, also on the short way, where HEADERS and DATA of a unary call stand together. */
static void ids_rise(void)
{
    static const uint32_t ids[] = {1, 3, 5, 9, 7, 9, 2147483647u, 11};
    struct peer peer;

    greet(&peer);
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
        say_unary(&peer, ids[i], true, true);
        if (i == 1) /* the header blocks come to rest */
            answered(&peer);
    }
    answered(&peer);
    CHECK(peer.counts.started == 5);
    end(&peer);
}

/* Nothing may come between a block and its rest, not even what is answered without looking twice. */
static void blocks_are_whole(void)
{
    static const struct law law = {"a call between", .goaway = GP_H2_PROTOCOL_ERROR};
    struct peer peer;

    greet(&peer);
    for (uint32_t id = 1; id < 9; id += 2) {
        say_unary(&peer, id, true, true);
        answered(&peer);
    }
    say_frame(&peer, (struct gp_frame){.length = 1, .type = HEADERS, .stream_id = 9}, "\x83");
    say_unary(&peer, 11, true, true);
    CHECK(gp_responder_receive(peer.responder, gp_bytes_front(&peer.said), gp_bytes_length(&peer.said)) != 0);
    hear(&peer);
    check_heard(&peer, &law);
    end(&peer);
}

/* DATA that stands behind HEADERS and is of another stream is no part of the call. */
static void neighbours_are_told_apart(void)
{
    struct peer peer;

    greet(&peer);
    for (uint32_t id = 1; id < 20; id += 4) {
        say_unary(&peer, id, true, false);
        say_unary(&peer, id + 2, true, false);
        say_unary(&peer, id, false, true);
        say_unary(&peer, id + 2, false, true);
        answered(&peer);
        CHECK(peer.counts.finished == (id + 3) / 2 && peer.counts.running == 0);
    }
    end(&peer);
}

static void the_beginning(void)
{
    static const char *const wrong[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\nx"};
    struct peer peer;

    for (unsigned i = 0; i < 3; i++) {
        begin(&peer);
        CHECK(gp_responder_receive(peer.responder, (const uint8_t *)wrong[i], strlen(wrong[i])) != 0);
        hear(&peer);
        CHECK(gp_bytes_length(&peer.heard) > 40); /* SETTINGS, WINDOW_UPDATE, GOAWAY */
        end(&peer);
    }
    for (unsigned i = 0; i < 2; i++) { /* SETTINGS come first, and not as an ACK */
        begin(&peer);
        say(&peer, gp_frame_preface, GP_FRAME_PREFACE_BYTES);
        say_frame(
            &peer,
            (struct gp_frame){.length = i ? 0 : 8, .type = i ? GP_FRAME_SETTINGS : GP_FRAME_PING, .flags = i},
            "12345678");
        CHECK(gp_responder_receive(peer.responder, gp_bytes_front(&peer.said), gp_bytes_length(&peer.said)) !=
              0);
        end(&peer);
    }
}

/* A stream's window is not given back while its answers are due: who sends on without regard breaks it. */
static void more_than_the_window(void)
{
    static uint8_t message[1u << 20];
    struct law law = {"more than the window", .goaway = GOOD, .reset = 1 + GP_H2_FLOW_CONTROL_ERROR};
    struct peer peer;

    memcpy(message, "\0\0\x0f\xff\xfb\x10\1\x1a\xf5\xff\x3f", 11);
    greet(&peer);
    say_frame(&peer, (struct gp_frame){.length = 6, .type = GP_FRAME_SETTINGS},
              "\0\4\0\0\0\0"); /* and reads none */
    say_frame(&peer,
              (struct gp_frame){.length = sizeof PING_PONG - 1, .type = HEADERS, .flags = 4, .stream_id = 1},
              PING_PONG);
    for (unsigned i = 0; i < 5; i++)
        say_frame(&peer, (struct gp_frame){.length = sizeof message, .type = DATA, .stream_id = 1}, message);
    say_frame(&peer, (struct gp_frame){.length = 8, .type = GP_FRAME_PING}, "so what?");
    CHECK(gp_responder_receive(peer.responder, gp_bytes_front(&peer.said), gp_bytes_length(&peer.said)) == 0);
    hear(&peer);
    check_heard(&peer, &law);
    end(&peer);
}

static void too_large(void)
{
    static uint8_t block[70000];
    static const struct law calm = {"a block without end", .goaway = GP_H2_ENHANCE_YOUR_CALM};
    struct peer peer;

    for (unsigned step = 0; step < 3; step++) {
        struct law law = calm;
        greet(&peer);
        if (step == 0) { /* frames that grow the block */
            say_frame(&peer, (struct gp_frame){.length = 16000, .type = HEADERS, .stream_id = 1}, block);
            for (unsigned i = 0; i < 5; i++)
                say_frame(&peer,
                          (struct gp_frame){.length = 16000, .type = GP_FRAME_CONTINUATION, .stream_id = 1},
                          block);
        } else { /* judged by its header: nobody waits for what it announces */
            uint8_t header[GP_FRAME_HEADER_BYTES];
            gp_frame_write(
                header,
                (struct gp_frame){.length = step == 1 ? 70000 : 0xffffff, .type = HEADERS, .stream_id = 1});
            say(&peer, header, sizeof header);
            law.goaway = GP_H2_FRAME_SIZE_ERROR;
        }
        CHECK(gp_responder_receive(peer.responder, gp_bytes_front(&peer.said), gp_bytes_length(&peer.said)) !=
              0);
        hear(&peer);
        check_heard(&peer, &law);
        end(&peer);
    }
}

/* Small on the wire, large when inflated: one entry of 4,000 bytes, named again and again. */
static void large_lists(void)
{
    static uint8_t block[4400];
    struct law law = {"a list without end", .goaway = GOOD, .reset = 1 + GP_H2_ENHANCE_YOUR_CALM};
    struct peer peer;
    uint8_t *at = block;

    memcpy(at, "\x40\1a\x7f\xa1\x1e", 6); /* into the table: "a", with 4,000 bytes */
    memset(at + 6, 'x', 4000);
    at += 4006;
    memset(at, 0xbe, 30);
    at += 30;
    greet(&peer);
    say_frame(&peer,
              (struct gp_frame){
                  .length = (uint32_t)(at - block), .type = HEADERS, .flags = END_BOTH, .stream_id = 1},
              block);
    say_frame(
        &peer,
        (struct gp_frame){.length = sizeof PING_PONG - 1, .type = HEADERS, .flags = END_BOTH, .stream_id = 3},
        PING_PONG); /* the connection goes on */
    say_frame(&peer, (struct gp_frame){.length = 8, .type = GP_FRAME_PING}, "so what?");
    CHECK(gp_responder_receive(peer.responder, gp_bytes_front(&peer.said), gp_bytes_length(&peer.said)) == 0);
    CHECK(peer.counts.finished == 1);
    hear(&peer);
    check_heard(&peer, &law);
    end(&peer);
}

/* --- garbage: it may do what it likes but break */

static void feed(struct peer *peer, struct gp_random *random)
{
    size_t at = 0, all = gp_bytes_length(&peer->said);

    while (at < all) {
        size_t size = 1 + gp_random_u64(random) % 200;
        size = size < all - at ? size : all - at;
        uint8_t *copy = malloc(size);
        CHECK(copy);
        memcpy(copy, gp_bytes_front(&peer->said) + at, size);
        int over = gp_responder_receive(peer->responder, copy, size);
        free(copy);
        if (over)
            break;
        if (gp_random_u64(random) % 4 == 0)
            hear(peer);
        at += size;
    }
    hear(peer);
    struct gp_frame frame;
    const uint8_t *payload;
    for (size_t i = 0; gp_bytes_length(&peer->heard) < 1u << 20 && next_frame(peer, &i, &frame, &payload);)
        CHECK(frame.type <= GP_FRAME_CONTINUATION && frame.length <= 1u << 18);
}

static void random_frames(struct gp_random *random)
{
    static const uint32_t sizes[] = {0, 1, 4, 5, 6, 8, 14, 300};
    uint8_t payload[300];
    struct peer peer;

    greet(&peer);
    for (unsigned i = 0; i < 40; i++) {
        struct gp_frame frame = {
            .length = sizes[gp_random_u64(random) % 8],
            .type = (uint8_t)(gp_random_u64(random) % 11),
            .flags =
                (uint8_t)(gp_random_u64(random) % 2 ? gp_random_u64(random) : gp_random_u64(random) % 2 * 4),
            .stream_id = (uint32_t)(gp_random_u64(random) % 8),
        };
        for (uint32_t k = 0; k < frame.length; k++)
            payload[k] = (uint8_t)(gp_random_u64(random) % 3 ? 0 : gp_random_u64(random));
        say_frame(&peer, frame, payload);
    }
    feed(&peer, random);
    end(&peer);
}

/* A lawful conversation with a few bytes changed. */
static void changed_bytes(struct gp_random *random)
{
    struct peer peer;

    greet(&peer);
    for (uint32_t id = 1; id < 30; id += 2) {
        bool unary = id % 4 == 1;
        say_frame(&peer,
                  (struct gp_frame){.length = unary ? sizeof UNARY - 1 : sizeof PING_PONG - 1,
                                    .type = HEADERS,
                                    .flags = 4,
                                    .stream_id = id},
                  unary ? UNARY : PING_PONG);
        say_frame(
            &peer,
            (struct gp_frame){.length = sizeof MESSAGE - 1, .type = DATA, .flags = unary, .stream_id = id},
            MESSAGE);
        say_frame(&peer,
                  (struct gp_frame){.length = 4, .type = GP_FRAME_WINDOW_UPDATE, .stream_id = unary ? 0 : id},
                  "\0\0\1\0");
    }
    for (uint64_t i = 1 + gp_random_u64(random) % 4; i > 0; i--) {
        size_t at = GP_FRAME_PREFACE_BYTES +
                    gp_random_u64(random) % (gp_bytes_length(&peer.said) - GP_FRAME_PREFACE_BYTES);
        peer.said.data[peer.said.start + at] = (uint8_t)gp_random_u64(random);
    }
    feed(&peer, random);
    end(&peer);
}

int main(void)
{
    struct gp_random random;

    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        try_law(&laws[i], SIZE_MAX);
        try_law(&laws[i], 1);
    }
    ids_rise();
    blocks_are_whole();
    neighbours_are_told_apart();
    the_beginning();
    more_than_the_window();
    too_large();
    large_lists();
    gp_random_init(&random, 20);
    for (unsigned i = 0; i < 3000; i++) {
        random_frames(&random);
        changed_bytes(&random);
    }
    return 0;
}
