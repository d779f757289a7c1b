/* connection: how it ends, by GOAWAY, by its ids, from outside, and how its calls end with it or before it.
 * Sections are those of RFC 9113. */
#include "wire_peer.h"

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

/* --- GOAWAY (6.8) ------------------------------------------------------------------------------ */

static void goaway_refuses_what_is_above_its_last_id(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 4);
    CHECK(peer_say(&peer, &script) == 0);
    for (uint32_t i = 0; i < 6; i++)
        gp_wire_submit(peer.wire, i, NOW);
    put_goaway(&script, 0x7fffffff, GP_H2_NO_ERROR, ""); /* a server that shuts down begins like this */
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.event_count == 2 && !gp_wire_open(peer.wire)); /* the queued ones */
    put_goaway(&script, 3, GP_H2_ENHANCE_YOUR_CALM, "too_many_pings");
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.event_count == 4 && gp_wire_in_flight(peer.wire) == 2);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(peer.events[i].class == GP_CLASS_TRANSPORT && peer.events[i].refused && peer.events[i].id >= 2);
    put_goaway(&script, 1, GP_H2_NO_ERROR, "");
    put_goaway(&script, 9, GP_H2_NO_ERROR, ""); /* may not rise, and does not help */
    put_answer(&script, 1);
    put_answer(&script, 3);
    CHECK(peer_say(&peer, &script) == 0);
    CHECK(peer.event_count == 6 && peer.events[4].id == 1 && peer.events[4].refused);
    CHECK(peer.events[5].id == 0 && peer.events[5].class == GP_CLASS_OK);
    gp_wire_submit(peer.wire, 0, NOW);
    take_events(&peer);
    CHECK(peer.event_count == 7 && peer.events[6].class == GP_CLASS_TRANSPORT && peer.events[6].refused);
    struct gp_wire_stats stats;
    gp_wire_stats(peer.wire, &stats);
    CHECK(stats.refused == 6);
    peer_close(&peer);
}

static void goaway_says_why(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    put_goaway(&script, 0, GP_H2_ENHANCE_YOUR_CALM, "too_many_pings\n");
    CHECK(peer_say(&peer, &script) == 0 && gp_wire_ready(peer.wire) && !gp_wire_open(peer.wire));
    CHECK(strstr(gp_wire_cause(peer.wire), "ENHANCE_YOUR_CALM") &&
          strstr(gp_wire_cause(peer.wire), "too_many_pings?"));
    peer_close(&peer);
}

/* --- ids come to an end (5.1.1) ---------------------------------------------------------------- */

static void ids_are_used_up(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    peer.wire->next_stream = GP_FRAME_MAX_ID - 4;
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 1);
    CHECK(peer_say(&peer, &script) == 0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(gp_wire_open(peer.wire));
        gp_wire_submit(peer.wire, i, NOW);
    }
    CHECK(!gp_wire_open(peer.wire));
    gp_wire_submit(peer.wire, 3, NOW);
    take_events(&peer);
    CHECK(only_event(&peer, GP_CLASS_TRANSPORT)->refused);
    for (uint32_t i = 0; i < 3; i++) {
        put_answer(&script, GP_FRAME_MAX_ID - 4 + 2 * i);
        CHECK(peer_say(&peer, &script) == 0);
        CHECK(peer.event_count == 2 + i && peer.events[1 + i].class == GP_CLASS_OK);
    }
    put_answer(&script, GP_FRAME_MAX_ID); /* closed, not idle */
    CHECK(peer_say(&peer, &script) == 0);
    peer_close(&peer);
}

/* --- ends from outside -------------------------------------------------------------------------- */

static void abort_ends_one_call(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 100000});
    gp_wire_submit(peer.wire, 0, 10);
    gp_wire_submit(peer.wire, 1, 10);
    gp_wire_abort(peer.wire, 0, GP_CLASS_DEADLINE_EXCEEDED, 500);
    gp_wire_abort(peer.wire, 0, GP_CLASS_CANCELLED, 600); /* has ended */
    gp_wire_abort(peer.wire, 9, GP_CLASS_CANCELLED, 600); /* never was */
    take_events(&peer);
    const struct gp_event *event = only_event(&peer, GP_CLASS_DEADLINE_EXCEEDED);
    CHECK(event->sent_ns == 10 && event->done_ns == 500);
    size_t mark = peer.mark;
    CHECK(peer_reset_code(&peer, 1) == GP_H2_CANCEL);
    peer.mark = mark;
    CHECK(data_bytes(&peer, 3) == 65535); /* the whole window is the other's */
    peer_close(&peer);
}

static void abort_all_ends_all(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 20);
    CHECK(peer_say(&peer, &script) == 0);
    for (uint32_t i = 0; i < 40; i++)
        gp_wire_submit(peer.wire, i, NOW);
    gp_wire_abort_all(peer.wire, GP_CLASS_IN_FLIGHT_AT_END, NOW);
    take_events(&peer);
    CHECK(peer.event_count == 40 && gp_wire_in_flight(peer.wire) == 0 && gp_wire_queued(peer.wire) == 0);
    for (uint32_t i = 0; i < 40; i++)
        CHECK(peer.events[i].class == GP_CLASS_IN_FLIGHT_AT_END);
    CHECK(gp_wire_open(peer.wire));
    for (uint32_t i = 0; i < 20; i++)
        CHECK(peer_find(&peer, GP_FRAME_RST_STREAM, 2 * i + 1, NULL));
    peer_close(&peer);
}

