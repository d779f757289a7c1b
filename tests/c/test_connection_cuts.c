/* connection: a conversation means the same however its bytes are cut; and whatever is made of it, every call
 * comes back exactly once. */
#include "wire_talk.h"

#define TALKS 1500u
#define MUTATIONS 4000u

/* --- the same in one piece and in many --------------------------------------------------------- */

enum cut { AT_ONCE, BY_BYTES, AT_RANDOM };

struct outcome {
    struct gp_event events[TALK_CALLS]; /* by id */
    bool ended[TALK_CALLS];
    int result;
    struct gp_bytes said;
    struct gp_wire_stats stats;
};

static void note_events(struct peer *peer, struct outcome *outcome)
{
    take_events(peer);
    for (size_t i = 0; i < peer->event_count; i++) {
        uint64_t id = peer->events[i].id;
        CHECK(id < TALK_CALLS && !outcome->ended[id]);
        outcome->ended[id] = true;
        outcome->events[id] = peer->events[i];
    }
    peer->event_count = 0;
}

static size_t next_size(enum cut cut, struct gp_random *random, size_t left)
{
    size_t size = cut == AT_ONCE ? left : cut == BY_BYTES ? 1 : 1 + gp_random_below(random, 60);

    return size < left ? size : left;
}

/* No peer answers on a stream before it is opened. That may be when another has ended; then a frame is the
 * most that comes at once. */
static size_t frame_end(const uint8_t *data, size_t *frame_left)
{
    if (*frame_left == 0)
        *frame_left = GP_FRAME_HEADER_BYTES + gp_frame_read(data).length;
    return *frame_left;
}

static void hold(const struct talk *talk, enum cut cut, uint64_t seed, struct outcome *outcome)
{
    struct peer peer;
    struct gp_random random;
    const uint8_t *data = gp_bytes_front(&talk->script);
    size_t left = gp_bytes_length(&talk->script), frame_left = 0;

    *outcome = (struct outcome){0};
    gp_random_init(&random, seed);
    peer_open(&peer, &talk->opts);
    for (uint32_t i = 0; i < talk->calls; i++)
        gp_wire_submit(peer.wire, i, NOW);
    CHECK(gp_wire_receive(peer.wire, data, TALK_SETTINGS, NOW) == 0); /* opens the streams */
    data += TALK_SETTINGS;
    left -= TALK_SETTINGS;
    while (left > 0) {
        size_t size = next_size(cut, &random, talk->limited ? frame_end(data, &frame_left) : left);
        outcome->result = gp_wire_receive(peer.wire, data, size, NOW);
        frame_left -= talk->limited ? size : 0;
        data += size;
        left -= size;
        note_events(&peer, outcome);
    }
    peer_listen(&peer);
    note_events(&peer, outcome);
    gp_wire_stats(peer.wire, &outcome->stats);
    outcome->said = peer.said;
    peer.said = (struct gp_bytes){0};
    peer_close(&peer);
}

/* A call that the client ends by itself, or that waits for a stream, looks a little different on the wire:
 * when the peer's end of it comes along in the same batch, no reset is needed. */
static bool says_the_same(const struct talk *talk, const struct outcome *a)
{
    if (talk->opts.kind == GP_KIND_SERVER_STREAM || talk->opts.kind == GP_KIND_BIDI_FREE || talk->limited)
        return false;
    for (uint32_t i = 0; i < talk->calls; i++)
        if (a->ended[i] && a->events[i].class == GP_CLASS_UNIMPLEMENTED)
            return false;
    return true;
}

static void compare(const struct talk *talk, const struct outcome *a, const struct outcome *b)
{
    CHECK(a->result == b->result);
    for (uint32_t i = 0; i < talk->calls; i++) {
        CHECK(a->ended[i] == b->ended[i]);
        CHECK(a->events[i].class == b->events[i].class && a->events[i].refused == b->events[i].refused);
        CHECK(a->events[i].messages_received == b->events[i].messages_received);
        CHECK(a->events[i].sent_ns == b->events[i].sent_ns && a->events[i].done_ns == b->events[i].done_ns);
    }
    CHECK(a->stats.messages_received == b->stats.messages_received && a->stats.refused == b->stats.refused);
    CHECK(a->stats.inflated_blocks == b->stats.inflated_blocks || a->result < 0);
    if (!says_the_same(talk, a))
        return;
    CHECK(gp_bytes_length(&a->said) == gp_bytes_length(&b->said));
    CHECK(memcmp(gp_bytes_front(&a->said), gp_bytes_front(&b->said), gp_bytes_length(&a->said)) == 0);
}

