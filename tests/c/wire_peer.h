/* For tests of connections: a peer made of hand-written frames, and a look at what the connection says.
 *
 * A `peer` owns the connection under test, its table of calls, and what has come out of it. A `script` is
 * what the peer is going to say. */
#ifndef GP_TESTS_WIRE_PEER_H
#define GP_TESTS_WIRE_PEER_H

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/connection.h"
#include "wire/frame.h"
#include "wire/message.h"
#include "check.h"

#define PEER_CALLS 64u
#define NOW 1000u

struct peer {
    struct gp_calls *calls;
    struct gp_wire *wire;
    struct gp_bytes said; /* what has come out */
    size_t mark;          /* how much of it has been looked at */
    struct gp_event events[PEER_CALLS];
    size_t event_count;
};

struct peer_opts {
    enum gp_kind kind;
    uint32_t messages;
    bool parked, gzip;
    size_t message_bytes;
    uint32_t stream_window, connection_window, max_message_bytes, max_header_bytes;
    uint32_t max_in_flight;
    const struct gp_metadata *metadata;
    size_t metadata_count;
    const struct gp_payload *pool;
    uint32_t pool_count;
    uint64_t seed;
    bool silent; /* no SETTINGS at the beginning */
};

/* --- what the peer says ------------------------------------------------------------------------ */

static inline void put_frame(struct gp_bytes *script, uint8_t type, uint8_t flags, uint32_t stream_id,
                             const void *payload, size_t size)
{
    uint8_t head[GP_FRAME_HEADER_BYTES];

    gp_frame_write(head, (struct gp_frame){(uint32_t)size, stream_id, type, flags});
    CHECK(gp_bytes_append(script, head, sizeof head) == 0 && gp_bytes_append(script, payload, size) == 0);
}

static inline void put_setting(struct gp_bytes *script, uint16_t id, uint32_t value)
{
    uint8_t payload[6] = {(uint8_t)(id >> 8), (uint8_t)id};

    gp_put_u32(payload + 2, value);
    put_frame(script, GP_FRAME_SETTINGS, 0, 0, payload, sizeof payload);
}

static inline void put_number(struct gp_bytes *script, uint8_t type, uint32_t stream_id, uint32_t number)
{
    uint8_t payload[4];

    gp_put_u32(payload, number);
    put_frame(script, type, 0, stream_id, payload, sizeof payload);
}

static inline void put_goaway(struct gp_bytes *script, uint32_t last, uint32_t code, const char *text)
{
    uint8_t payload[64];

    gp_put_u32(payload, last);
    gp_put_u32(payload + 4, code);
    memcpy(payload + 8, text, strlen(text));
    put_frame(script, GP_FRAME_GOAWAY, 0, 0, payload, 8 + strlen(text));
}

/* "name=value" fields parted by '|', as literals that leave the table alone (RFC 7541, 6.2.2). */
static inline size_t encode_fields(const char *fields, uint8_t *block)
{
    size_t size = 0;

    while (*fields) {
        size_t length = strcspn(fields, "|"), name = strcspn(fields, "=");
        size_t value = length - name - 1;
        CHECK(name < 127 && value < 127 && name < length);
        block[size++] = 0;
        block[size++] = (uint8_t)name;
        memcpy(block + size, fields, name);
        size += name;
        block[size++] = (uint8_t)value;
        memcpy(block + size, fields + name + 1, value);
        size += value;
        fields += length + (fields[length] == '|');
    }
    return size;
}

static inline void put_headers(struct gp_bytes *script, uint32_t stream_id, uint8_t flags, const char *fields)
{
    uint8_t block[2048];

    put_frame(script, GP_FRAME_HEADERS, flags | GP_FLAG_END_HEADERS, stream_id, block,
              encode_fields(fields, block));
}

#define HEADERS_OK ":status=200|content-type=application/grpc"
#define TRAILERS_OK "grpc-status=0"
#define TRAILERS_ONLY_OK HEADERS_OK "|" TRAILERS_OK

static inline void put_message(struct gp_bytes *script, uint32_t stream_id, uint8_t flags, size_t size)
{
    uint8_t *payload = calloc(1, 5 + size);

    gp_put_u32(payload + 1, (uint32_t)size);
    put_frame(script, GP_FRAME_DATA, flags, stream_id, payload, 5 + size);
    free(payload);
}

static inline void put_trailers(struct gp_bytes *script, uint32_t stream_id, const char *fields)
{
    put_headers(script, stream_id, GP_FLAG_END_STREAM, fields);
}

/* A whole answer of one message. */
static inline void put_answer(struct gp_bytes *script, uint32_t stream_id)
{
    put_headers(script, stream_id, 0, HEADERS_OK);
    put_message(script, stream_id, 0, 3);
    put_trailers(script, stream_id, TRAILERS_OK);
}

/* --- what the connection says ------------------------------------------------------------------ */

/* Write all there is, in a few pieces at a time, some of them only in part. */
static inline void peer_listen(struct peer *peer)
{
    struct iovec pieces[3];

    while (gp_wire_has_output(peer->wire)) {
        size_t count = gp_wire_gather(peer->wire, pieces, 3, NOW), bytes = 0;
        for (size_t i = 0; i < count; i++) {
            size_t part = i == 2 ? (pieces[i].iov_len + 1) / 2 : pieces[i].iov_len;
            CHECK(pieces[i].iov_len > 0);
            CHECK(gp_bytes_append(&peer->said, pieces[i].iov_base, part) == 0);
            bytes += part;
        }
        gp_wire_written(peer->wire, bytes);
        if (count == 0)
            CHECK(!gp_wire_has_output(peer->wire));
    }
}

