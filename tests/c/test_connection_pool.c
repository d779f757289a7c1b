/* A connection whose messages are drawn from a pool: each goes out whole and as it was given, the same ones
 * for the same seed, and its bytes are counted. */
#include "wire_peer.h"

#include "base/random.h"

#define PAYLOADS 5u
#define STREAMS 40u
#define LARGE 40000u

static struct gp_bytes script;
static uint8_t large[LARGE];
static const struct gp_payload pool[PAYLOADS] = {
    {"", 0}, {"first", 5}, {"the second", 10}, {large, LARGE}, {large, 2000}};

/* All that was said on a stream in DATA frames, one behind the other. */
static struct gp_bytes data_of(const struct peer *peer, uint32_t stream_id)
{
    const uint8_t *said = gp_bytes_front(&peer->said);
    size_t at = GP_FRAME_PREFACE_BYTES, end = gp_bytes_length(&peer->said);
    struct gp_bytes data = {0};

    while (at < end) {
        struct gp_frame frame = gp_frame_read(said + at);

        at += GP_FRAME_HEADER_BYTES;
        if (frame.type == GP_FRAME_DATA && frame.stream_id == stream_id)
            CHECK(gp_bytes_append(&data, said + at, frame.length) == 0);
        at += frame.length;
    }
    return data;
}

/* Takes one message with its prefix from the front. */
static void check_message(struct gp_bytes *data, const struct gp_payload *payload)
{
    uint8_t prefix[GP_MESSAGE_PREFIX_BYTES] = {0};

    gp_put_u32(prefix + 1, (uint32_t)payload->size);
    CHECK(gp_bytes_length(data) >= sizeof prefix + payload->size);
    CHECK(memcmp(gp_bytes_front(data), prefix, sizeof prefix) == 0);
    CHECK(memcmp(gp_bytes_front(data) + sizeof prefix, payload->bytes, payload->size) == 0);
    data->start += sizeof prefix + payload->size;
}

static void widen(struct peer *peer)
{
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 1u << 30);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 1u << 30);
    CHECK(peer_say(peer, &script) == 0);
}

/* `messages` on each of the streams; how often each payload was sent is counted. */
static void messages_are_the_drawn_ones(enum gp_kind kind, uint32_t messages, uint64_t seed,
                                        uint32_t drawn[PAYLOADS])
{
    struct peer peer;
    struct gp_wire_stats stats;
    uint64_t bytes = 0;

    peer_open(&peer, &(struct peer_opts){.kind = kind,
                                         .messages = kind == GP_KIND_UNARY ? 0 : messages,
                                         .pool = pool,
                                         .pool_count = PAYLOADS,
                                         .seed = seed});
    widen(&peer);
    for (uint32_t i = 0; i < STREAMS; i++)
        gp_wire_submit(peer.wire, i, NOW);
    peer_listen(&peer);
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct gp_bytes data = data_of(&peer, 2 * i + 1);

        for (uint32_t m = 0; m < messages; m++) {
            uint32_t which = gp_call_draw(seed, 5, i, m, PAYLOADS); /* the peer's connection has number 5 */

            check_message(&data, &pool[which]);
            bytes += pool[which].size;
            drawn[which]++;
        }
        CHECK(gp_bytes_length(&data) == 0);
        gp_bytes_fini(&data);
    }
    gp_wire_stats(peer.wire, &stats);
    CHECK(stats.messages_sent == STREAMS * messages && stats.payload_sent == bytes);
    peer_close(&peer);
}

static void all_are_drawn(void)
{
    uint32_t one[PAYLOADS] = {0}, other[PAYLOADS] = {0};

    messages_are_the_drawn_ones(GP_KIND_UNARY, 1, 1, one);
    messages_are_the_drawn_ones(GP_KIND_UNARY, 1, 2, other);
    for (uint32_t i = 0; i < PAYLOADS; i++)
        CHECK(one[i] > 0 && other[i] > 0);
    CHECK(memcmp(one, other, sizeof one) != 0);
}

/* A message that is cut by the window goes on as the same one. */
static void a_message_stays_itself_across_windows(void)
{
    struct peer peer;

    memset(large, 'x', sizeof large);
    peer_open(
        &peer,
        &(struct peer_opts){
            .kind = GP_KIND_CLIENT_STREAM, .messages = 20, .pool = pool, .pool_count = PAYLOADS, .seed = 3});
    gp_wire_submit(peer.wire, 0, NOW);
    for (uint32_t i = 0; i < 60; i++) {
        peer_listen(&peer);
        put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 7001);
        put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 7001);
        CHECK(peer_say(&peer, &script) == 0);
    }
    peer_listen(&peer);
    struct gp_bytes data = data_of(&peer, 1);
    for (uint32_t m = 0; m < 20; m++)
        check_message(&data, &pool[gp_call_draw(3, 5, 0, m, PAYLOADS)]);
    CHECK(gp_bytes_length(&data) == 0);
    gp_bytes_fini(&data);
    peer_close(&peer);
}

int main(void)
{
    uint32_t drawn[PAYLOADS] = {0};

    for (uint32_t i = 0; i < LARGE; i++)
        large[i] = (uint8_t)(i * 7 + i / 251);
    all_are_drawn();
    messages_are_the_drawn_ones(GP_KIND_SERVER_STREAM, 1, 7, drawn);
    messages_are_the_drawn_ones(GP_KIND_CLIENT_STREAM, 9, 8, drawn);
    a_message_stays_itself_across_windows();
    gp_bytes_fini(&script);
    return 0;
}
