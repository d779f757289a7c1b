/* A connection in the mirror role against a client that says anything, cut as the fuzzer likes and heard now
 * and then: whole and lawful frames come out, of bounded size, nothing after GOAWAY, and no call is lost
 * count of.
 *
 * Input: seed of cuts and of what is heard when; then what the client says after preface and SETTINGS. */
#include <string.h>

#include "../c/check.h"
#include "base/bytes.h"
#include "base/random.h"
#include "wire/frame.h"
#include "wire/responder.h"

#define HEARD_MOST (4u << 20) /* endless streams with wide windows are not listened to for ever */
#define PENDING_MOST (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client {
    struct gp_responder *responder;
    struct gp_random random;
    struct gp_bytes heard;
    size_t heard_in_all;
    bool goaway;
};

/* Whole frames are looked at and dropped. */
static void look(struct client *client)
{
    while (gp_bytes_length(&client->heard) >= GP_FRAME_HEADER_BYTES) {
        struct gp_frame frame = gp_frame_read(gp_bytes_front(&client->heard));
        if (gp_bytes_length(&client->heard) < GP_FRAME_HEADER_BYTES + frame.length)
            return;
        CHECK(!client->goaway && frame.length <= 256u << 10);
        CHECK(frame.type == GP_FRAME_DATA || frame.type == GP_FRAME_HEADERS ||
              frame.type == GP_FRAME_RST_STREAM || frame.type == GP_FRAME_SETTINGS ||
              frame.type == GP_FRAME_PING || frame.type == GP_FRAME_GOAWAY ||
              frame.type == GP_FRAME_WINDOW_UPDATE);
        CHECK(frame.type != GP_FRAME_DATA || (frame.stream_id % 2 == 1 && frame.length > 0));
        client->goaway = frame.type == GP_FRAME_GOAWAY;
        gp_bytes_take(&client->heard, GP_FRAME_HEADER_BYTES + frame.length);
    }
}

/* Read up to so many bytes of what there is to be read; whether there was anything. */
static bool hear(struct client *client, size_t most)
{
    struct iovec pieces[3];
    size_t count = gp_responder_gather(client->responder, pieces, 3), size = 0;

    CHECK(gp_responder_pending(client->responder) < PENDING_MOST + client->heard_in_all);
    for (size_t i = 0; i < count && size < most; i++) {
        size_t part = pieces[i].iov_len < most - size ? pieces[i].iov_len : most - size;
        CHECK(gp_bytes_append(&client->heard, pieces[i].iov_base, part) == 0);
        size += part;
    }
    gp_responder_written(client->responder, size);
    client->heard_in_all += size;
    look(client);
    return size > 0;
}

/* Say it, in copies exactly as large as each piece. Returns whether the connection lives on. */
static bool say(struct client *client, const uint8_t *data, size_t size)
{
    bool over = false;

    while (size > 0 && !over) {
        size_t part = 1 + gp_random_below(&client->random, gp_random_below(&client->random, 4) ? size : 30);
        part = part < size ? part : size;
        uint8_t *copy = malloc(part);
        CHECK(copy);
        memcpy(copy, data, part);
        over = gp_responder_receive(client->responder, copy, part) != 0;
        free(copy);
        if (gp_random_below(&client->random, 3) == 0 && client->heard_in_all < HEARD_MOST)
            hear(client, 1 + gp_random_below(&client->random, 300000));
        data += part;
        size -= part;
    }
    return !over;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t settings[GP_FRAME_HEADER_BYTES] = {0, 0, 0, GP_FRAME_SETTINGS};
    struct gp_responder_counts counts = {0};
    struct client client = {0};

    if (size == 0)
        return 0;
    CHECK(gp_responder_create(&client.responder, &counts, NULL) == 0);
    gp_random_init(&client.random, data[0]);
    gp_bytes_init(&client.heard);
    bool lives = say(&client, (const uint8_t *)gp_frame_preface, GP_FRAME_PREFACE_BYTES) &&
                 say(&client, settings, sizeof settings) && say(&client, data + 1, size - 1);
    while (client.heard_in_all < HEARD_MOST && hear(&client, SIZE_MAX))
        ;
    CHECK(client.heard_in_all >= HEARD_MOST ||
          (gp_bytes_length(&client.heard) == 0 && client.goaway == !lives));
    CHECK(counts.started == counts.finished + counts.running && counts.running <= counts.peak_running);
    gp_responder_destroy(client.responder);
    CHECK(counts.running == 0 && counts.started == counts.finished && counts.cancelled <= counts.finished);
    gp_bytes_fini(&client.heard);
    return 0;
}