/* The next frame not looked at yet; false at the end. */
static inline bool peer_frame(struct peer *peer, struct gp_frame *frame, const uint8_t **payload)
{
    const uint8_t *at = gp_bytes_front(&peer->said) + peer->mark;
    size_t left = gp_bytes_length(&peer->said) - peer->mark;

    if (left == 0)
        return false;
    CHECK(left >= GP_FRAME_HEADER_BYTES);
    *frame = gp_frame_read(at);
    CHECK(left >= GP_FRAME_HEADER_BYTES + frame->length);
    *payload = at + GP_FRAME_HEADER_BYTES;
    peer->mark += GP_FRAME_HEADER_BYTES + frame->length;
    return true;
}

/* Pass over frames up to one of that type on that stream, and give its payload; the frame may be NULL. */
static inline const uint8_t *peer_find(struct peer *peer, uint8_t type, uint32_t stream_id,
                                       struct gp_frame *found)
{
    struct gp_frame frame;
    const uint8_t *payload;

    peer_listen(peer);
    while (peer_frame(peer, &frame, &payload))
        if (frame.type == type && frame.stream_id == stream_id) {
            if (found)
                *found = frame;
            return payload;
        }
    return NULL;
}

/* Frames of that type on that stream among all that was not looked at yet; leaves the mark where it is. */
static inline size_t peer_count(struct peer *peer, uint8_t type, uint32_t stream_id)
{
    size_t mark = (peer_listen(peer), peer->mark), count = 0;

    while (peer_find(peer, type, stream_id, NULL))
        count++;
    peer->mark = mark;
    return count;
}

/* The code of the RST_STREAM for that stream; -1: none. */
static inline int peer_reset_code(struct peer *peer, uint32_t stream_id)
{
    const uint8_t *payload = peer_find(peer, GP_FRAME_RST_STREAM, stream_id, NULL);

    return payload ? (int)gp_get_u32(payload) : -1;
}

/* The code of the GOAWAY; -1: none. */
static inline int peer_goaway_code(struct peer *peer)
{
    const uint8_t *payload = peer_find(peer, GP_FRAME_GOAWAY, 0, NULL);

    return payload ? (int)gp_get_u32(payload + 4) : -1;
}

/* --- the conversation -------------------------------------------------------------------------- */

static inline void take_events(struct peer *peer)
{
    peer->event_count +=
        gp_calls_take(peer->calls, peer->events + peer->event_count, PEER_CALLS - peer->event_count);
}

/* The connection hears the script, which is empty afterwards. */
static inline int peer_say(struct peer *peer, struct gp_bytes *script)
{
    int result = gp_wire_receive(peer->wire, gp_bytes_front(script), gp_bytes_length(script), NOW);

    gp_bytes_clear(script);
    take_events(peer);
    return result;
}

static inline void peer_open(struct peer *peer, const struct peer_opts *opts)
{
    char *message = calloc(1, opts->message_bytes + 1);
    struct gp_request request = {.kind = opts->kind,
                                 .method = "/test.Service/Method",
                                 .message = message,
                                 .message_bytes = opts->message_bytes,
                                 .pool = opts->pool,
                                 .pool_count = opts->pool_count,
                                 .seed = opts->seed,
                                 .metadata = opts->metadata,
                                 .metadata_count = opts->metadata_count,
                                 .messages = opts->messages,
                                 .parked = opts->parked};
    struct gp_bytes script = {0};

    for (size_t i = 0; i < opts->message_bytes; i++)
        message[i] = (char)(i * 7 + i / 251);
    *peer = (struct peer){0};
    CHECK(gp_calls_create(&peer->calls,
                          &(struct gp_calls_opts){opts->max_in_flight ? opts->max_in_flight : PEER_CALLS,
                                                  &request, opts->gzip},
                          NULL) == 0);
    CHECK(gp_wire_create(&peer->wire,
                         &(struct gp_wire_opts){.calls = peer->calls,
                                                .index = 5,
                                                .request = &request,
                                                .scheme = "http",
                                                .authority = "test",
                                                .stream_window = opts->stream_window,
                                                .connection_window = opts->connection_window,
                                                .max_message_bytes = opts->max_message_bytes,
                                                .max_header_bytes = opts->max_header_bytes},
                         NULL) == 0);
    free(message);
    peer_listen(peer);
    CHECK(memcmp(gp_bytes_front(&peer->said), gp_frame_preface, GP_FRAME_PREFACE_BYTES) == 0);
    peer->mark = GP_FRAME_PREFACE_BYTES;
    if (opts->silent)
        return;
    put_frame(&script, GP_FRAME_SETTINGS, 0, 0, "", 0);
    CHECK(peer_say(peer, &script) == 0);
    gp_bytes_fini(&script);
}

static inline void peer_close(struct peer *peer)
{
    gp_wire_destroy(peer->wire);
    gp_calls_destroy(peer->calls);
    gp_bytes_fini(&peer->said);
}

/* The one event there is, and its class. */
static inline const struct gp_event *only_event(const struct peer *peer, enum gp_class class)
{
    CHECK(peer->event_count == 1);
    if (peer->events[0].class != class)
        fprintf(stderr, "%s instead of %s: %s\n", gp_class_name(peer->events[0].class), gp_class_name(class),
                gp_wire_cause(peer->wire));
    CHECK(peer->events[0].class == class);
    return &peer->events[0];
}

#endif
