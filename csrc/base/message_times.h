/* When the messages of streams came: what a transport notes beside its calls, for whoever wants it. The owner
 * of a client makes one and hands it over in gp_client_opts (for kinds that get many messages; NULL for
 * others, so that unary calls cost nothing). A transport that has one calls begin and came, from the thread
 * that polls. Nothing is recorded before the owner switches it on, at the start of the measured window.
 *
 *   init  ( begin | came )*  on = true  ( begin | came )*  on = false  fini
 *
 * All spans are from the client's side, with the clock the transport reads anyway: messages that are found in
 * one read have come at the same time. */
#ifndef GP_BASE_MESSAGE_TIMES_H
#define GP_BASE_MESSAGE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/call.h"
#include "base/histogram.h"

struct gp_message_times {
    bool on;
    enum gp_kind kind;
    struct gp_histogram first;      /* from the call's sent_ns to its first message */
    struct gp_histogram gap;        /* server_stream, bidi_free: from one message to the next */
    struct gp_histogram round_trip; /* bidi: from the moment a message may be sent to its answer */
    uint64_t *marks;                /* by id of the call: when its last message came, at first its sent_ns */
};

/* Ids are below max_in_flight. -1 when out of memory. */
int gp_message_times_init(struct gp_message_times *times, enum gp_kind kind, uint32_t max_in_flight);
void gp_message_times_fini(struct gp_message_times *times);

/* A stream was sent. */
static inline void gp_message_times_begin(struct gp_message_times *times, uint64_t id, uint64_t sent_ns)
{
    times->marks[id] = sent_ns;
}

/* `count` messages have come on a call that had received `before` of them. */
void gp_message_times_came(struct gp_message_times *times, uint64_t id, uint32_t before, uint32_t count,
                           uint64_t now_ns);

#endif
