/* The control channel: length-prefixed protobuf-c messages over a socket pair, both ends.
 *
 * One request is answered by one message before the next is sent. The parent's end serialises callers from
 * several threads with a lock; the child's end is read by one thread. In a forked child the parent's end
 * refuses. */
#ifndef GP_PROCESS_CONTROL_H
#define GP_PROCESS_CONTROL_H

#include <stdint.h>

#include "base/wait.h"
#include "control.pb-c.h"

struct gp_error;
struct gp_child;
struct gp_control;

/* The parent's end of a child's channel; the child must outlive it. */
int gp_control_create(struct gp_control **control, struct gp_child *child, struct gp_error *err);
void gp_control_destroy(struct gp_control *control);

/* Wait for the child's Ready. A child that dies first is GP_ERROR_DIED with its last words. */
int gp_control_ready(struct gp_control *control, const struct gp_wait *wait,
                     Grpcperf__Control__FromChild **reply, struct gp_error *err);

/* Send a request and wait for its answer, which the caller frees with
 * grpcperf__control__from_child__free_unpacked(reply, NULL). A Failure becomes GP_ERROR_ENGINE. A caller that
 * gave up (timeout, interrupt) leaves an answer on its way: the next request drops it first. */
int gp_control_request(struct gp_control *control, const Grpcperf__Control__ToChild *request,
                       const struct gp_wait *wait, Grpcperf__Control__FromChild **reply,
                       struct gp_error *err);

/* The child's end: blocking, on GP_CHILD_CONTROL_FD. Receive gives NULL at end of file or on a broken
 * message: the child then leaves at once. The caller frees the message with
 * grpcperf__control__to_child__free_unpacked(message, NULL). */
Grpcperf__Control__ToChild *gp_control_receive(int fd);
int gp_control_send(int fd, const Grpcperf__Control__FromChild *message);

#endif
