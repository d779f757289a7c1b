/* What a connection in the client role costs by itself, without sockets: calls and messages per second
 * against answers that lie ready in memory. Arguments: how many at once, each a case. Prints a line of JSON
 * for each, the best of many rounds, for other work on the machine only ever adds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "wire/connection.h"
#include "wire/frame.h"

#define MESSAGE 16u
#define ROUNDS 60u
#define CALLS_PER_ROUND 200000u

/* Literals that leave the table alone, as gRPC servers send once theirs are at rest. */
static const uint8_t headers[] = "\x88\x10\x0c"
                                 "content-type\x10"
                                 "application/grpc";
static const uint8_t trailers[] = "\x10\x0bgrpc-status\x01"
                                  "0";

struct bench {
    struct gp_calls *calls;
    struct gp_wire *wire;
    struct gp_event *events;
    uint8_t *said; /* by the server, in a round */
    size_t size;
};

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void say(struct bench *bench, uint8_t type, uint8_t flags, uint32_t stream_id, const void *payload,
                size_t size)
{
    uint8_t *at = bench->said + bench->size;

    gp_frame_write(at, (struct gp_frame){(uint32_t)size, stream_id, type, flags});
    memcpy(at + GP_FRAME_HEADER_BYTES, payload, size);
    bench->size += GP_FRAME_HEADER_BYTES + size;
}

static void say_window(struct bench *bench, uint32_t stream_id, uint32_t bytes)
{
    uint8_t payload[4];

    gp_put_u32(payload, bytes);
    say(bench, GP_FRAME_WINDOW_UPDATE, 0, stream_id, payload, sizeof payload);
}

static void say_message(struct bench *bench, uint32_t stream_id)
{
    static const uint8_t message[5 + MESSAGE] = {[4] = MESSAGE};

    say(bench, GP_FRAME_DATA, 0, stream_id, message, sizeof message);
}

static void hear(struct bench *bench)
{
    if (gp_wire_receive(bench->wire, bench->said, bench->size, gp_clock_now_ns()) < 0) {
        fprintf(stderr, "%s\n", gp_wire_cause(bench->wire));
        abort();
    }
}

static void write_all(struct bench *bench)
{
    struct iovec pieces[16];

    while (gp_wire_has_output(bench->wire)) {
        size_t count = gp_wire_gather(bench->wire, pieces, 16, gp_clock_now_ns()), bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += pieces[i].iov_len;
        gp_wire_written(bench->wire, bytes);
    }
}

static void begin(struct bench *bench, enum gp_kind kind, uint32_t in_flight)
{
    static const uint8_t window[] = {0, GP_SETTING_INITIAL_WINDOW_SIZE, 0x7f, 0xff, 0xff, 0xff};
    static const uint8_t message[MESSAGE];
    struct gp_request request = {.kind = kind,
                                 .method = "/grpc.testing.BenchmarkService/UnaryCall",
                                 .message = message,
                                 .message_bytes = sizeof message};

    *bench = (struct bench){0};
    bench->events = must(malloc(in_flight * sizeof *bench->events));
    bench->said = must(malloc(1000 + in_flight * 150));
    if (gp_calls_create(&bench->calls, &(struct gp_calls_opts){in_flight, &request}, NULL) < 0 ||
        gp_wire_create(
            &bench->wire,
            &(struct gp_wire_opts){
                .calls = bench->calls, .request = &request, .scheme = "http", .authority = "127.0.0.1:50051"},
            NULL) < 0)
        abort();
    say(bench, GP_FRAME_SETTINGS, 0, 0, window, sizeof window);
    say_window(bench, 0, GP_FRAME_MAX_WINDOW - GP_FRAME_DEFAULT_WINDOW);
    hear(bench);
}

static void end(struct bench *bench)
{
    gp_wire_destroy(bench->wire);
    gp_calls_destroy(bench->calls);
    free(bench->events);
    free(bench->said);
}

static double per_call(uint64_t spent_ns, uint32_t calls, double best)
{
    double ns = (double)spent_ns / calls;

    return best == 0 || ns < best ? ns : best;
}

/* Rounds of submit, write, hear all the answers, take the events. */
static double unary(uint32_t in_flight)
{
    struct bench bench;
    uint32_t stream_id = 1, rounds = CALLS_PER_ROUND / in_flight;
    double best = 0;

    begin(&bench, GP_KIND_UNARY, in_flight);
    for (uint32_t round = 0; round < ROUNDS * rounds;) {
        uint64_t spent_ns = 0;
        for (uint32_t n = 0; n < rounds; n++, round++) {
            bench.size = 0;
            for (uint32_t i = 0; i < in_flight; i++, stream_id += 2) {
                say(&bench, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS, stream_id, headers, sizeof headers - 1);
                say_message(&bench, stream_id);
                say(&bench, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS | GP_FLAG_END_STREAM, stream_id, trailers,
                    sizeof trailers - 1);
            }
            say_window(&bench, 0, in_flight * (5 + MESSAGE));
            uint64_t now_ns = gp_clock_now_ns();
            for (uint32_t i = 0; i < in_flight; i++)
                gp_wire_submit(bench.wire, i, now_ns);
            write_all(&bench);
            hear(&bench);
            size_t taken = gp_calls_take(bench.calls, bench.events, in_flight);
            spent_ns += gp_clock_now_ns() - now_ns;
            if (taken != in_flight || bench.events[in_flight - 1].class != GP_CLASS_OK)
                abort();
        }
        best = per_call(spent_ns, rounds * in_flight, best);
    }
    end(&bench);
    return best;
}

/* A message on each stream, and the next one goes out. */
static double ping_pong(uint32_t streams)
{
    struct bench bench;
    double best = 0;

    begin(&bench, GP_KIND_BIDI, streams);
    bench.size = 0;
    for (uint32_t i = 0; i < streams; i++) {
        gp_wire_submit(bench.wire, i, 1);
        say(&bench, GP_FRAME_HEADERS, GP_FLAG_END_HEADERS, 2 * i + 1, headers, sizeof headers - 1);
    }
    hear(&bench);
    bench.size = 0;
    for (uint32_t i = 0; i < streams; i++)
        say_message(&bench, 2 * i + 1);
    say_window(&bench, 0, streams * (5 + MESSAGE));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t start_ns = gp_clock_now_ns();
        for (uint32_t n = 0; n < CALLS_PER_ROUND; n += streams) {
            write_all(&bench);
            hear(&bench);
        }
        best = per_call(gp_clock_now_ns() - start_ns, CALLS_PER_ROUND, best);
    }
    end(&bench);
    return best;
}

static void print(const char *kind, uint32_t at_once, double ns)
{
    printf("{\"kind\": \"%s\", \"at_once\": %u, \"ns\": %.1f}\n", kind, at_once, ns);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        uint32_t at_once = (uint32_t)strtoul(argv[i], NULL, 10);

        if (at_once == 0 || at_once > CALLS_PER_ROUND) {
            fprintf(stderr, "how many at once: from 1 to %u, not %s\n", CALLS_PER_ROUND, argv[i]);
            return 2;
        }
        print("unary", at_once, unary(at_once));
        print("bidi", at_once, ping_pong(at_once));
    }
    return 0;
}
