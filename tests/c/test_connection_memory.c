/* connection: when memory runs out, at every place where some is asked for. It ends, with a cause, and every
 * call comes back exactly once; nothing leaks (the sanitizer looks).
 *
 * Linked with --wrap for the functions below: allocations of our own libraries come by here first. */
#include "wire_talk.h"

#include "short_memory.h"

#define TALKS 60u
#define NEVER UINT32_MAX

static void creation_fails_cleanly(void)
{
    struct gp_request request = {.method = "/test.Service/Method", .message = "x", .message_bytes = 1};
    struct gp_calls_opts calls_opts = {4, &request};
    struct gp_calls *calls = NULL;
    struct gp_wire *wire = NULL;
    struct gp_error err;
    uint32_t failures = 0;

    for (bool done = false; !done; failures++) {
        short_memory_begin(failures, false);
        done = gp_calls_create(&calls, &calls_opts, &err) == 0 &&
               gp_wire_create(&wire,
                              &(struct gp_wire_opts){
                                  .calls = calls, .request = &request, .scheme = "http", .authority = "test"},
                              &err) == 0;
        short_memory_end();
        CHECK(done || (err.code == GP_ERROR_ENGINE && strstr(err.message, "out of memory")));
        gp_wire_destroy(wire);
        gp_calls_destroy(calls);
    }
    CHECK(failures > 10);
}

/* Say the talk with the allocation of that number failing, and all that follow if `for_good`. Returns how
 * many allocations there were. */
static uint32_t hold(const struct talk *talk, uint32_t failing, bool for_good)
{
    struct peer peer;
    struct iovec pieces[4];
    const uint8_t *data = gp_bytes_front(&talk->script);
    size_t left = gp_bytes_length(&talk->script);
    bool over = false;

    peer_open(&peer, &talk->opts);
    short_memory_begin(failing, for_good);
    for (uint32_t i = 0; i < talk->calls; i++)
        gp_wire_submit(peer.wire, i, NOW);
    for (size_t size; left > 0; data += size, left -= size) {
        size = left < 50 ? left : 50;
        over = gp_wire_receive(peer.wire, data, size, NOW) < 0;
        size_t count = gp_wire_gather(peer.wire, pieces, 4, NOW), bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += pieces[i].iov_len;
        gp_wire_written(peer.wire, bytes);
    }
    uint32_t asked = short_memory_end();
    if (over)
        CHECK(gp_wire_in_flight(peer.wire) == 0 && gp_wire_queued(peer.wire) == 0 &&
              gp_wire_cause(peer.wire)[0]);
    gp_wire_lost(peer.wire, "end", NOW);
    take_events(&peer);
    CHECK(peer.event_count == talk->calls);
    for (uint32_t i = 0; i < talk->calls; i++)
        CHECK(gp_calls_owner(peer.calls, i) == UINT32_MAX);
    peer_close(&peer);
    return asked;
}

int main(void)
{
    uint32_t failures = 0;

    creation_fails_cleanly();
    for (uint64_t seed = 0; seed < TALKS; seed++) {
        struct talk talk;
        talk_make(&talk, seed);
        uint32_t asked = hold(&talk, NEVER, false);
        for (uint32_t failing = 0; failing < asked; failing++, failures++) {
            hold(&talk, failing, false);
            hold(&talk, failing, true);
        }
        talk_free(&talk);
    }
    CHECK(failures > TALKS);
    return 0;
}
