/* dispatch_account: messages by their sequence numbers: their stamps, their way to the disk, and what became
 * of each of them. */
#include "load/dispatch_parts.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

void dispatch_note(struct gp_dispatch *dispatch, uint64_t sequence, enum dispatch_fate fate)
{
    _Atomic uint8_t *place = &dispatch->fates[sequence - dispatch->result.first_sequence];

    assert(sequence - dispatch->result.first_sequence < dispatch->fates_count);
    if (atomic_fetch_or(place, fate) & fate)
        atomic_fetch_or(place, DISPATCH_TWICE);
}

void dispatch_stamp(const struct gp_dispatch *dispatch, uint8_t *message, uint64_t sequence, bool repeated)
{
    uint8_t *stamp = message + dispatch->message_bytes - GP_DISPATCH_STAMP_BYTES;

    memcpy(message, dispatch->message, dispatch->message_bytes - GP_DISPATCH_STAMP_BYTES);
    for (int i = 0; i < 8; i++)
        stamp[i] = (uint8_t)(sequence >> (56 - 8 * i));
    stamp[8] = repeated;
}

void dispatch_keep_error(struct gp_dispatch *dispatch, const struct gp_error *err)
{
    pthread_mutex_lock(&dispatch->lock);
    dispatch->disk_error = *err;
    pthread_mutex_unlock(&dispatch->lock);
}

bool dispatch_spill(struct gp_dispatch *dispatch, uint8_t *message, uint64_t sequence, bool repeated)
{
    struct gp_error err;

    dispatch_stamp(dispatch, message, sequence, repeated);
    if (gp_spill_append(dispatch->spill, sequence, repeated, message, dispatch->message_bytes, &err) < 0) {
        dispatch_keep_error(dispatch, &err);
        return false;
    }
    dispatch_note(dispatch, sequence, DISPATCH_SPILLED);
    return true;
}

/* Messages that were let into a buffer and that no stream has taken. */
void dispatch_spill_buffered(struct gp_dispatch *dispatch)
{
    struct gp_offer left;

    for (uint32_t i = 0; i < dispatch->queue_count; i++)
        while (gp_dispatch_queue_unbuffer(&dispatch->queues[i], &left))
            dispatch_spill(dispatch, dispatch->streams[0].message, left.sequence, false);
}

static void count_fates(struct gp_dispatch *dispatch, struct gp_dispatch_result *result)
{
    uint64_t given = atomic_load(&dispatch->given);

    for (uint64_t i = 0; i < given; i++) {
        uint8_t fate = atomic_load_explicit(&dispatch->fates[i], memory_order_relaxed);
        bool straight = fate & DISPATCH_DELIVERED, spilled = fate & DISPATCH_SPILLED;

        result->sent += (fate & DISPATCH_SENT) != 0;
        result->delivered += straight;
        result->spilled += spilled;
        result->unsent += fate == 0;
        result->lost += fate == DISPATCH_SENT;
        result->doubled += fate & DISPATCH_TWICE || (straight && spilled);
    }
}

static void add_streams(struct gp_dispatch *dispatch, struct gp_dispatch_result *result)
{
    for (uint32_t i = 0; i < dispatch->opts.stream_count; i++) {
        const struct dispatch_stream *stream = &dispatch->streams[i];

        gp_histogram_add(&result->delivery, &stream->delivery);
        result->replayed += stream->replayed;
        result->repeated += stream->repeated;
        result->streams_ended += stream->ended;
        result->connected += stream->connected;
    }
}

void dispatch_take_account(struct gp_dispatch *dispatch)
{
    struct gp_dispatch_result *result = &dispatch->result;

    result->began_ns = dispatch->begin_ns;
    result->finished_ns = gp_clock_now_ns();
    count_fates(dispatch, result);
    add_streams(dispatch, result);
    for (uint32_t i = 0; i < dispatch->writer_threads; i++)
        gp_histogram_add(&result->held_up, &dispatch->writers[i].held_up);
    for (uint32_t i = 0; i < dispatch->queue_count; i++) {
        result->locked += dispatch->queues[i].locked;
        result->contended += dispatch->queues[i].contended;
        result->contended_ns += dispatch->queues[i].contended_ns;
    }
    gp_spill_stats(dispatch->spill, &result->spill);
    result->disk_error = dispatch->disk_error.code ? &dispatch->disk_error : NULL;
}