static void cuts_make_no_difference(uint64_t seed, uint64_t *classes)
{
    struct talk talk;
    struct outcome whole, bytes, random;

    talk_make(&talk, seed);
    hold(&talk, AT_ONCE, seed, &whole);
    hold(&talk, BY_BYTES, seed, &bytes);
    hold(&talk, AT_RANDOM, seed, &random);
    compare(&talk, &whole, &bytes);
    compare(&talk, &whole, &random);
    for (uint32_t i = 0; i < talk.calls; i++)
        classes[whole.ended[i] ? whole.events[i].class : GP_CLASS_COUNT]++;
    gp_bytes_fini(&whole.said);
    gp_bytes_fini(&bytes.said);
    gp_bytes_fini(&random.said);
    talk_free(&talk);
}

/* --- anything at all --------------------------------------------------------------------------- */

static void mutate(struct gp_bytes *script, struct gp_random *random)
{
    size_t length = gp_bytes_length(script), at = gp_random_below(random, length);
    size_t size = gp_random_below(random, 40), rest;

    if (size > length - at)
        size = length - at;
    rest = length - at - size;
    switch (gp_random_below(random, 4)) {
    case 0:
        script->data[at] ^= (uint8_t)(1u << gp_random_below(random, 8));
        break;
    case 1:
        script->data[at] = (uint8_t)gp_random_u64(random);
        break;
    case 2: /* leave a part out */
        memmove(script->data + at, script->data + at + size, rest);
        script->end -= size;
        break;
    case 3: /* say a part again */
        CHECK(gp_bytes_reserve(script, size) == 0);
        memmove(script->data + at + size, script->data + at, length - at);
        script->end += size;
        break;
    }
}

/* What a caller does in between: new calls, ends, writes. */
static void interfere(struct peer *peer, struct gp_random *random, uint32_t *submitted, uint32_t *back)
{
    struct iovec pieces[4];
    uint64_t id = gp_random_below(random, PEER_CALLS);
    size_t count, bytes = 0;

    switch (gp_random_below(random, 8)) {
    case 0:
        if (gp_calls_owner(peer->calls, id) == UINT32_MAX) {
            gp_wire_submit(peer->wire, id, NOW);
            ++*submitted;
        }
        break;
    case 1:
        gp_wire_abort(peer->wire, id, GP_CLASS_DEADLINE_EXCEEDED, NOW);
        break;
    case 2:
        if (one_in(random, 20))
            gp_wire_end(peer->wire, NOW);
        if (one_in(random, 20))
            gp_wire_abort_all(peer->wire, GP_CLASS_CANCELLED, NOW);
        gp_wire_ping(peer->wire);
        break;
    default:
        count = gp_wire_gather(peer->wire, pieces, 4, NOW);
        for (size_t i = 0; i < count; i++)
            bytes += pieces[i].iov_len;
        gp_wire_written(peer->wire, gp_random_below(random, bytes + 1));
    }
    take_events(peer);
    *back += (uint32_t)peer->event_count;
    peer->event_count = 0;
}

static void every_call_comes_back_once(uint64_t seed)
{
    struct talk talk;
    struct peer peer;
    struct gp_random random;
    uint32_t submitted, back = 0;

    gp_random_init(&random, seed ^ 0x5eed);
    talk_make(&talk, seed);
    for (uint64_t n = gp_random_below(&random, 4); n > 0; n--)
        mutate(&talk.script, &random);
    peer_open(&peer, &talk.opts);
    for (submitted = 0; submitted < talk.calls; submitted++)
        gp_wire_submit(peer.wire, submitted, NOW);
    while (gp_bytes_length(&talk.script) > 0) {
        size_t size = next_size(AT_RANDOM, &random, gp_bytes_length(&talk.script));
        gp_wire_receive(peer.wire, gp_bytes_front(&talk.script), size, NOW);
        gp_bytes_take(&talk.script, size);
        interfere(&peer, &random, &submitted, &back);
    }
    gp_wire_lost(peer.wire, "end", NOW);
    take_events(&peer);
    CHECK(back + peer.event_count == submitted);
    for (uint32_t i = 0; i < PEER_CALLS; i++)
        CHECK(gp_calls_owner(peer.calls, i) == UINT32_MAX);
    peer_listen(&peer);
    peer_close(&peer);
    talk_free(&talk);
}

int main(void)
{
    uint64_t classes[GP_CLASS_COUNT + 1] = {0};

    for (uint64_t seed = 0; seed < TALKS; seed++)
        cuts_make_no_difference(seed, classes);
    /* What was compared is not all of one sort. */
    CHECK(classes[GP_CLASS_OK] > TALKS / 2 && classes[GP_CLASS_TRANSPORT] > 0 &&
          classes[GP_CLASS_INTERNAL] > 0);
    CHECK(classes[GP_CLASS_UNIMPLEMENTED] > 0 && classes[GP_CLASS_UNKNOWN] > 0 &&
          classes[GP_CLASS_COUNT] > 0);
    for (uint64_t seed = 0; seed < MUTATIONS; seed++)
        every_call_comes_back_once(seed);
    return 0;
}
