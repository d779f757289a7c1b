/* A connection in the client role against a peer that says anything: at once, and cut as the fuzzer likes,
 * with the same outcome for every call; then with a caller who starts and ends calls in between, and every
 * call comes back exactly once.
 *
 * Input: kind and gzip; messages and parked; number of calls; seed of cuts and of what the caller does; then
 * what the peer says after its first SETTINGS. */
#include "../c/wire_peer.h"
#include "base/random.h"

#define CALLS_MOST 20u
#define HEAD 4u

struct input {
    struct peer_opts opts;
    uint32_t calls;
    uint8_t seed;
    const uint8_t *data;
    size_t size;
};

static struct input read_input(const uint8_t *data, size_t size)
{
    return (struct input){
        .opts = {.kind = (enum gp_kind)(data[0] % 5),
                 .gzip = data[0] & 0x40,
                 .message_bytes = data[0] & 0x80 ? 70000 : 10,
                 .messages = data[1] & 7,
                 .parked = data[1] & 8,
                 .stream_window = data[1] & 0x10 ? 300 : 0,
                 .connection_window = data[1] & 0x20 ? 70000 : 0,
                 .max_message_bytes = data[1] & 0x40 ? 100 : 0,
                 .max_header_bytes = data[1] & 0x80 ? 200 : 0},
        .calls = data[2] % CALLS_MOST + 1,
        .seed = data[3],
        .data = data + HEAD,
        .size = size - HEAD,
    };
}

static void begin(struct peer *peer, const struct input *input)
{
    peer_open(peer, &input->opts);
    for (uint32_t i = 0; i < input->calls; i++)
        gp_wire_submit(peer->wire, i, NOW);
}

/* Frames whole and no larger than the peer has allowed; what has been said so far is looked at and dropped.
 */
static void check_output(struct peer *peer)
{
    struct gp_frame frame;
    const uint8_t *payload;

    peer_listen(peer);
    while (peer_frame(peer, &frame, &payload))
        CHECK(frame.length <= gp_wire_settings(peer->wire)->max_frame_size ||
              frame.length <= GP_FRAME_DEFAULT_SIZE);
    gp_bytes_clear(&peer->said);
    peer->mark = 0;
}

static void sort_events(struct peer *peer)
{
    for (size_t i = 1; i < peer->event_count; i++)
        for (size_t at = i; at > 0 && peer->events[at - 1].id > peer->events[at].id; at--) {
            struct gp_event event = peer->events[at];
            peer->events[at] = peer->events[at - 1];
            peer->events[at - 1] = event;
        }
}

static void cuts_make_no_difference(const struct input *input)
{
    struct peer whole, cut;
    struct gp_random random;
    int result = 0, results = 0;

    gp_random_init(&random, input->seed);
    begin(&whole, input);
    begin(&cut, input);
    if (input->size > 0)
        result = gp_wire_receive(whole.wire, input->data, input->size, NOW);
    for (size_t at = 0, size; at < input->size; at += size) {
        size = 1 + gp_random_below(&random, 1 + input->seed);
        size = size < input->size - at ? size : input->size - at;
        results = gp_wire_receive(cut.wire, input->data + at, size, NOW);
    }
    take_events(&whole);
    take_events(&cut);
    sort_events(&whole);
    sort_events(&cut);
    CHECK(result == results && whole.event_count == cut.event_count);
    for (size_t i = 0; i < whole.event_count; i++) {
        const struct gp_event *a = &whole.events[i], *b = &cut.events[i];
        CHECK(a->id == b->id && a->class == b->class && a->refused == b->refused);
        CHECK(a->messages_received == b->messages_received);
    }
    check_output(&whole);
    check_output(&cut);
    peer_close(&whole);
    peer_close(&cut);
}

static void interfere(struct peer *peer, struct gp_random *random, uint32_t *submitted)
{
    uint64_t id = gp_random_below(random, CALLS_MOST);

    switch (gp_random_below(random, 8)) {
    case 0:
    case 1:
        if (gp_calls_owner(peer->calls, id) == UINT32_MAX) {
            gp_wire_submit(peer->wire, id, NOW);
            ++*submitted;
        }
        break;
    case 2:
        gp_wire_abort(peer->wire, id, GP_CLASS_DEADLINE_EXCEEDED, NOW);
        break;
    case 3:
        if (gp_random_below(random, 8) == 0)
            gp_wire_end(peer->wire, NOW);
        break;
    default:
        check_output(peer);
    }
}

static void every_call_comes_back_once(const struct input *input)
{
    struct peer peer;
    struct gp_random random;
    uint32_t submitted = input->calls, back = 0;

    gp_random_init(&random, input->seed + 1000u);
    begin(&peer, input);
    for (size_t at = 0, size; at < input->size; at += size) {
        size = 1 + gp_random_below(&random, 80);
        size = size < input->size - at ? size : input->size - at;
        gp_wire_receive(peer.wire, input->data + at, size, NOW);
        interfere(&peer, &random, &submitted);
        take_events(&peer);
        back += (uint32_t)peer.event_count;
        peer.event_count = 0;
    }
    gp_wire_lost(peer.wire, "end", NOW);
    take_events(&peer);
    CHECK(back + peer.event_count == submitted);
    peer_close(&peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    struct input input = read_input(data, size);
    cuts_make_no_difference(&input);
    every_call_comes_back_once(&input);
    return 0;
}
