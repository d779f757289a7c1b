/* The control channel: framing, and who waits for whom. Each message travels behind its length (4 bytes,
 * big-endian).
 *
 *      parent                          child (descriptor 3)
 *         |  <----  Ready{port, pid, versions}  once it can be used; Failure when it never will be
 *         |
 *         |  Sample{settle}  ------------>  |
 *         |  <-----------------  MemStats   |
 *         |  Release  ------------------->  |   likewise ResetPeaks, Impair
 *         |  <---------------------  Done   |
 *         |  GetCounters  --------------->  |
 *         |  <-----------------  Counters   |   Failure{message} in place of any answer: it could not, and
 * lives on |  Shutdown  ------------------>  | |  <----------------------  Bye   |   and it leaves |  end of
 * file  --------------->  |   it leaves at once, without a word
 *
 * The parent counts the answers it is owed rather than numbering requests: Ready is owed from the start, and
 * a caller that gave up leaves its answer owed. Whoever comes next throws the owed ones away first. The
 * parent waits in slices for the socket and for the child's death together, and reads to the end before it
 * believes in the death, because the reason may be the last message. */
#include "process/control.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "process/child.h"

#define ASK(what) GRPCPERF__CONTROL__TO_CHILD__WHAT_##what
#define ANSWER(what) GRPCPERF__CONTROL__FROM_CHILD__WHAT_##what

#define PREFIX_BYTES 4u
#define MAX_MESSAGE_BYTES (1024u * 1024u) /* above it the prefix is taken for garbage */
#define READ_BYTES 4096u
#define SLICE_NS (20 * GP_NS_PER_MS)
#define LEAVE_NS (3 * GP_NS_PER_S) /* from the end of the channel to the death it should be part of */

struct gp_control {
    pid_t owner; /* the process that made it */
    struct gp_child *child;
    pthread_mutex_t lock; /* held by the one caller whose turn it is, over its whole exchange */
    struct gp_bytes input;
    unsigned owed;     /* answers on their way */
    uint64_t ended_ns; /* when end of file was met; 0 before */
    bool greeted;      /* Ready has been waited for, with success */
    bool broken;       /* the two ends no longer agree where a message begins, or what it answers */
};

/* One caller's wish, and its patience. */
struct asking {
    const char *deed; /* what the child is to do: "answer Sample" */
    Grpcperf__Control__FromChild__WhatCase answer;
    const struct gp_wait *wait;
    uint64_t begin_ns;
    struct gp_error *err;
};

/* ---- frames, for both ends ---- */

static size_t get_length(const uint8_t *prefix)
{
    uint32_t length;
    memcpy(&length, prefix, sizeof length);
    return ntohl(length);
}

static int append_frame(struct gp_bytes *bytes, const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    assert(length <= MAX_MESSAGE_BYTES);
    if (gp_bytes_reserve(bytes, PREFIX_BYTES + length) < 0)
        return -1;
    uint32_t prefix = htonl((uint32_t)length);
    memcpy(bytes->data + bytes->end, &prefix, sizeof prefix);
    protobuf_c_message_pack(message, bytes->data + bytes->end + PREFIX_BYTES);
    bytes->end += PREFIX_BYTES + length;
    return 0;
}

/* ---- the parent's end: patience ---- */

static int pid_of(const struct gp_control *control)
{
    return (int)gp_child_pid(control->child);
}

static uint64_t slice_ns(const struct asking *asking)
{
    uint64_t passed = gp_clock_now_ns() - asking->begin_ns;
    uint64_t left = passed < asking->wait->timeout_ns ? asking->wait->timeout_ns - passed : 0;
    return left < SLICE_NS ? left : SLICE_NS;
}

static int check_patience(const struct gp_control *control, const struct asking *asking)
{
    const struct gp_wait *wait = asking->wait;
    if (wait->interrupted && wait->interrupted(wait->context))
        return gp_error_set(asking->err, GP_ERROR_STOPPED,
                            "stopped while waiting for server process %d to %s", pid_of(control),
                            asking->deed);
    if (slice_ns(asking) == 0)
        return gp_error_set(asking->err, GP_ERROR_ENGINE, "server process %d did not %s within %g s",
                            pid_of(control), asking->deed, (double)wait->timeout_ns / (double)GP_NS_PER_S);
    return 0;
}

/* The lock, with the same patience. A thread can meet itself here: an interrupted() that runs signal handlers
 * can come back as a caller. */
static int take_turn(struct gp_control *control, const struct asking *asking)
{
    if (control->owner != getpid())
        return gp_child_died(control->child, asking->err); /* says whose it is */
    for (;;) {
        struct timespec until = gp_clock_timespec(gp_clock_now_ns() + slice_ns(asking));
        int rc = pthread_mutex_clocklock(&control->lock, CLOCK_MONOTONIC, &until);
        if (rc == 0)
            return 0;
        if (rc == EDEADLK)
            return gp_error_set(asking->err, GP_ERROR_ENGINE,
                                "server process %d cannot %s: this thread waits for another answer already",
                                pid_of(control), asking->deed);
        if (check_patience(control, asking) < 0)
            return -1;
    }
}

