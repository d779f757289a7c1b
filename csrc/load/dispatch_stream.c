/* dispatch_stream: a stream's thread. It takes a message, sends it, and waits for its answer before it takes
 * the next; a message that it could not bring to its answer goes to the disk, marked if it may have arrived.
 */
#include "load/dispatch_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define LOOK_NS (20 * GP_NS_PER_MS)
#define IDLE_NS GP_NS_PER_MS /* without an offer for so long a stream turns to the disk */

/* The message that it has in hand. */
struct hand {
    uint64_t sequence, due_ns, taken_ns;
    bool from_disk;
    bool repeated; /* it may have arrived before */
};

int dispatch_stream_init(struct dispatch_stream *stream, struct gp_dispatch *dispatch, uint32_t number,
                         const struct gp_client_opts *opts, struct gp_error *err)
{
    struct gp_client_opts own = *opts;

    *stream = (struct dispatch_stream){.dispatch = dispatch};
    stream->queue = &dispatch->queues[number % dispatch->queue_count];
    gp_histogram_init(&stream->delivery);
    stream->message = malloc(dispatch->message_bytes);
    if (!stream->message)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a stream");
    own.connections = own.max_in_flight = 1;
    own.request.parked = own.request.fed = true;
    own.request.messages = 0;
    return gp_client_create(&stream->client, &own, err);
}

void dispatch_stream_fini(struct dispatch_stream *stream)
{
    if (!stream->dispatch)
        return;
    gp_client_destroy(stream->client);
    gp_histogram_fini(&stream->delivery);
    free(stream->message);
}

/* --- the call ---------------------------------------------------------------------------------- */

static void look(struct dispatch_stream *stream, uint64_t until_ns)
{
    struct gp_event event;

    if (gp_client_poll(stream->client, &event, 1, until_ns) > 0) {
        stream->open = false;
        stream->answers = event.messages_received;
        stream->retry_ns = gp_clock_now_ns() + LOOK_NS;
        stream->ended += !stream->cancelled;
    } else if (stream->open) {
        stream->answers = gp_client_answers(stream->client, 0);
    }
}

static bool keep_open(struct dispatch_stream *stream)
{
    const uint64_t id = 0;

    if (!stream->open && gp_clock_now_ns() >= stream->retry_ns) {
        gp_client_submit(stream->client, &id, 1);
        stream->open = true;
        stream->answers = 0;
    }
    return stream->open;
}

/* --- the next message -------------------------------------------------------------------------- */

static bool take_offer(struct dispatch_stream *stream, uint64_t patience_ns, struct hand *hand)
{
    struct gp_dispatch *dispatch = stream->dispatch;
    uint64_t until_ns = patience_ns > 0 ? gp_clock_now_ns() + patience_ns : 0;
    struct gp_offer taken, freed;

    if (!gp_dispatch_queue_take(stream->queue, until_ns, &taken, &freed))
        return false;
    *hand = (struct hand){.sequence = taken.sequence, .due_ns = taken.due_ns, .taken_ns = gp_clock_now_ns()};
    if (freed.sequence != 0)
        dispatch_free_writer(dispatch, &freed, hand->taken_ns);
    dispatch_stamp(dispatch, stream->message, taken.sequence, false);
    return true;
}

static bool take_from_disk(struct dispatch_stream *stream, struct hand *hand)
{
    struct gp_dispatch *dispatch = stream->dispatch;
    struct gp_spill_record *record = &stream->record;
    struct gp_error err;
    int status = gp_spill_take(dispatch->spill, record, &err);

    if (status < 0)
        dispatch_keep_error(dispatch, &err);
    if (status <= 0)
        return false;
    *hand = (struct hand){.sequence = record->sequence,
                          .taken_ns = gp_clock_now_ns(),
                          .from_disk = true,
                          .repeated = record->repeated};
    return true;
}

static bool take_next(struct dispatch_stream *stream, enum dispatch_phase phase, struct hand *hand)
{
    const struct gp_dispatch_opts *opts = &stream->dispatch->opts;
    bool at_end = phase == DISPATCH_REPLAY;
    bool from_disk = at_end ? opts->replay_at_end : opts->replay_idle && phase >= DISPATCH_WRITE;

    if (take_offer(stream, at_end ? 0 : from_disk ? IDLE_NS : LOOK_NS, hand))
        return true;
    return from_disk && take_from_disk(stream, hand);
}

