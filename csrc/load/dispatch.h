/* Many writers, a few streams: messages are handed from writers to bidi streams that carry them, one at a
 * time each. A message that no stream takes in time goes to a queue on disk, and is delivered later.
 *
 *   create  start  ( stop )  wait_finished  result  destroy
 *
 * Writers are state machines, thousands to a thread: each thinks until its message is due, offers it, and
 * waits until it is taken or on disk. Each stream is a thread, and carries its next message when the one
 * before was answered. Every message has a sequence number, and what became of it is kept: at the end each
 * was either delivered straight or spilled, by count of the numbers, not of events.
 *
 * A crash of the process takes along what was not let go by its writer, and of what was: the messages in a
 * buffer, and one in the hand of each stream if it had not been written to its socket. What is on disk it
 * leaves.
 *
 * start and destroy by one caller, the others by any thread. */
#ifndef GP_LOAD_DISPATCH_H
#define GP_LOAD_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "client/client.h"
#include "load/spill.h"

struct gp_dispatch;
struct gp_error;

enum gp_dispatch_policy {
    GP_DISPATCH_ROUND_ROBIN, /* a queue for each stream; a writer's messages go to one after the other */
    GP_DISPATCH_SHARED,      /* one queue, from which every stream takes */
};

/* The last bytes of each message: its sequence number, big endian, and whether it may have come before. */
#define GP_DISPATCH_STAMP_BYTES 9u

struct gp_dispatch_opts {
    /* One for each stream: "wire", one connection. The first one's message, of GP_DISPATCH_STAMP_BYTES at
     * least, is what all carry. */
    const struct gp_client_opts *streams;
    uint32_t stream_count;
    enum gp_dispatch_policy policy;
    uint32_t buffer;         /* messages that a queue holds while their writers go on; 0: none */
    uint32_t writers;        /* 0: nothing is written, what is on disk is delivered */
    uint32_t writer_threads; /* 0: 1 */
    uint64_t period_ns;      /* between a writer's messages, if it is not held up */
    uint64_t duration_ns;    /* how long they write */
    uint64_t timeout_ns;     /* how long a message is offered */
    uint64_t drain_ns; /* then: to settle what is offered; and as long again to deliver what is on disk */
    uint64_t connect_timeout_ns;
    uint64_t seed;              /* of when each writer begins within its period */
    bool replay_idle;           /* deliver from disk also while a stream has nothing else to carry */
    bool replay_at_end;         /* and after the writers have stopped */
    struct gp_spill_opts spill; /* most_out is set here */
};

struct gp_dispatch_result {
    uint64_t began_ns, wrote_ns, finished_ns; /* writers' first and last moment, the end of all */
    uint64_t first_sequence;

    /* By sequence number. sent: let go by its writer. */
    uint64_t sent, delivered, spilled; /* straight, and by way of the disk */
    uint64_t unsent; /* its writer still held it at the end, for neither stream nor disk had room */
    uint64_t lost,
        doubled; /* sent, and neither or both: must be 0 (lost: a stream and the disk both failed) */

    uint64_t replayed, repeated; /* delivered from disk; of all deliveries, those marked as perhaps known */
    uint64_t streams_ended;      /* a stream's end before ours, as often as it happened */
    uint64_t locked, contended, contended_ns; /* of the queues: gp_dispatch_queue */
    uint32_t connected;
    struct gp_spill_stats spill;
    struct gp_histogram held_up;       /* of each message sent: from due until its writer could go on */
    struct gp_histogram delivery;      /* of those delivered straight: from due until answered */
    const struct gp_error *disk_error; /* why the disk did not take or give a message, lately; NULL */
};

/* Copies what it needs of opts, and opens the spill queue. */
int gp_dispatch_create(struct gp_dispatch **dispatch, const struct gp_dispatch_opts *opts,
                       struct gp_error *err);
int gp_dispatch_start(struct gp_dispatch *dispatch, struct gp_error *err);
void gp_dispatch_stop(struct gp_dispatch *dispatch); /* end at once: what is offered is spilled */
bool gp_dispatch_wait_finished(struct gp_dispatch *dispatch, uint64_t timeout_ns);

/* When it has finished. -1: a stream could not connect. The result lives as long as the dispatch. */
int gp_dispatch_result(struct gp_dispatch *dispatch, const struct gp_dispatch_result **result,
                       struct gp_error *err);
void gp_dispatch_destroy(struct gp_dispatch *dispatch);

#endif
