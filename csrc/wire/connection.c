/* connection: its life, and how its calls end. */
#include "wire/connection_state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define DEFAULT_STREAM_WINDOW (4u << 20)
#define DEFAULT_CONNECTION_WINDOW (16u << 20)
#define DEFAULT_MESSAGE_BYTES (4u << 20) /* gRPC's */
#define DEFAULT_HEADER_BYTES 8192u

static uint32_t given(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

/* --- create ------------------------------------------------------------------------------------ */

static void take_opts(struct gp_wire *wire, const struct gp_wire_opts *opts)
{
    wire->calls = opts->calls;
    wire->slab = opts->calls->slab;
    wire->index = opts->index;
    wire->next_stream = 1;
    wire->send_window = wire->granted = GP_FRAME_DEFAULT_WINDOW;
    wire->stream_window = given(opts->stream_window, DEFAULT_STREAM_WINDOW);
    wire->connection_window = given(opts->connection_window, DEFAULT_CONNECTION_WINDOW);
    wire->max_message_bytes = given(opts->max_message_bytes, DEFAULT_MESSAGE_BYTES);
    gp_settings_init(&wire->peer);
    wire->peer.enable_push = false; /* so that a server which sets it shows (RFC 9113, 6.5.2) */
}

static int build(struct gp_wire *wire, const struct gp_wire_opts *opts, struct gp_error *err)
{
    const struct gp_block_opts block = {
        .request = opts->request,
        .scheme = opts->scheme,
        .authority = opts->authority,
        .encoding = opts->calls->gzip ? "gzip" : NULL,
    };
    uint32_t max_header_bytes = given(opts->max_header_bytes, DEFAULT_HEADER_BYTES);

    if (opts->stream_window > GP_FRAME_MAX_WINDOW || opts->connection_window > GP_FRAME_MAX_WINDOW)
        return gp_error_set(err, GP_ERROR_INVALID, "windows of %u and %u bytes: the most is %d",
                            opts->stream_window, opts->connection_window, GP_FRAME_MAX_WINDOW);
    if (gp_block_create(&wire->block, &block, err) < 0 ||
        gp_decoder_create(&wire->decoder, max_header_bytes, err) < 0)
        return -1;
    if (gp_roster_init(&wire->roster, wire->slab) < 0)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a connection");
    wire_put_preface(wire, max_header_bytes);
    return wire->over ? gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a connection") : 0;
}

int gp_wire_create(struct gp_wire **created, const struct gp_wire_opts *opts, struct gp_error *err)
{
    struct gp_wire *wire = calloc(1, sizeof *wire);

    *created = NULL;
    if (!wire)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a connection");
    take_opts(wire, opts);
    if (build(wire, opts, err) < 0) {
        gp_wire_destroy(wire);
        return -1;
    }
    *created = wire;
    return 0;
}

/* --- causes ------------------------------------------------------------------------------------ */

static void write_cause(struct gp_wire *wire, const char *format, va_list args)
{
    vsnprintf(wire->cause.text, sizeof wire->cause.text, format, args);
    wire->noted = true;
}

static bool is_kept(const struct gp_calls *calls, enum gp_class class)
{
    for (uint32_t i = 0; i < calls->cause_count; i++)
        if (calls->causes[i].class == class)
            return true;
    return false;
}

/* Another class takes its place. */
static void keep_cause(struct gp_wire *wire)
{
    struct gp_calls *calls = wire->calls;

    if (wire->noted && calls->cause_count < GP_CALLS_CAUSES)
        calls->causes[calls->cause_count++] = wire->cause;
    wire->noted = false;
}

size_t gp_wire_take_causes(struct gp_wire *wire, const struct gp_wire_cause **causes)
{
    size_t count;

    keep_cause(wire);
    count = wire->calls->cause_count;
    wire->calls->cause_count = 0;
    *causes = wire->calls->causes;
    return count;
}

void wire_note(struct gp_wire *wire, enum gp_class class, const char *format, ...)
{
    va_list args;

    if (wire->over || is_kept(wire->calls, class))
        return;
    if (wire->cause.class == class && wire->cause.text[0]) {
        wire->noted = true;
        return;
    }
    keep_cause(wire);
    wire->cause.class = class;
    va_start(args, format);
    write_cause(wire, format, args);
    va_end(args);
}

/* --- how a call ends --------------------------------------------------------------------------- */

void wire_close_stream(struct gp_wire *wire, uint32_t id, enum gp_class class, bool refused)
{
    gp_roster_remove(&wire->roster, id);
    wire->in_flight--;
    wire->refused += refused;
    gp_calls_finish(wire->calls, id, class, refused, wire->now_ns);
}

void wire_reset_stream(struct gp_wire *wire, uint32_t id, enum gp_class class, enum gp_h2_error error)
{
    wire_put_u32(wire, GP_FRAME_RST_STREAM, wire->slab[id].stream_id, error);
    if (wire->slab[id].state == GP_CALL_OPEN) /* there was memory for it */
        wire_close_stream(wire, id, class, false);
}

static bool stands_leaving(const void *owner, struct gp_queue_entry entry)
{
    const struct gp_wire *wire = owner;
    const struct gp_call *call = &wire->slab[entry.call];

    return call->state == GP_CALL_OPEN && call->owner == wire->index && call->stream_id == entry.ticket;
}

void wire_leave(struct gp_wire *wire, uint32_t id, enum gp_class class)
{
    struct gp_call *call = &wire->slab[id];

    call->flags |= GP_CALL_LEAVING;
    call->class = (uint8_t)class;
    if (gp_queue_push(&wire->leaving, (struct gp_queue_entry){id, call->stream_id}, stands_leaving, wire) < 0)
        wire_out_of_memory(wire);
}

static bool stands_pending(const void *owner, struct gp_queue_entry entry)
{
    const struct gp_wire *wire = owner;
    const struct gp_call *call = &wire->slab[entry.call];

    return call->state == GP_CALL_QUEUED && call->owner == wire->index && call->stream_id == entry.ticket;
}

/* A queued call ends without having been sent: there is no time between. */
static void close_queued(struct gp_wire *wire, uint32_t id, enum gp_class class, bool refused)
{
    wire->slab[id].sent_ns = wire->now_ns;
    wire->queued--;
    wire->refused += refused;
    gp_calls_finish(wire->calls, id, class, refused, wire->now_ns);
}

static void close_all_queued(struct gp_wire *wire, enum gp_class class, bool refused)
{
    struct gp_queue_entry entry;

    while (gp_queue_pop(&wire->pending, &entry, stands_pending, wire))
        close_queued(wire, entry.call, class, refused);
}

/* The connection takes its calls along. What was decided before stays decided. */
static void close_all(struct gp_wire *wire)
{
    uint32_t id, cursor;

    wire->over = true;
    wire->limit = 0;
    while (wire->in_flight > 0)
        for (cursor = 0; (id = gp_roster_next(&wire->roster, &cursor)) != GP_CALLS_NONE;) {
            const struct gp_call *call = &wire->slab[id];
            bool leaving = call->flags & GP_CALL_LEAVING;
            wire_close_stream(wire, id, leaving ? (enum gp_class)call->class : GP_CLASS_TRANSPORT, false);
        }
    close_all_queued(wire, GP_CLASS_TRANSPORT, true);
}

static void end_connection(struct gp_wire *wire, const char *format, va_list args)
{
    keep_cause(wire);
    write_cause(wire, format, args);
    wire->cause.class = GP_CLASS_TRANSPORT;
    close_all(wire);
}

void wire_fail(struct gp_wire *wire, enum gp_h2_error error, const char *format, ...)
{
    uint8_t payload[8] = {0}; /* no stream of the peer's was ever processed: there are none */
    va_list args;

    if (wire->over)
        return;
    gp_put_u32(payload + 4, error);
    wire_put_frame(wire, &(struct gp_frame){.type = GP_FRAME_GOAWAY, .length = sizeof payload}, payload);
    va_start(args, format);
    end_connection(wire, format, args);
    va_end(args);
}

static void end_with(struct gp_wire *wire, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    end_connection(wire, format, args);
    va_end(args);
}

void wire_out_of_memory(struct gp_wire *wire)
{
    if (!wire->over)
        end_with(wire, "out of memory");
}

void gp_wire_lost(struct gp_wire *wire, const char *cause, uint64_t now_ns)
{
    wire->now_ns = now_ns;
    if (!wire->over)
        end_with(wire, "%s", cause);
}

/* --- what the caller wants --------------------------------------------------------------------- */

static void enqueue(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];
    uint32_t ticket = ++wire->next_ticket;
    bool open = gp_wire_open(wire);

    *call = (struct gp_call){
        .stream_id = ticket, .owner = wire->index, .state = GP_CALL_QUEUED, .flags = GP_CALL_HELD};
    wire->queued++;
    if (!open || gp_queue_push(&wire->pending, (struct gp_queue_entry){id, ticket}, stands_pending, wire) < 0)
        close_queued(wire, id, GP_CLASS_TRANSPORT, true);
}

