/* One call: its handler's state, the operations a handler has, and the events that drive it. A call is worked
 * on by one thread at a time, which the model sees to; nothing in here locks, but for the list of parked
 * calls.
 *
 *   C core -> queue: accepted -> model.run -> gp_call_enter -> limits -> model.begin -> gp_call_begin ->
 *                    behaviour -> method.begin ... gp_call_finish
 *   C core -> queue: an operation is complete -> model.deliver -> gp_call_step -> method.received / .sent
 */
#ifndef GP_SERVER_CALL_H
#define GP_SERVER_CALL_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/timer_heap.h"
#include "server/behaviour.h"
#include "server/fifo.h"

struct gp_call;
struct gp_queue;

/* What a completion queue can say about a call. At most one of each is outstanding. */
enum gp_event {
    GP_EVENT_ACCEPTED,
    GP_EVENT_CLOSED,   /* the call is over for C core: answered, cancelled, or its deadline has passed */
    GP_EVENT_RECEIVED, /* a message, or the end of the client's side */
    GP_EVENT_SENT,
    GP_EVENT_UNSENT,    /* the same operation, failed */
    GP_EVENT_ANSWERED,  /* the status is out, or never will be */
    GP_EVENT_FORWARDED, /* the next server has answered, or never will */
    GP_EVENT_WOKEN,     /* the delay is over, the call was released, or a limit lets it through */
    GP_EVENT_HOME,      /* its thread is done with it */
    GP_EVENT_COUNT
};

/* A method of the service (service.c). */
struct gp_method {
    const char *path;
    bool reads_first; /* a call is handed over with its request message */
    bool forwards;    /* a server that has a next one calls it; other methods it refuses */
    void (*begin)(struct gp_call *call);
    void (*received)(struct gp_call *call, bool message); /* false: the client has ended its side */
    void (*sent)(struct gp_call *call);
    void (*released)(struct gp_call *call); /* in place of begin, when the call was parked */
};

enum gp_phase {
    GP_PHASE_WORK,
    GP_PHASE_QUEUED, /* before the handler: in a limit, or in the model's own queue */
    GP_PHASE_DELAY,
    GP_PHASE_HOLD,
    GP_PHASE_ANSWER,
    GP_PHASE_REST
};

/* Where a call is with threads that are used again (model_workers.c). */
enum gp_place { GP_PLACE_ELSEWHERE, GP_PLACE_IN_LINE, GP_PLACE_WITH_WORKER };

struct gp_call {
    struct gp_queue *queue;
    const struct gp_method *method; /* NULL: one that nobody knows */
    grpc_call *core;
    struct gp_call *next;         /* among the unused */
    struct gp_fifo_link link;     /* among those that wait: parked, in a limit, for a worker */
    uint8_t tags[GP_EVENT_COUNT]; /* tags[event] == event: a tag's address says whose and what it is */

    /* Written by C core. */
    grpc_metadata_array metadata;
    grpc_call_details *details; /* only of calls posted for unknown methods */
    gpr_timespec deadline;
    grpc_byte_buffer *message; /* received last */
    int close_cancelled; /* set on any thread of C core's choice, before GP_EVENT_CLOSED comes out of the
                            queue */

    /* The handler's. */
    struct gp_behaviour behaviour;
    void *ballast;                  /* alloc_bytes */
    struct gp_forwarded *forwarded; /* the call to the next server; NULL: none */
    grpc_byte_buffer *reply;
    uint64_t deadline_ns;          /* UINT64_MAX: none */
    uint64_t accepted_ns;          /* only with a deadline */
    _Atomic uint64_t cancelled_ns; /* when it became known; 0: is not */
    uint32_t pending;              /* completions to come; the call may not go away before */
    int32_t response_size;
    uint32_t releases; /* that its queue had seen when the call came */
    enum gp_phase phase;
    uint8_t passed; /* limits */
    bool began;     /* the handler: it counts as running until it is done */
    bool reading, writing;
    bool headers_sent;
    bool pumping;  /* sends on its own, not in answer to messages */
    uint8_t burst; /* messages sent without a rest */
    bool cancelled;
    bool finishing; /* a status is decided and waits for a write to complete */
    bool done;      /* the handler has ended */
    grpc_status_code status;
    const char *status_message; /* NULL: none; text that lives until the status is sent */

