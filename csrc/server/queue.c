/* One completion queue and its thread. */
#include "server/queue.h"

#include <stdlib.h>
#include <string.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/models.h"
#include "server/server.h"
#include "server/service.h"

#define POSTED_PER_METHOD 64 /* with few a server turns serial */
#define POSTED_UNKNOWN 8
#define UNUSED_KEPT 64 /* more than that go back to the heap: a burst must not stay in the figures */

void gp_queue_init(struct gp_queue *queue, struct gp_server *server)
{
    memset(queue, 0, sizeof(*queue));
    queue->server = server;
    queue->core = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&queue->park_lock, NULL);
}

static struct gp_call *take_unused(struct gp_queue *queue)
{
    struct gp_call *call = queue->unused;
    if (!call)
        return gp_call_create(queue);
    queue->unused = call->next;
    queue->unused_count--;
    return call;
}

void gp_queue_retire(struct gp_call *call)
{
    struct gp_queue *queue = call->queue;
    gp_call_reset(call);
    gp_count(&queue->tally.retired, 1);
    if (queue->unused_count == UNUSED_KEPT) {
        gp_call_destroy(call);
        return;
    }
    call->next = queue->unused;
    queue->unused = call;
    queue->unused_count++;
}

void gp_queue_step(struct gp_call *call, enum gp_event event)
{
    gp_call_step(call, event);
    if (gp_call_over(call))
        gp_queue_retire(call);
}

/* Ask C core for one more call of a method; NULL: of those that are not ours. */
static void post(struct gp_queue *queue, const struct gp_method *method)
{
    struct gp_server *server = queue->server;
    struct gp_call *call = take_unused(queue);
    if (!call)
        return; /* out of memory: one fewer */
    void *tag = gp_call_tag(call, GP_EVENT_ACCEPTED);
    call->method = method;
    if (method) {
        grpc_server_request_registered_call(
            server->core, server->methods[method - gp_methods], &call->core, &call->deadline, &call->metadata,
            method->reads_first ? &call->message : NULL, queue->core, queue->core, tag);
        return;
    }
    call->details = malloc(sizeof(*call->details));
    if (!call->details)
        return;
    grpc_call_details_init(call->details);
    grpc_server_request_call(server->core, &call->core, call->details, &call->metadata, queue->core,
                             queue->core, tag);
}

static void refuse_unknown(struct gp_call *call)
{
    char *method = grpc_slice_to_c_string(call->details->method), message[300] = "unknown method ";
    strncat(message, method, sizeof(message) - strlen(message) - 1);
    gpr_free(method);
    gp_call_refuse(call, GRPC_STATUS_UNIMPLEMENTED, message);
}

static int read_behaviour(struct gp_call *call, struct gp_error *err)
{
    call->behaviour = call->queue->server->options->behaviour;
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *entry = &call->metadata.metadata[i];
        const char *key = (const char *)GRPC_SLICE_START_PTR(entry->key);
        size_t length = GRPC_SLICE_LENGTH(entry->key);
        if (gp_behaviour_is_key(key, length) &&
            gp_behaviour_set(&call->behaviour, key, length, (const char *)GRPC_SLICE_START_PTR(entry->value),
                             GRPC_SLICE_LENGTH(entry->value), err) < 0)
            return -1;
    }
    return 0;
}

static void note_deadline(struct gp_call *call, gpr_timespec deadline)
{
    deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
    call->deadline_ns = UINT64_MAX;
    if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0 || deadline.tv_sec < 0)
        return;
    call->deadline_ns = (uint64_t)deadline.tv_sec * GP_NS_PER_S + (uint64_t)deadline.tv_nsec;
    call->accepted_ns = gp_clock_now_ns();
}

static void accepted(struct gp_queue *queue, struct gp_call *call)
{
    struct gp_error err;
    post(queue, call->method);
    gp_count(&queue->tally.accepted, 1);
    call->releases = queue->releases;
    gp_call_watch(call);
    note_deadline(call, call->method ? call->deadline : call->details->deadline);
    if (!call->method)
        refuse_unknown(call);
    else if (read_behaviour(call, &err) < 0)
        gp_call_refuse(call, GRPC_STATUS_INVALID_ARGUMENT, err.message);
    else
        queue->server->model->run(call);
}