void gp_wire_submit(struct gp_wire *wire, uint64_t id, uint64_t now_ns)
{
    assert(id < wire->calls->capacity && wire->slab[id].state == GP_CALL_FREE);
    wire->now_ns = now_ns;
    if (wire->in_flight < wire->limit && wire->queued == 0)
        wire_start_call(wire, (uint32_t)id);
    else
        enqueue(wire, (uint32_t)id);
}

void wire_update_limit(struct gp_wire *wire)
{
    bool open = wire->greeted && !wire->goaway && !wire->over && wire->next_stream <= GP_FRAME_MAX_ID;

    wire->limit = open ? wire->peer.max_concurrent_streams : 0;
    if (wire->goaway || wire->over || wire->next_stream > GP_FRAME_MAX_ID)
        close_all_queued(wire, GP_CLASS_TRANSPORT, true);
}

/* A stream that both sides let run is closed on ours first, as C core does. */
static void leave_now(struct gp_wire *wire, uint32_t id)
{
    struct gp_call *call = &wire->slab[id];

    if (call->class == GP_CLASS_OK && call->offset == 0 && !(call->flags & GP_CALL_HALF_CLOSED))
        wire_half_close(wire, call);
    if (!wire->over)
        wire_reset_stream(wire, id, (enum gp_class)call->class, GP_H2_CANCEL);
}

