/* The plainest client that gRPC C core allows: one connection, one completion queue, one thread, a fixed
 * number of unary calls in flight, nothing measured but their number and the CPU of the process. What
 * grpcperf's core transport costs per call is judged against it.
 *
 *   bare_core_client HOST:PORT IN_FLIGHT SECONDS      one JSON document on stdout */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#define METHOD "/grpc.testing.BenchmarkService/UnaryCall"
#define WARMUP_S 0.2

/* grpc.testing.SimpleRequest: response_size 16, and a payload of 16 bytes. */
static const char request[] = "\x10\x10\x1a\x12\x12\x10"
                              "0123456789abcdef";

struct call {
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *reply;
    grpc_status_code status;
    grpc_slice details;
};

static grpc_completion_queue *queue;
static grpc_channel *channel;
static void *method;
static grpc_byte_buffer *message;

static double seconds(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void start(struct call *call)
{
    grpc_byte_buffer *copy = grpc_byte_buffer_copy(message);
    grpc_op ops[6];

    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = copy;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &call->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[5].data.recv_status_on_client.status = &call->status;
    ops[5].data.recv_status_on_client.status_details = &call->details;
    call->call = grpc_channel_create_registered_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, method,
                                                     gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    if (grpc_call_start_batch(call->call, ops, 6, call, NULL) != GRPC_CALL_OK)
        abort();
    grpc_byte_buffer_destroy(copy);
}

static void finish(struct call *call)
{
    if (call->status != GRPC_STATUS_OK || !call->reply) {
        fprintf(stderr, "a call ended with status %d\n", (int)call->status);
        exit(1);
    }
    grpc_byte_buffer_destroy(call->reply);
    grpc_slice_unref(call->details);
    grpc_call_unref(call->call);
    call->initial.count = call->trailing.count = 0;
}

/* Finish calls and start others for so long; their number. */
static unsigned long run(double length)
{
    double end = seconds(CLOCK_MONOTONIC) + length;
    unsigned long calls = 0;

    do {
        grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

        finish(event.tag);
        start(event.tag);
        calls++;
    } while (calls % 64 != 0 || seconds(CLOCK_MONOTONIC) < end);
    return calls;
}

static void set_up(const char *address)
{
    grpc_channel_credentials *credentials;
    grpc_slice slice = grpc_slice_from_copied_buffer(request, sizeof request - 1);

    grpc_init();
    credentials = grpc_insecure_credentials_create();
    queue = grpc_completion_queue_create_for_next(NULL);
    /* Without retries, as grpcperf's own: they cost about 2 us a call, and the comparison is not about them.
     */
    grpc_arg retries = {.type = GRPC_ARG_INTEGER, .key = GRPC_ARG_ENABLE_RETRIES, .value.integer = 0};
    grpc_channel_args args = {.num_args = 1, .args = &retries};
    channel = grpc_channel_create(address, credentials, &args);
    method = grpc_channel_register_call(channel, METHOD, NULL, NULL);
    message = grpc_raw_byte_buffer_create(&slice, 1);
}

int main(int argc, char **argv)
{
    unsigned long in_flight, calls;
    double cpu, length;
    struct call *all;

    if (argc != 4) {
        fprintf(stderr, "usage: bare_core_client HOST:PORT IN_FLIGHT SECONDS\n");
        return 2;
    }
    in_flight = strtoul(argv[2], NULL, 10);
    set_up(argv[1]);
    all = calloc(in_flight, sizeof *all);
    if (!all || in_flight == 0)
        return 2;
    for (unsigned long i = 0; i < in_flight; i++)
        start(&all[i]);
    run(WARMUP_S);
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    length = seconds(CLOCK_MONOTONIC);
    calls = run(strtod(argv[3], NULL));
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    length = seconds(CLOCK_MONOTONIC) - length;
    printf("{\"calls\": %lu, \"calls_per_s\": %.0f, \"cpu_us_per_call\": %.4f}\n", calls,
           (double)calls / length, 1e6 * cpu / (double)calls);
    fflush(stdout);
    _exit(0); /* calls are in flight */
}
