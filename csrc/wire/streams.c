/* streams: a slab of records, and an open-addressed table from ids to places in it (Robin Hood hashing: Celis
 * 1986). Ids of calls in flight are nearly consecutive, so halving them is as good as a hash: nearly all are
 * in their home slot, which ends a search at once, and a stream that stays while millions pass by costs its
 * neighbours a step. */
#include "wire/streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u

struct gp_stream_slot {
    uint32_t id, index; /* id 0: empty */
};

struct gp_stream_more {
    uint32_t count;
    struct gp_stream_run runs[GP_STREAM_RUNS];
};

static uint32_t home(const struct gp_streams *streams, uint32_t id)
{
    return id >> 1 & (streams->slot_count - 1);
}

static uint32_t after(const struct gp_streams *streams, uint32_t slot)
{
    return (slot + 1) & (streams->slot_count - 1);
}

/* How far from home what is in a slot has ended up. */
static uint32_t distance(const struct gp_streams *streams, uint32_t slot)
{
    return (slot - home(streams, streams->slots[slot].id)) & (streams->slot_count - 1);
}

/* In a run of slots nobody is nearer to home than whoever comes later and had to pass by: so a search that
 * has gone further than what it meets is in vain. */
static struct gp_stream_slot *search(const struct gp_streams *streams, uint32_t id)
{
    uint32_t slot = home(streams, id);

    for (uint32_t gone = 0;; gone++, slot = after(streams, slot)) {
        if (streams->slots[slot].id == id)
            return &streams->slots[slot];
        if (streams->slots[slot].id == 0 || distance(streams, slot) < gone)
            return NULL;
    }
}

/* Whoever is nearer to home gives way. */
static void put_slot(struct gp_streams *streams, struct gp_stream_slot entry)
{
    uint32_t slot = home(streams, entry.id);

    for (uint32_t gone = 0; streams->slots[slot].id != 0; gone++, slot = after(streams, slot)) {
        uint32_t its = distance(streams, slot);
        if (its < gone) {
            struct gp_stream_slot displaced = streams->slots[slot];
            streams->slots[slot] = entry;
            entry = displaced;
            gone = its;
        }
    }
    streams->slots[slot] = entry;
}

/* Those behind it move one nearer, up to the first that is at home. */
static void empty_slot(struct gp_streams *streams, uint32_t slot)
{
    uint32_t next = after(streams, slot);

    while (streams->slots[next].id != 0 && distance(streams, next) > 0) {
        streams->slots[slot] = streams->slots[next];
        slot = next;
        next = after(streams, next);
    }
    streams->slots[slot].id = 0;
}

struct gp_stream *gp_streams_find(const struct gp_streams *streams, uint32_t id)
{
    const struct gp_stream_slot *slot = streams->count > 0 && id != 0 ? search(streams, id) : NULL;

    return slot ? &streams->records[slot->index] : NULL;
}

static int grow_slots(struct gp_streams *streams)
{
    struct gp_streams grown = *streams;

    grown.slot_count = streams->slot_count ? streams->slot_count * 2 : FIRST_SLOTS;
    grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
    if (!grown.slots)
        return -1;
    for (uint32_t i = 0; i < streams->slot_count; i++)
        if (streams->slots[i].id != 0)
            put_slot(&grown, streams->slots[i]);
    free(streams->slots);
    *streams = grown;
    return 0;
}

static int grow_records(struct gp_streams *streams)
{
    uint32_t count = streams->record_count ? streams->record_count * 2 : FIRST_SLOTS / 2;
    struct gp_stream *records = realloc(streams->records, count * sizeof *records);

    if (!records)
        return -1;
    streams->records = records;
    streams->record_count = count;
    return 0;
}

/* Free records are chained by index + 1, so that 0 is the chain's end. */
static struct gp_stream *take_record(struct gp_streams *streams)
{
    struct gp_stream *stream;

    if (streams->free) {
        stream = &streams->records[streams->free - 1];
        streams->free = stream->next;
        return stream;
    }
    if (streams->used == streams->record_count && grow_records(streams) != 0)
        return NULL;
    return &streams->records[streams->used++];
}

struct gp_stream *gp_streams_take(struct gp_streams *streams, uint32_t id)
{
    if (streams->count >= streams->slot_count / 2 && grow_slots(streams) != 0)
        return NULL;
    struct gp_stream *stream = take_record(streams);
    if (!stream)
        return NULL;
    *stream = (struct gp_stream){.id = id, .next = GP_STREAM_NONE};
    put_slot(streams, (struct gp_stream_slot){.id = id, .index = gp_streams_index(streams, stream)});
    streams->count++;
    return stream;
}

void gp_streams_forget(struct gp_streams *streams, struct gp_stream *stream)
{
    empty_slot(streams, (uint32_t)(search(streams, stream->id) - streams->slots));
    streams->count--;
    free(stream->more);
    stream->more = NULL;
    stream->gone = true;
}

void gp_streams_give(struct gp_streams *streams, struct gp_stream *stream)
{
    assert(stream->gone && !stream->queued);
    stream->id = 0;
    stream->next = streams->free;
    streams->free = gp_streams_index(streams, stream) + 1;
}

static struct gp_stream_run *last_run(struct gp_stream *stream)
{
    struct gp_stream_more *more = stream->more;

    return more && more->count > 0 ? &more->runs[more->count - 1] : &stream->run;
}

int gp_stream_owe(struct gp_stream *stream, int32_t response_size)
{
    struct gp_stream_run *run = last_run(stream);

    if (run->count == 0 || run->response_size == response_size) {
        *run = (struct gp_stream_run){.response_size = response_size, .count = run->count + 1};
        return 0;
    }
    if (!stream->more)
        stream->more = calloc(1, sizeof *stream->more);
    if (!stream->more || stream->more->count == GP_STREAM_RUNS)
        return -1;
    stream->more->runs[stream->more->count++] =
        (struct gp_stream_run){.response_size = response_size, .count = 1};
    return 0;
}

bool gp_stream_next(struct gp_stream *stream, int32_t *response_size)
{
    struct gp_stream_more *more = stream->more;

    if (stream->run.count == 0)
        return false;
    *response_size = stream->run.response_size;
    if (--stream->run.count == 0 && more && more->count > 0) {
        stream->run = more->runs[0];
        memmove(more->runs, more->runs + 1, --more->count * sizeof *more->runs);
    }
    return true;
}

void gp_streams_fini(struct gp_streams *streams)
{
    for (uint32_t i = 0; i < streams->used; i++)
        if (streams->records[i].id != 0)
            free(streams->records[i].more);
    free(streams->records);
    free(streams->slots);
    *streams = (struct gp_streams){0};
}