    /* The model's. */
    struct gp_timer timer;
    enum gp_place place; /* under the workers' lock */
    struct gp_inbox {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        atomic_uint events;  /* a bit for each */
        uint64_t wake_at_ns; /* 0: not sleeping */
        bool attended;       /* a thread of its own works on it */
    } inbox;
};

struct gp_call *gp_call_create(struct gp_queue *queue);
void gp_call_destroy(struct gp_call *call);
void gp_call_reset(struct gp_call *call); /* as new; keeps the memory that the next call needs too */

static inline void *gp_call_tag(struct gp_call *call, enum gp_event event)
{
    return &call->tags[event];
}

static inline struct gp_call *gp_call_of_tag(void *tag, enum gp_event *event)
{
    uint8_t *place = tag;
    *event = *place;
    return (struct gp_call *)(void *)(place - *place - offsetof(struct gp_call, tags));
}

static inline struct gp_call *gp_call_of_link(struct gp_fifo_link *link)
{
    return (struct gp_call *)(void *)((char *)link - offsetof(struct gp_call, link));
}

/* For the queue, the limits and the models. */
void gp_call_watch(struct gp_call *call); /* ask for GP_EVENT_CLOSED: right after accepting */
void gp_call_refuse(struct gp_call *call, grpc_status_code status,
                    const char *message); /* no handler will begin */
void gp_call_reject(struct gp_call *call, grpc_status_code status,
                    const char *message);                     /* the same, for want of room: it is counted */
void gp_call_enter(struct gp_call *call);                     /* through the limits, to the handler */
void gp_call_queue(struct gp_call *call);                     /* it waits before its handler */
void gp_call_unqueue(struct gp_call *call);                   /* and no longer */
void gp_call_begin(struct gp_call *call);                     /* the handler starts, on the calling thread */
void gp_call_step(struct gp_call *call, enum gp_event event); /* and goes on */
void gp_call_post(grpc_call *core, void *tag);                /* let `tag` come out of the call's queue */

void gp_call_note_cancel(struct gp_call *call); /* as of now, unless it was known before */

static inline bool gp_call_over(const struct gp_call *call)
{
    return call->done && call->pending == 0;
}

/* Between the units of a call: call.c, call_enter.c, call_behave.c, call_ops.c. */
void gp_call_let_through(struct gp_call *call);  /* by the limit that it waited in */
void gp_call_give_up(struct gp_call *call);      /* it is over before its handler began */
void gp_call_leave(struct gp_call *call);        /* done: give back what limits and model gave */
void gp_call_woken(struct gp_call *call);        /* the time has come, or the release */
void gp_call_end(struct gp_call *call);          /* the handler has ended: it counts as finished from here */
void gp_call_abandon(struct gp_call *call);      /* the same, for a call that is no more: nothing to answer */
void gp_call_drop_message(struct gp_call *call); /* what was received last */

/* For methods. */
void gp_call_receive(struct gp_call *call);  /* leads to received() */
void gp_call_send(struct gp_call *call);     /* a response of response_size; leads to sent() */
void gp_call_pump(struct gp_call *call);     /* send, as one of many in a row */
void gp_call_reply(struct gp_call *call);    /* send after message_delay_ns; leads to sent() */
void gp_call_exchange(struct gp_call *call); /* send, then receive: one operation, leads to received() */
void gp_call_respond(struct gp_call *call);  /* the one response, and OK */
void gp_call_finish(struct gp_call *call, grpc_status_code status, const char *message);
bool gp_call_decode(struct gp_call *call); /* the message into response_size; false: finished with an error */

static inline bool gp_call_held(const struct gp_call *call)
{
    return call->phase == GP_PHASE_HOLD;
}

#endif
