/* What the parts of a dispatch share: dispatch.c (the conductor), dispatch_writers.c, dispatch_stream.c. Seen
 * by them alone. */
#ifndef GP_LOAD_DISPATCH_PARTS_H
#define GP_LOAD_DISPATCH_PARTS_H

#include <stdatomic.h>

#include "base/error.h"
#include "load/dispatch.h"
#include "load/dispatch_queue.h"
#include "load/due.h"
#include "load/thread.h"

enum dispatch_phase {
    DISPATCH_CONNECT,
    DISPATCH_WRITE,
    DISPATCH_SETTLE, /* no new messages; those offered are taken or spilled */
    DISPATCH_REPLAY, /* what is on disk is delivered */
    DISPATCH_FINISH, /* streams take nothing more, and wait for the answers that they are owed */
    DISPATCH_END,    /* streams put away what they have, and end */
    DISPATCH_CLOSE,  /* they have ended; so do the writers */
};

enum dispatch_fate { DISPATCH_SENT = 1, DISPATCH_DELIVERED = 2, DISPATCH_SPILLED = 4, DISPATCH_TWICE = 8 };

struct dispatch_freed { /* a writer that may go on */
    uint32_t writer;
    uint64_t sequence, due_ns, freed_ns;
};

/* A thread of writers: those whose number modulo the number of threads is its own. */
struct dispatch_writers {
    struct gp_dispatch *dispatch;
    pthread_t thread;
    uint32_t number;
    struct gp_due due; /* thinking writers */
    uint32_t *said;    /* messages of each so far, for the turn of round robin */
    uint8_t *message;  /* as it goes to the disk */
    uint64_t retry_ns; /* the disk had no room: not before this time again */
    struct gp_histogram held_up;
    struct dispatch_freed *taken; /* those freed last, when the lock is off again */

    pthread_mutex_t lock; /* over the rest, which other threads write */
    pthread_cond_t changed;
    struct dispatch_freed *freed;
    uint32_t freed_count;
    uint64_t wake_ns; /* when its sleep ends; 0: it is awake */
};

/* A stream's thread. */
struct dispatch_stream {
    struct gp_dispatch *dispatch;
    pthread_t thread;
    struct gp_client *client;
    struct gp_dispatch_queue *queue;
    bool cancelled;    /* its end is ours */
    bool open;         /* the call is in flight */
    uint64_t retry_ns; /* when to open it again */
    uint32_t answers;  /* that have come on it */
    uint8_t *message;  /* as it goes out */
    struct gp_spill_record record;
    struct gp_histogram delivery;
    uint64_t delivered, replayed, repeated, ended;
    struct gp_error err; /* of connecting */
    bool connected;
};

struct gp_dispatch {
    struct gp_dispatch_opts opts; /* without the pointers of the caller */
    uint8_t *message;             /* what all carry */
    uint32_t message_bytes;
    struct gp_spill *spill;
    struct gp_dispatch_queue *queues;
    uint32_t queue_count;
    struct dispatch_stream *streams;
    struct dispatch_writers *writers;
    uint32_t writer_threads;
    atomic_int phase;          /* enum dispatch_phase, rising */
    atomic_int stop;           /* asked for; what gp_client_connect looks at */
    atomic_uint connecting;    /* streams that are not yet */
    atomic_uint live_streams;  /* threads */
    atomic_uint settled;       /* threads of writers that say nothing new any more */
    atomic_uint offered;       /* writers that wait */
    _Atomic uint64_t given;    /* sequence numbers so far */
    uint64_t begin_ns, end_ns; /* of writing */
    _Atomic uint8_t *fates;    /* enum dispatch_fate, by sequence number */
    uint64_t fates_count;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* over the rest */
    pthread_cond_t changed;
    bool finished;
    struct gp_dispatch_result result;
    struct gp_error err, disk_error;
};

static inline enum dispatch_phase dispatch_phase(struct gp_dispatch *dispatch)
{
    return (enum dispatch_phase)atomic_load(&dispatch->phase);
}

/* dispatch_account.c */

/* What became of a message of this opening; those of earlier ones are known by the disk alone. */
void dispatch_note(struct gp_dispatch *dispatch, uint64_t sequence, enum dispatch_fate fate);

/* The message with its stamp, of message_bytes. */
void dispatch_stamp(const struct gp_dispatch *dispatch, uint8_t *message, uint64_t sequence, bool repeated);

void dispatch_keep_error(struct gp_dispatch *dispatch, const struct gp_error *err); /* of the disk */

/* To the disk. False: it has no room. */
bool dispatch_spill(struct gp_dispatch *dispatch, uint8_t *message, uint64_t sequence, bool repeated);

void dispatch_spill_buffered(struct gp_dispatch *dispatch); /* when all streams have ended */
void dispatch_take_account(struct gp_dispatch *dispatch);   /* when all threads have */

/* dispatch_writers.c */
int dispatch_writers_init(struct dispatch_writers *writers, struct gp_dispatch *dispatch, uint32_t number);
void dispatch_writers_fini(struct dispatch_writers *writers);
void *dispatch_writers_run(void *writers);
void dispatch_free_writer(struct gp_dispatch *dispatch, const struct gp_offer *offer, uint64_t now_ns);

/* dispatch_stream.c */
int dispatch_stream_init(struct dispatch_stream *stream, struct gp_dispatch *dispatch, uint32_t number,
                         const struct gp_client_opts *opts, struct gp_error *err);
void dispatch_stream_fini(struct dispatch_stream *stream);
void *dispatch_stream_run(void *stream);

#endif
