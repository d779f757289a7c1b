/* connection: answers that are taken as a whole (wire/answer.h) mean what they mean frame by frame. */
#include "wire_peer.h"

#include "wire/connection_state.h"

static struct gp_bytes script;

/* From the third answer on or so the shape is known; other answers in between are no trouble. */
static void answers_of_one_shape_become_a_habit(void)
{
    struct peer peer;
    uint64_t inflated;
    struct gp_wire_stats stats;

    peer_open(&peer, &(struct peer_opts){.max_message_bytes = 100});
    for (uint32_t i = 0; i < 40; i++)
        gp_wire_submit(peer.wire, i, NOW);
    for (uint32_t i = 0; i < 10; i++)
        put_answer(&script, 2 * i + 1);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 10 && peer.wire->habit.good);
    gp_wire_stats(peer.wire, &stats);
    inflated = stats.inflated_blocks;
    put_answer(&script, 1);                      /* on a closed stream */
    put_trailers(&script, 21, TRAILERS_ONLY_OK); /* another shape */
    put_headers(&script, 23, 0, HEADERS_OK);
    put_answer(&script, 25);
    put_headers(&script, 27, 0, HEADERS_OK); /* what is in the middle of an answer cannot begin one */
    put_answer(&script, 27);
    put_headers(&script, 29, 0, HEADERS_OK);
    put_message(&script, 29, 0, 3);
    put_trailers(&script, 31, TRAILERS_OK);
    put_answer(&script, 33);
    put_answer(&script, 35); /* the last one is read frame by frame */
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 16);
    static const enum gp_class classes[] = {GP_CLASS_UNIMPLEMENTED, GP_CLASS_OK, GP_CLASS_INTERNAL,
                                            GP_CLASS_INTERNAL,      GP_CLASS_OK, GP_CLASS_OK};
    for (size_t i = 0; i < 6; i++)
        CHECK(peer.events[10 + i].class == classes[i]);
    gp_wire_stats(peer.wire, &stats);
    CHECK(stats.inflated_blocks == inflated + 1 && !peer.wire->habit.good); /* by the one that was new */
    CHECK(stats.messages_received == 10 + 4);
    peer_close(&peer);
}

/* Five answers one by one, so that the shape is known. */
static void make_habit(struct peer *peer, size_t message_bytes)
{
    for (uint32_t i = 0; i < 5; i++) {
        gp_wire_submit(peer->wire, i, NOW);
        put_headers(&script, 2 * i + 1, 0, HEADERS_OK);
        put_message(&script, 2 * i + 1, 0, message_bytes);
        put_trailers(&script, 2 * i + 1, TRAILERS_OK);
        CHECK(peer_say(peer, &script) == 0);
    }
    CHECK(peer->event_count == 5 && peer->wire->habit.good);
}

static void windows_are_kept(void)
{
    struct peer peer;
    size_t given = 0;
    const uint8_t *update;

    peer_open(&peer, &(struct peer_opts){.connection_window = 70000});
    make_habit(&peer, 1995);
    for (uint32_t i = 0; i < 50; i++)
        gp_wire_submit(peer.wire, i, NOW);
    peer_listen(&peer);
    for (uint32_t i = 0; i < 50; i++) {
        put_headers(&script, 11 + 2 * i, 0, HEADERS_OK);
        put_message(&script, 11 + 2 * i, 0, 1995);
        put_trailers(&script, 11 + 2 * i, TRAILERS_OK);
    }
    size_t bytes = gp_bytes_length(&script);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 55 && peer.wire->habit.good);
    while ((update = peer_find(&peer, GP_FRAME_WINDOW_UPDATE, 0, NULL)))
        given += gp_get_u32(update);
    CHECK(given == 70000 - 65535 + 110000); /* each 10,000 of them, an eighth of the window and a bit */
    struct gp_wire_stats stats;
    gp_wire_stats(peer.wire, &stats);
    CHECK(stats.messages_received == 55 && stats.bytes_received > bytes && stats.bytes_received < 2 * bytes);
    peer_close(&peer);
}

/* Only a whole request can be over with its answer: one that is still being sent is reset. */
static void answer_to_an_unfinished_request_is_read_by_parts(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_CLIENT_STREAM, .messages = 2, .message_bytes = 10});
    make_habit(&peer, 3);
    put_setting(&script, GP_SETTING_INITIAL_WINDOW_SIZE, 20); /* holds one message and a part */
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW);
    peer_listen(&peer);
    put_answer(&script, 11);
    put_answer(&script, 13);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 7 && peer.events[5].class == GP_CLASS_OK);
    CHECK(peer_reset_code(&peer, 11) == GP_H2_NO_ERROR && peer_reset_code(&peer, 13) == GP_H2_NO_ERROR);
    peer_close(&peer);
}

int main(void)
{
    answers_of_one_shape_become_a_habit();
    windows_are_kept();
    answer_to_an_unfinished_request_is_read_by_parts();
    gp_bytes_fini(&script);
    return 0;
}
