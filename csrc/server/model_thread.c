/* ThreadPerCall: an accepted call gets a thread, which lives as long as its handler. */
#include "server/models.h"

#include <pthread.h>

#include "server/attend.h"
#include "server/server.h"

static void *thread_main(void *argument)
{
    struct gp_call *call = argument;
    struct gp_stacks *stacks = &call->queue->server->stacks;
    struct gp_stack stack;
    gp_stacks_enter(stacks, &stack);
    gp_attend(call, gp_call_enter);
    gp_stacks_leave(stacks, &stack);
    return NULL;
}

int gp_model_thread_prepare(struct gp_server *server)
{
    pthread_attr_init(&server->call_thread);
    pthread_attr_setdetachstate(&server->call_thread, PTHREAD_CREATE_DETACHED);
    size_t bytes = server->options->stack_bytes;
#ifdef __SANITIZE_ADDRESS__
    bytes += 1u << 20; /* instrumented frames are many times as large */
#endif
    return pthread_attr_setstacksize(&server->call_thread, bytes);
}

void gp_model_thread_run(struct gp_call *call)
{
    pthread_t thread;
    call->inbox.attended = true;
    if (pthread_create(&thread, &call->queue->server->call_thread, thread_main, call) == 0)
        return;
    call->inbox.attended = false;
    gp_count(&call->queue->tally.threads_exhausted, 1);
    gp_call_reject(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no thread for this call: the system has no more");
}

const struct gp_model gp_model_thread = {
    .name = "thread",
    .owns_threads = true,
    .start = gp_model_thread_prepare,
    .run = gp_model_thread_run,
    .begin = gp_call_begin,
    .deliver = gp_attend_deliver,
    .wake_at = gp_attend_wake_at,
    .forget = gp_attend_forget,
};