/* Whether the deadline is what ended a call. The client gives up at its own deadline, which is
 * earlier than ours by the way here, and timeouts are rounded up by at most 1 % on it; so a
 * little before ours counts too. */
static bool near_deadline(const struct gp_call *call, uint64_t now_ns)
{
    if (call->deadline_ns == UINT64_MAX)
        return false;
    uint64_t timeout_ns = call->deadline_ns > call->accepted_ns ? call->deadline_ns - call->accepted_ns : 0;
    uint64_t slack_ns = 5 * GP_NS_PER_MS + timeout_ns / 32;
    if (slack_ns > timeout_ns / 4)
        slack_ns = timeout_ns / 4;
    return now_ns + slack_ns >= call->deadline_ns;
}

/* A handler that said itself that the deadline has passed, as one does that heard it from the next server: it
 * can be faster than C core's word of the end. */
static bool told_of_deadline(const struct gp_call *call)
{
    return call->began && call->status == GRPC_STATUS_DEADLINE_EXCEEDED &&
           near_deadline(call, gp_clock_now_ns());
}

/* Count a cancellation and note when it became known, on the queue's thread: a busy handler learns of it
 * later. */
static void note_closed(struct gp_queue *queue, struct gp_call *call)
{
    if (!call->close_cancelled) {
        if (told_of_deadline(call))
            gp_count(&queue->tally.deadline_exceeded, 1);
        return;
    }
    gp_call_note_cancel(call);
    gp_count(near_deadline(call, call->cancelled_ns) ? &queue->tally.deadline_exceeded
                                                     : &queue->tally.cancelled,
             1);
}

void gp_queue_run(void *argument)
{
    struct gp_queue *queue = argument;
    const struct gp_model *model = queue->server->model;
    for (unsigned i = 0; i < POSTED_PER_METHOD; i++) {
        for (unsigned m = 0; m < GP_METHOD_COUNT; m++)
            post(queue, &gp_methods[m]);
    }
    for (unsigned i = 0; i < POSTED_UNKNOWN; i++)
        post(queue, NULL);
    for (;;) {
        grpc_event done = grpc_completion_queue_next(queue->core, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (done.type != GRPC_OP_COMPLETE)
            return;
        enum gp_event event;
        struct gp_call *call = gp_call_of_tag(done.tag, &event);
        if (event == GP_EVENT_ACCEPTED) {
            accepted(queue, call);
            continue;
        }
        if (event == GP_EVENT_CLOSED)
            note_closed(queue, call);
        else if (event == GP_EVENT_SENT && !done.success)
            event = GP_EVENT_UNSENT;
        model->deliver(call, event);
    }
}

/* --- the parked --- */

bool gp_queue_park(struct gp_queue *queue, struct gp_call *call)
{
    pthread_mutex_lock(&queue->park_lock);
    bool parks = call->releases == queue->releases;
    if (parks) {
        gp_fifo_push(&queue->parked, &call->link);
        gp_count(&queue->server->counters.parked, 1);
    }
    pthread_mutex_unlock(&queue->park_lock);
    return parks;
}

bool gp_queue_unpark(struct gp_queue *queue, struct gp_call *call)
{
    pthread_mutex_lock(&queue->park_lock);
    bool parked = gp_fifo_remove(&queue->parked, &call->link);
    if (parked)
        gp_count(&queue->server->counters.parked, -UINT64_C(1));
    pthread_mutex_unlock(&queue->park_lock);
    return parked;
}

void gp_queue_release(struct gp_queue *queue)
{
    pthread_mutex_lock(&queue->park_lock);
    queue->releases++;
    gp_count(&queue->server->counters.parked, -(uint64_t)queue->parked.count);
    struct gp_fifo_link *link = gp_fifo_take_all(&queue->parked);
    pthread_mutex_unlock(&queue->park_lock);
    /* None of them goes away, or into another list, before its GP_EVENT_WOKEN. */
    for (struct gp_fifo_link *next; link; link = next) {
        next = link->next;
        struct gp_call *call = gp_call_of_link(link);
        gp_call_post(call->core, gp_call_tag(call, GP_EVENT_WOKEN));
    }
}