/* --- carrying it ------------------------------------------------------------------------------- */

/* It goes out as it was written but for the mark. */
static void stamp_repeated(struct gp_spill_record *record, bool repeated)
{
    if (record->size > 0)
        record->message[record->size - 1] = repeated;
}

static bool send_hand(struct dispatch_stream *stream, const struct hand *hand)
{
    struct gp_dispatch *dispatch = stream->dispatch;
    struct gp_spill_record *record = &stream->record;

    if (hand->from_disk) {
        stamp_repeated(record, hand->repeated);
        return gp_client_feed(stream->client, 0, record->message, record->size);
    }
    dispatch_stamp(dispatch, stream->message, hand->sequence, hand->repeated);
    return gp_client_feed(stream->client, 0, stream->message, dispatch->message_bytes);
}

static void delivered(struct dispatch_stream *stream, const struct hand *hand)
{
    stream->repeated += hand->repeated;
    if (hand->from_disk) {
        gp_spill_done(stream->dispatch->spill, &stream->record);
        stream->replayed++;
        return;
    }
    dispatch_note(stream->dispatch, hand->sequence, DISPATCH_DELIVERED);
    gp_histogram_record(&stream->delivery, gp_clock_now_ns() - hand->due_ns);
    stream->delivered++;
}

/* To the disk, or back to it. False: there is no room. */
static bool put_away(struct dispatch_stream *stream, const struct hand *hand)
{
    if (!hand->from_disk)
        return dispatch_spill(stream->dispatch, stream->message, hand->sequence, hand->repeated);
    gp_spill_give_back(stream->dispatch->spill, &stream->record);
    return true;
}

/* Until it was answered, or put away: for want of a stream within the time of a hand-off, or at the end. When
 * the disk has no room either it stays in hand. */
static void carry(struct dispatch_stream *stream, struct hand *hand)
{
    uint64_t patience_ns = hand->taken_ns + stream->dispatch->opts.timeout_ns;
    uint32_t before = 0;
    bool sent = false;

    for (;;) {
        bool over = dispatch_phase(stream->dispatch) >= DISPATCH_END;

        if (!sent && !over && keep_open(stream)) {
            before = stream->answers;
            sent = send_hand(stream, hand);
        }
        look(stream, over ? 0 : gp_clock_now_ns() + (sent ? LOOK_NS : GP_NS_PER_MS));
        if (sent && stream->answers != before) {
            delivered(stream, hand);
            return;
        }
        if (sent && (over || !stream->open)) {
            hand->repeated = true;
            sent = false;
        }
        if (!sent && (over || gp_clock_now_ns() >= patience_ns) && (put_away(stream, hand) || over))
            return;
    }
}

/* --- the thread -------------------------------------------------------------------------------- */

static bool connect_stream(struct dispatch_stream *stream)
{
    struct gp_dispatch *dispatch = stream->dispatch;

    stream->connected = gp_client_connect(stream->client, dispatch->opts.connect_timeout_ns, &dispatch->stop,
                                          &stream->err) == 0;
    atomic_fetch_sub(&dispatch->connecting, 1);
    return stream->connected;
}

static void attend(struct dispatch_stream *stream)
{
    enum dispatch_phase phase;
    struct hand hand;

    while ((phase = dispatch_phase(stream->dispatch)) < DISPATCH_FINISH) {
        if (!keep_open(stream) || !gp_client_feeds(stream->client, 0, stream->dispatch->message_bytes)) {
            look(stream, gp_clock_now_ns() + LOOK_NS);
        } else if (take_next(stream, phase, &hand)) {
            carry(stream, &hand);
        } else if (phase == DISPATCH_REPLAY) {
            return; /* there is nothing left */
        } else {
            look(stream, 0);
        }
    }
}

void *dispatch_stream_run(void *argument)
{
    struct dispatch_stream *stream = argument;

    if (connect_stream(stream))
        attend(stream);
    stream->cancelled = true;
    gp_client_cancel_all(stream->client);
    look(stream, 0); /* which also writes what it says */
    atomic_fetch_sub(&stream->dispatch->live_streams, 1);
    return NULL;
}
