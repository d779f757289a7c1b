/* The calls in flight on one connection of a mirror: their records, found by the id of their stream. Records
 * move when one is taken; indices stay. */
#ifndef GP_WIRE_STREAMS_H
#define GP_WIRE_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"
#include "wire/benchmark.h"

#define GP_STREAM_NONE UINT32_MAX
#define GP_STREAM_RUNS 256u /* answers of changing sizes that may wait on one stream */

struct gp_stream_run { /* answers in a row that are of one size */
    int32_t response_size;
    uint32_t count;
};

struct gp_stream {
    uint32_t id;       /* 0: free */
    uint32_t next;     /* in the queue of those that have something to send, or of the free ones */
    int32_t credit;    /* what the peer has allowed beyond its INITIAL_WINDOW_SIZE, less what was sent */
    uint32_t received; /* since we last allowed the peer more */
    enum gp_kind kind : 8;
    bool encoded : 1;     /* messages may be compressed */
    bool half_closed : 1; /* the peer has ended its side */
    bool asked : 1;       /* a whole message has come */
    bool headers_sent : 1;
    bool queued : 1;
    bool blocked : 1; /* has something to send, and the peer's window for it is used up */
    bool gone : 1;    /* ended while in the queue: freed when it gets to the front */
    struct gp_ask ask;
    int32_t wanted;              /* the size that the last whole message asked for */
    int32_t response_size;       /* of the answer that is being sent */
    uint32_t left;               /* bytes of it still to be sent */
    struct gp_stream_run run;    /* answers that follow it */
    struct gp_stream_more *more; /* and those of other sizes that follow these, as a rule NULL */
};

struct gp_streams { /* all zero at the beginning */
    struct gp_stream *records;
    struct gp_stream_slot *slots; /* a hash table with a load of at most a half */
    uint32_t slot_count, record_count, used, free, count;
};

/* A new record, for an id that is not in use; NULL when out of memory. */
struct gp_stream *gp_streams_take(struct gp_streams *streams, uint32_t id);

struct gp_stream *gp_streams_find(const struct gp_streams *streams, uint32_t id); /* NULL: none */

static inline uint32_t gp_streams_index(const struct gp_streams *streams, const struct gp_stream *stream)
{
    return (uint32_t)(stream - streams->records);
}

/* The id is no longer found; a record that is queued stays until it is given back. */
void gp_streams_forget(struct gp_streams *streams, struct gp_stream *stream);
void gp_streams_give(struct gp_streams *streams, struct gp_stream *stream);

/* One more answer to come. -1: out of memory, or more runs than may wait. */
int gp_stream_owe(struct gp_stream *stream, int32_t response_size);

/* Whether there is an answer to come: its size, and it is owed no more. */
bool gp_stream_next(struct gp_stream *stream, int32_t *response_size);

void gp_streams_fini(struct gp_streams *streams);

#endif