void wire_settle(struct gp_wire *wire)
{
    struct gp_queue_entry entry;

    while (!wire->over && gp_queue_pop(&wire->leaving, &entry, stands_leaving, wire))
        leave_now(wire, entry.call);
    while (wire->queued > 0 && wire->in_flight < wire->limit &&
           gp_queue_pop(&wire->pending, &entry, stands_pending, wire)) {
        wire->queued--;
        wire_start_call(wire, entry.call);
        wire->slab[entry.call].flags |= GP_CALL_HELD;
    }
}

void gp_wire_abort(struct gp_wire *wire, uint64_t id, enum gp_class class, uint64_t now_ns)
{
    const struct gp_call *call = &wire->slab[id];

    assert(id < wire->calls->capacity);
    wire->now_ns = now_ns;
    if (call->owner != wire->index || call->state == GP_CALL_FREE)
        return;
    if (call->state == GP_CALL_QUEUED)
        close_queued(wire, (uint32_t)id, class, false);
    else
        wire_reset_stream(wire, (uint32_t)id, class, GP_H2_CANCEL);
    wire_settle(wire);
}

void gp_wire_abort_all(struct gp_wire *wire, enum gp_class class, uint64_t now_ns)
{
    uint32_t id, cursor;

    wire->now_ns = now_ns;
    close_all_queued(wire, class, false);
    while (wire->in_flight > 0)
        for (cursor = 0; (id = gp_roster_next(&wire->roster, &cursor)) != GP_CALLS_NONE;) {
            struct gp_call *call = &wire->slab[id];
            bool said = gp_calls_is_said(wire->calls, call);
            call->flags |= said ? GP_CALL_AHEAD : 0;
            wire_reset_stream(wire, id, said ? GP_CLASS_OK : class, GP_H2_CANCEL);
        }
}

void gp_wire_end(struct gp_wire *wire, uint64_t now_ns)
{
    uint32_t id, cursor = 0;

    wire->now_ns = now_ns;
    wire->calls->ending = true;
    while (!wire->over && (id = gp_roster_next(&wire->roster, &cursor)) != GP_CALLS_NONE) {
        struct gp_call *call = &wire->slab[id];
        if (gp_call_should_close(wire->calls, call))
            wire_half_close(wire, call);
        else if (wire->calls->kind == GP_KIND_BIDI_FREE && gp_call_has_all(wire->calls, call))
            wire_leave(wire, id, GP_CLASS_OK);
    }
    wire_settle(wire);
}

void gp_wire_ping(struct gp_wire *wire)
{
    static const uint8_t opaque[8] = "grpcperf";

    if (!wire->over)
        wire_put_frame(wire, &(struct gp_frame){.type = GP_FRAME_PING, .length = sizeof opaque}, opaque);
}

void gp_wire_destroy(struct gp_wire *wire)
{
    if (!wire)
        return;
    if (wire->roster.ring && !wire->over)
        end_with(wire, "closed");
    free(wire->head.frame);
    free(wire->habit.answer);
    gp_queue_fini(&wire->pending);
    gp_queue_fini(&wire->ready);
    gp_queue_fini(&wire->leaving);
    gp_bytes_fini(&wire->partial);
    gp_bytes_fini(&wire->open_block.bytes);
    gp_output_fini(&wire->output);
    gp_roster_fini(&wire->roster);
    gp_decoder_destroy(wire->decoder);
    gp_block_destroy(wire->block);
    free(wire);
}