/* A client_stream without a bound, told to end, has said what it was to: it is OK also when the peer has not
 * read it all, and that is told. Before that, and without a message sent, it is not. */
static void abort_all_leaves_what_was_said_as_ok(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_CLIENT_STREAM, .message_bytes = 65530});
    gp_wire_submit(peer.wire, 0, NOW); /* fills the connection's window with its first message */
    peer_listen(&peer);
    gp_wire_submit(peer.wire, 1, NOW);
    peer_listen(&peer);
    gp_wire_end(peer.wire, NOW);
    gp_wire_abort_all(peer.wire, GP_CLASS_CANCELLED, NOW);
    take_events(&peer);
    CHECK(peer.event_count == 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(peer.events[i].class == (peer.events[i].id == 0 ? GP_CLASS_OK : GP_CLASS_CANCELLED));
        CHECK(peer.events[i].ahead == (peer.events[i].id == 0));
    }
    CHECK(peer_find(&peer, GP_FRAME_RST_STREAM, 1, NULL));
    peer_close(&peer);

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_CLIENT_STREAM, .message_bytes = 10});
    gp_wire_submit(peer.wire, 0, NOW);
    peer_listen(&peer);
    gp_wire_abort_all(peer.wire, GP_CLASS_CANCELLED, NOW);
    take_events(&peer);
    CHECK(!only_event(&peer, GP_CLASS_CANCELLED)->ahead);
    peer_close(&peer);
}

static void lost_connection_takes_its_calls_along(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 100000});
    put_setting(&script, GP_SETTING_MAX_CONCURRENT_STREAMS, 1);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_submit(peer.wire, 0, NOW);
    gp_wire_submit(peer.wire, 1, NOW);
    gp_wire_lost(peer.wire, "Connection reset by peer", 900);
    gp_wire_lost(peer.wire, "again", 901);
    take_events(&peer);
    CHECK(peer.event_count == 2 && peer.events[0].id == 0 && peer.events[1].id == 1);
    CHECK(peer.events[0].class == GP_CLASS_TRANSPORT && !peer.events[0].refused);
    CHECK(peer.events[1].class == GP_CLASS_TRANSPORT && peer.events[1].refused);
    CHECK(strcmp(gp_wire_cause(peer.wire), "Connection reset by peer") == 0);
    CHECK(gp_wire_receive(peer.wire, (const uint8_t *)"x", 1, NOW) == -1);
    peer_close(&peer);
}

/* An id goes from one connection to the next; what the first still knows of it means nothing there. */
static void id_moves_to_another_connection(void)
{
    struct peer peer;
    struct gp_request request = {.method = "/test.Service/Method", .message = ""};
    struct gp_wire *first, *second;

    peer_open(&peer, &(struct peer_opts){.message_bytes = 100000});
    CHECK(
        gp_wire_create(
            &second,
            &(struct gp_wire_opts){
                .calls = peer.calls, .index = 6, .request = &request, .scheme = "http", .authority = "test"},
            NULL) == 0);
    put_frame(&script, GP_FRAME_SETTINGS, 0, 0, "", 0);
    CHECK(gp_wire_receive(second, script.data, script.end, NOW) == 0);
    gp_bytes_clear(&script);
    gp_wire_submit(peer.wire, 0, NOW);
    look_away(&peer); /* it waits for the window now */
    gp_wire_abort(peer.wire, 0, GP_CLASS_CANCELLED, NOW);
    take_events(&peer);
    gp_wire_submit(second, 0, NOW); /* stream 1 there, too, and waits as well */
    CHECK(gp_calls_owner(peer.calls, 0) == 6);
    first = peer.wire;
    peer.wire = second;
    peer_listen(&peer);
    peer.wire = first;
    gp_wire_abort(peer.wire, 0, GP_CLASS_CANCELLED, NOW); /* not its own any more */
    look_away(&peer);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 0, 100000);
    put_number(&script, GP_FRAME_WINDOW_UPDATE, 1, 100000);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 1);
    CHECK(data_bytes(&peer, 1) == 0);
    gp_wire_lost(first, "gone", NOW);
    take_events(&peer);
    CHECK(peer.event_count == 1 && gp_calls_owner(peer.calls, 0) == 6);
    gp_wire_destroy(second);
    take_events(&peer);
    CHECK(peer.event_count == 2 && peer.events[1].class == GP_CLASS_TRANSPORT);
    peer_close(&peer);
}

/* --- told to end -------------------------------------------------------------------------------- */