/* Wait for the socket or the death, for a slice; whether it is dead. */
static bool wait_slice(const struct gp_control *control, short events, const struct asking *asking)
{
    struct pollfd fds[] = {
        {.fd = control->ended_ns ? -1 : gp_child_control_fd(control->child), .events = events},
        {.fd = gp_child_pidfd(control->child), .events = POLLIN},
    };
    struct timespec slice = gp_clock_timespec(slice_ns(asking));
    ppoll(fds, 2, &slice, NULL);
    return fds[1].revents != 0;
}

static int break_off(struct gp_control *control, const struct asking *asking)
{
    control->broken = true;
    return gp_error_set(asking->err, GP_ERROR_ENGINE, "the control channel of server process %d is broken",
                        pid_of(control));
}

/* ---- the parent's end: out ---- */

/* A channel that is closed is no error yet: what the child said before is read first. */
static int send_frame(struct gp_control *control, struct gp_bytes *frame, const struct asking *asking)
{
    bool dead = false;
    while (gp_bytes_length(frame) > 0) {
        ssize_t n = send(gp_child_control_fd(control->child), gp_bytes_front(frame), gp_bytes_length(frame),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            gp_bytes_take(frame, (size_t)n);
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET || dead)
            return 0;
        if (errno != EAGAIN)
            return gp_error_errno(asking->err, "server process %d cannot %s", pid_of(control), asking->deed);
        if (check_patience(control, asking) < 0)
            return -1;
        dead = wait_slice(control, POLLOUT, asking);
    }
    return 0;
}

static int send_request(struct gp_control *control, const Grpcperf__Control__ToChild *request,
                        const struct asking *asking)
{
    struct gp_bytes frame;
    gp_bytes_init(&frame);
    if (append_frame(&frame, &request->base) < 0)
        return gp_error_set(asking->err, GP_ERROR_ENGINE, "out of memory for a control message");
    size_t whole = gp_bytes_length(&frame);
    int rc = send_frame(control, &frame, asking);
    control->broken = rc < 0 && gp_bytes_length(&frame) < whole;
    gp_bytes_fini(&frame);
    return rc;
}

/* ---- the parent's end: in ---- */

/* What has arrived: more than 0; nothing yet: -1 with EAGAIN; end of file, also for a reset: 0. */
static ssize_t fill_input(struct gp_control *control)
{
    struct gp_bytes *input = &control->input;
    if (gp_bytes_reserve(input, READ_BYTES) < 0) {
        errno = ENOMEM;
        return -1;
    }
    ssize_t n = recv(gp_child_control_fd(control->child), input->data + input->end, READ_BYTES, MSG_DONTWAIT);
    if (n > 0)
        input->end += (size_t)n;
    return n < 0 && errno != EAGAIN && errno != ENOMEM ? 0 : n;
}

/* The next message of what has arrived: 1, 0 when it is not complete, -1 when it is none. */
static int take_message(struct gp_control *control, Grpcperf__Control__FromChild **message)
{
    struct gp_bytes *input = &control->input;
    if (gp_bytes_length(input) < PREFIX_BYTES)
        return 0;
    size_t length = get_length(gp_bytes_front(input));
    if (length > MAX_MESSAGE_BYTES)
        return -1;
    if (gp_bytes_length(input) < PREFIX_BYTES + length)
        return 0;
    *message = grpcperf__control__from_child__unpack(NULL, length, gp_bytes_front(input) + PREFIX_BYTES);
    gp_bytes_take(input, PREFIX_BYTES + length);
    return *message ? 1 : -1;
}

static bool lingers(struct gp_control *control)
{
    if (control->ended_ns == 0)
        control->ended_ns = gp_clock_now_ns();
    return gp_clock_now_ns() - control->ended_ns > LEAVE_NS;
}

static int receive(struct gp_control *control, const struct asking *asking,
                   Grpcperf__Control__FromChild **message)
{
    bool dead = false;
    for (;;) {
        int taken = take_message(control, message);
        if (taken != 0)
            return taken > 0 ? 0 : break_off(control, asking);
        ssize_t n = fill_input(control);
        if (n > 0)
            continue;
        if (dead)
            return gp_child_died(control->child, asking->err);
        if (n < 0 && errno == ENOMEM)
            return gp_error_errno(asking->err, "server process %d cannot %s", pid_of(control), asking->deed);
        if (n == 0 && lingers(control))
            return gp_error_set(asking->err, GP_ERROR_DIED,
                                "server process %d closed its control channel and lives on", pid_of(control));
        if (check_patience(control, asking) < 0)
            return -1;
        dead = wait_slice(control, POLLIN, asking);
    }
}

