/* For tests of connections: conversations at random. What a peer says to some calls of some kind, mostly well
 * formed, frames of different streams interleaved. */
#ifndef GP_TESTS_WIRE_TALK_H
#define GP_TESTS_WIRE_TALK_H

#include "base/random.h"
#include "wire_peer.h"

#define TALK_CALLS 24u
#define TALK_SETTINGS 15u /* bytes: every talk begins with that frame */

struct talk {
    struct peer_opts opts;
    uint32_t calls;
    bool limited; /* by MAX_CONCURRENT_STREAMS */
    struct gp_bytes script;
};

static inline bool one_in(struct gp_random *random, uint64_t n)
{
    return gp_random_below(random, n) == 0;
}

static inline void talk_headers(struct gp_bytes *script, struct gp_random *random, uint32_t stream_id)
{
    static const char *const rare[] = {":status=404|content-type=text/html",
                                       HEADERS_OK "|grpc-encoding=gzip",
                                       ":status=100",
                                       HEADERS_OK "|a=b",
                                       "x=y",
                                       TRAILERS_ONLY_OK};

    if (one_in(random, 6))
        put_headers(script, stream_id, one_in(random, 4) ? GP_FLAG_END_STREAM : 0,
                    rare[gp_random_below(random, 6)]);
    if (one_in(random, 6)) { /* with a field that goes into the table, continued */
        put_frame(script, GP_FRAME_HEADERS, 0, stream_id, "\x88\x40\1a", 4);
        put_frame(script, GP_FRAME_CONTINUATION, GP_FLAG_END_HEADERS, stream_id, "\1b", 2);
    } else {
        put_headers(script, stream_id, 0, HEADERS_OK);
    }
}

static inline void talk_message(struct gp_bytes *script, struct gp_random *random, uint32_t stream_id)
{
    static const uint8_t two[] = {0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 1, 'b'};

    switch (gp_random_below(random, 8)) {
    case 0:
        put_frame(script, GP_FRAME_DATA, 0, stream_id, two, sizeof two);
        break;
    case 1: /* cut by frames, padded, with an empty one in between */
        put_frame(script, GP_FRAME_DATA, 0, stream_id, "\0\0\0", 3);
        put_frame(script, GP_FRAME_DATA, GP_FLAG_PADDED, stream_id, "\3\0\2ab\0\0\0", 8);
        put_frame(script, GP_FRAME_DATA, 0, stream_id, "", 0);
        break;
    case 2:
        put_message(script, stream_id, 0, gp_random_below(random, 3000));
        break;
    default:
        put_message(script, stream_id, 0, 4);
    }
}

static inline void talk_noise(struct gp_bytes *script, struct gp_random *random, uint32_t stream_id)
{
    switch (gp_random_below(random, 9)) {
    case 0:
        put_frame(script, GP_FRAME_PING, 0, 0, "12345678", 8);
        break;
    case 1:
        put_frame(script, 0x42, 0xff, stream_id, "unknown", 7);
        break;
    case 2:
        put_frame(script, GP_FRAME_PRIORITY, 0, stream_id, "12345", 5);
        break;
    case 3:
        put_setting(script, GP_SETTING_INITIAL_WINDOW_SIZE, (uint32_t)gp_random_below(random, 100000));
        break;
    case 4:
        put_setting(script, GP_SETTING_HEADER_TABLE_SIZE, (uint32_t)gp_random_below(random, 5000));
        break;
    case 5:
        if (one_in(random, 10))
            put_goaway(script, (uint32_t)gp_random_below(random, 30), GP_H2_NO_ERROR, "bye");
        break;
    case 6:
        if (one_in(random, 3))
            put_number(script, GP_FRAME_RST_STREAM, stream_id, (uint32_t)gp_random_below(random, 15));
        break;
    default:
        put_number(script, GP_FRAME_WINDOW_UPDATE, one_in(random, 2) ? stream_id : 0,
                   1 + (uint32_t)gp_random_below(random, 5000));
    }
}

static inline void talk_stream(struct gp_bytes *script, struct gp_random *random, uint32_t stream_id,
                               uint32_t messages)
{
    if (!one_in(random, 40))
        talk_headers(script, random, stream_id);
    for (uint32_t i = 0; i < messages; i++) {
        talk_message(script, random, stream_id);
        if (one_in(random, 3))
            talk_noise(script, random, stream_id);
    }
    if (!one_in(random, 8))
        put_trailers(script, stream_id, one_in(random, 8) ? "grpc-status=5|grpc-message=none" : TRAILERS_OK);
}

/* The next frame of a stream's part, a whole header block together. */
static inline void move_frame(struct gp_bytes *script, struct gp_bytes *part)
{
    bool open;

    do {
        struct gp_frame frame = gp_frame_read(gp_bytes_front(part));
        size_t size = GP_FRAME_HEADER_BYTES + frame.length;
        open = (frame.type == GP_FRAME_HEADERS || frame.type == GP_FRAME_CONTINUATION) &&
               !(frame.flags & GP_FLAG_END_HEADERS);
        CHECK(gp_bytes_append(script, gp_bytes_front(part), size) == 0);
        gp_bytes_take(part, size);
    } while (open);
}

static inline void talk_make(struct talk *talk, uint64_t seed)
{
    struct gp_random random;
    struct gp_bytes parts[TALK_CALLS] = {0};
    size_t left = 0;

    gp_random_init(&random, seed);
    *talk = (struct talk){.calls = 1 + (uint32_t)gp_random_below(&random, TALK_CALLS)};
    talk->opts = (struct peer_opts){
        .kind = (enum gp_kind)gp_random_below(&random, 5),
        .messages = (uint32_t)gp_random_below(&random, 4),
        .parked = one_in(&random, 6),
        .message_bytes = one_in(&random, 4) ? gp_random_below(&random, 90000) : gp_random_below(&random, 40),
        .stream_window = one_in(&random, 3) ? 3100 : 0,
        .silent = true,
    };
    talk->limited = one_in(&random, 3);
    put_setting(&talk->script, talk->limited ? GP_SETTING_MAX_CONCURRENT_STREAMS : 99,
                1 + (uint32_t)gp_random_below(&random, 9));
    bool plain = one_in(&random, 3); /* mostly ordinary answers, all alike */
    for (uint32_t i = 0; i < talk->calls; i++) {
        uint32_t messages = talk->opts.kind == GP_KIND_UNARY || talk->opts.kind == GP_KIND_CLIENT_STREAM
                                ? !one_in(&random, 9)
                                : (uint32_t)gp_random_below(&random, 6);
        if (plain && !one_in(&random, 9))
            put_answer(&parts[i], 2 * i + 1);
        else
            talk_stream(&parts[i], &random, 2 * i + 1, messages);
        left += gp_bytes_length(&parts[i]);
    }
    while (left > 0) {
        uint32_t i = plain || talk->limited ? 0 : (uint32_t)gp_random_below(&random, talk->calls);
        while (gp_bytes_length(&parts[i]) == 0)
            i = (i + 1) % talk->calls;
        size_t before = gp_bytes_length(&parts[i]);
        move_frame(&talk->script, &parts[i]);
        left -= before - gp_bytes_length(&parts[i]);
    }
    for (uint32_t i = 0; i < TALK_CALLS; i++)
        gp_bytes_fini(&parts[i]);
}

static inline void talk_free(struct talk *talk)
{
    gp_bytes_fini(&talk->script);
}

#endif