/* Not before something has come: a stream without an answer is not OK. */
static void free_running_stream_ends_with_its_first_message(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI_FREE, .message_bytes = 65530});
    gp_wire_submit(peer.wire, 0, NOW);
    look_away(&peer);
    gp_wire_end(peer.wire, 2000);
    put_headers(&script, 1, 0, HEADERS_OK);
    CHECK(peer_say(&peer, &script) == 0 && peer.event_count == 0);
    put_message(&script, 1, 0, 1);
    CHECK(peer_say(&peer, &script) == 0);
    only_event(&peer, GP_CLASS_OK);
    peer_close(&peer);
}

static void end_has_its_own_time(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){.kind = GP_KIND_BIDI_FREE, .message_bytes = 65530});
    gp_wire_submit(peer.wire, 0, NOW);
    look_away(&peer);
    put_headers(&script, 1, 0, HEADERS_OK);
    put_message(&script, 1, 0, 1);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_end(peer.wire, 2000);
    take_events(&peer);
    CHECK(only_event(&peer, GP_CLASS_OK)->done_ns == 2000);
    peer_close(&peer);
}

/* --- causes ------------------------------------------------------------------------------------- */

/* The first of each run of the same class: text costs more than a call. The last word is the connection's. */
static void cause_is_that_of_the_last_class(void)
{
    struct peer peer;

    peer_open(&peer, &(struct peer_opts){0});
    for (uint32_t i = 0; i < 4; i++)
        gp_wire_submit(peer.wire, i, NOW);
    CHECK(gp_wire_cause(peer.wire)[0] == '\0');
    put_trailers(&script, 1, HEADERS_OK "|grpc-status=13|grpc-message=one");
    put_trailers(&script, 3, HEADERS_OK "|grpc-status=13|grpc-message=two");
    CHECK(peer_say(&peer, &script) == 0 && strstr(gp_wire_cause(peer.wire), "one"));
    CHECK(gp_wire_cause_class(peer.wire) == GP_CLASS_INTERNAL);
    put_trailers(&script, 5, HEADERS_OK "|grpc-status=14|grpc-message=three");
    CHECK(peer_say(&peer, &script) == 0 && strstr(gp_wire_cause(peer.wire), "three"));
    CHECK(gp_wire_cause_class(peer.wire) == GP_CLASS_UNAVAILABLE);
    gp_wire_lost(peer.wire, "gone", NOW);
    CHECK(strcmp(gp_wire_cause(peer.wire), "gone") == 0);
    CHECK(gp_wire_cause_class(peer.wire) == GP_CLASS_TRANSPORT);
    peer_close(&peer);
}

static const char *cause_of(const struct gp_wire_cause *causes, size_t count, enum gp_class class)
{
    for (size_t i = 0; i < count; i++)
        if (causes[i].class == class)
            return causes[i].text;
    return "";
}

/* One read that ends calls of three classes by turns has a cause for each, the
 * first; the next has its own. */
static void each_class_of_a_batch_has_its_cause(void)
{
    static const char *const fields[] = {
        HEADERS_OK "|grpc-status=13|grpc-message=one", HEADERS_OK "|grpc-status=14|grpc-message=two",
        HEADERS_OK "|grpc-status=7|grpc-message=three", HEADERS_OK "|grpc-status=13|grpc-message=four",
        HEADERS_OK "|grpc-status=14|grpc-message=five"};
    const struct gp_wire_cause *causes;
    struct peer peer;
    size_t count;

    peer_open(&peer, &(struct peer_opts){0});
    CHECK(gp_wire_take_causes(peer.wire, &causes) == 0);
    for (uint32_t i = 0; i < 7; i++)
        gp_wire_submit(peer.wire, i, NOW);
    for (uint32_t i = 0; i < 5; i++)
        put_trailers(&script, 2 * i + 1, fields[i]);
    CHECK(peer_say(&peer, &script) == 0);
    count = gp_wire_take_causes(peer.wire, &causes);
    CHECK(count == 3);
    CHECK(strstr(cause_of(causes, count, GP_CLASS_INTERNAL), "one"));
    CHECK(strstr(cause_of(causes, count, GP_CLASS_UNAVAILABLE), "two"));
    CHECK(strstr(cause_of(causes, count, GP_CLASS_PERMISSION_DENIED), "three"));
    CHECK(gp_wire_take_causes(peer.wire, &causes) == 0);
    put_trailers(&script, 11, fields[3]);
    CHECK(peer_say(&peer, &script) == 0);
    gp_wire_lost(peer.wire, "gone", NOW);
    count = gp_wire_take_causes(peer.wire, &causes);
    CHECK(count == 2 && strstr(cause_of(causes, count, GP_CLASS_INTERNAL), "four"));
    CHECK(strcmp(cause_of(causes, count, GP_CLASS_TRANSPORT), "gone") == 0);
    peer_close(&peer);
}

int main(void)
{
    each_class_of_a_batch_has_its_cause();
    free_running_stream_ends_with_its_first_message();
    end_has_its_own_time();
    cause_is_that_of_the_last_class();
    goaway_refuses_what_is_above_its_last_id();
    goaway_says_why();
    ids_are_used_up();
    abort_ends_one_call();
    abort_all_ends_all();
    abort_all_leaves_what_was_said_as_ok();
    lost_connection_takes_its_calls_along();
    id_moves_to_another_connection();
    gp_bytes_fini(&script);
    return 0;
}