/* The answer to the last request, after those that nobody waits for any more. */
static int collect(struct gp_control *control, const struct asking *asking,
                   Grpcperf__Control__FromChild **reply)
{
    Grpcperf__Control__FromChild *message = NULL;
    do {
        grpcperf__control__from_child__free_unpacked(message, NULL);
        if (receive(control, asking, &message) < 0)
            return -1;
    } while (--control->owed > 0);
    if (message->what_case == asking->answer) {
        *reply = message;
        return 0;
    }
    if (message->what_case == ANSWER(FAILURE))
        gp_error_set(asking->err, GP_ERROR_ENGINE, "%s", message->failure->message);
    else
        break_off(control, asking);
    grpcperf__control__from_child__free_unpacked(message, NULL);
    return -1;
}

/* ---- the parent's end: its calls ---- */

int gp_control_create(struct gp_control **control, struct gp_child *child, struct gp_error *err)
{
    pthread_mutexattr_t attributes;
    struct gp_control *c = calloc(1, sizeof *c);
    if (!c)
        return gp_error_errno(err, "cannot make a control channel");
    c->owner = getpid();
    c->child = child;
    c->owed = 1;
    gp_bytes_init(&c->input);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&c->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    *control = c;
    return 0;
}

/* In a forked child lock and buffer may be copies from the middle of another thread's work: leave them. */
void gp_control_destroy(struct gp_control *control)
{
    if (!control)
        return;
    if (control->owner == getpid()) {
        pthread_mutex_destroy(&control->lock);
        gp_bytes_fini(&control->input);
    }
    free(control);
}

int gp_control_ready(struct gp_control *control, const struct gp_wait *wait,
                     Grpcperf__Control__FromChild **reply, struct gp_error *err)
{
    struct asking asking = {"become ready", ANSWER(READY), wait, gp_clock_now_ns(), err};
    if (take_turn(control, &asking) < 0)
        return -1;
    int rc = -1;
    if (control->owed != 1 || control->greeted)
        gp_error_set(err, GP_ERROR_INVALID, "server process %d has been waited for already", pid_of(control));
    else if (control->broken)
        break_off(control, &asking);
    else
        rc = collect(control, &asking, reply);
    control->greeted = control->greeted || rc == 0;
    pthread_mutex_unlock(&control->lock);
    return rc;
}

static const struct asking requests[] = {
    [ASK(SAMPLE)] = {"answer Sample", ANSWER(MEMSTATS)},
    [ASK(RELEASE)] = {"answer Release", ANSWER(DONE)},
    [ASK(RESET_PEAKS)] = {"answer ResetPeaks", ANSWER(DONE)},
    [ASK(GET_COUNTERS)] = {"answer GetCounters", ANSWER(COUNTERS)},
    [ASK(IMPAIR)] = {"answer Impair", ANSWER(DONE)},
    [ASK(SHUTDOWN)] = {"answer Shutdown", ANSWER(BYE)},
};

int gp_control_request(struct gp_control *control, const Grpcperf__Control__ToChild *request,
                       const struct gp_wait *wait, Grpcperf__Control__FromChild **reply, struct gp_error *err)
{
    assert(request->what_case > 0 && request->what_case < sizeof requests / sizeof *requests);
    struct asking asking = requests[request->what_case];
    asking.wait = wait;
    asking.begin_ns = gp_clock_now_ns();
    asking.err = err;
    if (take_turn(control, &asking) < 0)
        return -1;
    int rc = control->broken ? break_off(control, &asking) : send_request(control, request, &asking);
    if (rc == 0) {
        control->owed++;
        rc = collect(control, &asking, reply);
    }
    pthread_mutex_unlock(&control->lock);
    return rc;
}

/* ---- the child's end ---- */

static int read_fully(int fd, uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = recv(fd, data, size, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

Grpcperf__Control__ToChild *gp_control_receive(int fd)
{
    uint8_t prefix[PREFIX_BYTES];
    if (read_fully(fd, prefix, sizeof prefix) < 0)
        return NULL;
    size_t length = get_length(prefix);
    uint8_t *data = length <= MAX_MESSAGE_BYTES ? malloc(length + 1) : NULL;
    Grpcperf__Control__ToChild *message = NULL;
    if (data && read_fully(fd, data, length) == 0)
        message = grpcperf__control__to_child__unpack(NULL, length, data);
    free(data);
    return message;
}

int gp_control_send(int fd, const Grpcperf__Control__FromChild *message)
{
    struct gp_bytes frame;
    gp_bytes_init(&frame);
    int rc = append_frame(&frame, &message->base);
    while (rc == 0 && gp_bytes_length(&frame) > 0) {
        ssize_t n = send(fd, gp_bytes_front(&frame), gp_bytes_length(&frame), MSG_NOSIGNAL);
        if (n >= 0)
            gp_bytes_take(&frame, (size_t)n);
        else if (errno != EINTR)
            rc = -1;
    }
    gp_bytes_fini(&frame);
    return rc;
}
