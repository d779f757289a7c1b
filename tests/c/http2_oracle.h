/* An HTTP/2 client that is not ours, nghttp2's, talking to a responder in memory. It keeps its own book of
 * header tables and windows, and calls a peer's mistakes by their name; here they end the test. */
#ifndef GP_TESTS_HTTP2_ORACLE_H
#define GP_TESTS_HTTP2_ORACLE_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "check.h"
#include "wire/responder.h"

#define SERVICE "/grpc.testing.BenchmarkService/"
#define ORACLE_CALLS 4096

/* A call: what it sends (length-prefixed messages), and what came back. */
struct call {
    int32_t id;
    uint8_t *request;
    size_t request_size, request_sent;
    bool stays_open; /* does not end its side when the request is sent */
    int http_status, grpc_status;
    char message[128];
    bool grpc_content_type, headers, closed, ended;
    uint32_t error_code;
    uint64_t messages, bytes, body_bytes; /* whole messages; payload; zeros in bodies of the messages */
    uint8_t head[32];                     /* of the current message */
    size_t have, wanted;                  /* of the current message */
    uint64_t last_body;                   /* of the last whole message */
};

struct oracle {
    nghttp2_session *session;
    struct gp_responder *responder;
    struct gp_responder_counts counts;
    struct call *calls;
    size_t count;
    size_t cut;                 /* bytes go both ways in pieces of at most so many; 0: whole */
    uint64_t to_server, cut_at; /* bytes sent to the server; once, a piece ends at cut_at */
    bool over;                  /* the responder said so */
    bool together;              /* the frames of a call stand together, as from a client with many calls */
    struct gp_bytes said;       /* by the client, not yet sent */
    size_t most_pending;
};

/* --- what nghttp2 tells */

/* A varint; the number of its bytes. */
static inline size_t read_varint(const uint8_t *at, uint64_t *value)
{
    size_t size = 0;

    *value = 0;
    do
        *value |= (uint64_t)(at[size] & 0x7f) << (7 * size);
    while (at[size++] & 0x80);
    return size;
}

/* The head of a SimpleResponse: from its size to the size of its body. */
static inline void check_head(struct call *call, size_t size)
{
    uint64_t payload, body;
    const uint8_t *at = call->head + 5;

    if (size == 5) {
        call->last_body = 0;
        return;
    }
    CHECK(*at++ == 0x0a);
    at += read_varint(at, &payload);
    CHECK((size_t)(at - call->head) + payload == size && *at++ == 0x12);
    at += read_varint(at, &body);
    CHECK((size_t)(at - call->head) + body == size && body > 0);
    call->last_body = body;
}

static inline void take_byte_of(struct call *call, uint8_t byte)
{
    if (call->have < sizeof call->head)
        call->head[call->have] = byte;
    else
        CHECK(byte == 0);
    call->have++;
    if (call->have == 5) {
        CHECK(call->head[0] == 0);
        call->wanted =
            5 + ((size_t)call->head[1] << 24 | call->head[2] << 16 | call->head[3] << 8 | call->head[4]);
    }
    if (call->have < 5 || call->have < call->wanted)
        return;
    check_head(call, call->wanted);
    call->body_bytes += call->last_body;
    call->messages++;
    call->have = call->wanted = 0;
}

static inline int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                          size_t size, void *context)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)flags, (void)context;
    CHECK(call && call->headers && !call->ended);
    call->bytes += size;
    for (size_t i = 0; i < size;) {
        /* Bodies are long and of zeros: look at those in one go. */
        size_t rest = call->have >= sizeof call->head ? call->wanted - call->have : 0;
        if (rest > 1 && size - i > 1) {
            size_t part = rest - 1 < size - i ? rest - 1 : size - i;
            CHECK(data[i] == 0 && memcmp(data + i, data + i + 1, part - 1) == 0);
            call->have += part;
            i += part;
        } else {
            take_byte_of(call, data[i++]);
        }
    }
    return 0;
}

static inline int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                            size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                            void *context)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags, (void)context;
    CHECK(call);
    if (name_size == 7 && memcmp(name, ":status", 7) == 0)
        call->http_status = atoi((const char *)value);
    else if (name_size == 11 && memcmp(name, "grpc-status", 11) == 0)
        call->grpc_status = atoi((const char *)value);
    else if (name_size == 12 && memcmp(name, "content-type", 12) == 0)
        call->grpc_content_type = value_size == 16 && memcmp(value, "application/grpc", 16) == 0;
    else if (name_size == 12 && memcmp(name, "grpc-message", 12) == 0)
        snprintf(call->message, sizeof call->message, "%.*s", (int)value_size, (const char *)value);
    else
        CHECK(!"a field that is known");
    return 0;
}

static inline int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)context;
    if (frame->hd.type == NGHTTP2_HEADERS && call)
        call->headers = true;
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && call &&
        frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        call->ended = true;
    return 0;
}

static inline int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *context)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)context;
    if (call) {
        call->closed = true;
        call->error_code = error_code;
    }
    return 0;
}

static inline int on_mistake(nghttp2_session *session, const nghttp2_frame *frame, int error, void *context)
{
    (void)session, (void)context;
    fprintf(stderr, "the responder sent a wrong frame of type %d: %s\n", frame->hd.type,
            nghttp2_strerror(error));
    CHECK(!"frames are right");
    return 0;
}

static inline ssize_t give_request(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t size,
                                   uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct call *call = source->ptr;
    size_t left = call->request_size - call->request_sent, part = left < size ? left : size;

    (void)session, (void)id, (void)context;
    if (part == 0 && call->stays_open)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(buffer, call->request + call->request_sent, part);
    call->request_sent += part;
    if (part == left && !call->stays_open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)part;
}

/* --- its life */

struct oracle_opts {
    uint32_t window;     /* INITIAL_WINDOW_SIZE; 0: the default */
    uint32_t table_size; /* HEADER_TABLE_SIZE, when has_table_size */
    bool has_table_size;
    bool manual_windows; /* nothing is given back but by nghttp2_session_consume */
    bool together;
    size_t cut, cut_at;
};

static inline void oracle_settings(struct oracle *oracle, const struct oracle_opts *opts)
{
    nghttp2_settings_entry entries[2];
    size_t count = 0;

    if (opts->window)
        entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, opts->window};
    if (opts->has_table_size)
        entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, opts->table_size};
    CHECK(nghttp2_submit_settings(oracle->session, NGHTTP2_FLAG_NONE, entries, count) == 0);
}

static inline void oracle_init(struct oracle *oracle, const struct oracle_opts *opts)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct gp_error err;

    *oracle = (struct oracle){.cut = opts->cut, .cut_at = opts->cut_at, .together = opts->together};
    oracle->calls = calloc(ORACLE_CALLS, sizeof *oracle->calls);
    CHECK(oracle->calls && gp_responder_create(&oracle->responder, &oracle->counts, &err) == 0);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_mistake);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, opts->manual_windows);
    CHECK(nghttp2_session_client_new2(&oracle->session, callbacks, oracle, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    oracle_settings(oracle, opts);
}

static inline void oracle_fini(struct oracle *oracle)
{
    nghttp2_session_del(oracle->session);
    gp_bytes_fini(&oracle->said);
    gp_responder_destroy(oracle->responder);
    for (size_t i = 0; i < oracle->count; i++)
        free(oracle->calls[i].request);
    free(oracle->calls);
}

/* --- bytes both ways */

/* Hand the server `size` bytes, in pieces: a new copy of each, so that reading beyond it is seen. */
static inline void to_server(struct oracle *oracle, const uint8_t *data, size_t size)
{
    while (size > 0 && !oracle->over) {
        size_t part = oracle->cut && oracle->cut < size ? oracle->cut : size;
        if (oracle->cut_at > oracle->to_server && oracle->cut_at - oracle->to_server < part)
            part = oracle->cut_at - oracle->to_server;
        uint8_t *copy = malloc(part);
        CHECK(copy);
        memcpy(copy, data, part);
        oracle->over = gp_responder_receive(oracle->responder, copy, part) != 0;
        free(copy);
        oracle->to_server += part;
        data += part;
        size -= part;
    }
}

/* What the client has to say by now. Asked once for many calls, it says all HEADERS before all DATA. */
static inline void collect(struct oracle *oracle)
{
    const uint8_t *data;
    ssize_t size;

    while ((size = nghttp2_session_mem_send(oracle->session, &data)) > 0)
        CHECK(gp_bytes_append(&oracle->said, data, (size_t)size) == 0);
    CHECK(size == 0);
}

/* All of it goes out in one piece, as from a client that writes many frames at once. */
static inline bool ask_client(struct oracle *oracle)
{
    collect(oracle);
    size_t size = gp_bytes_length(&oracle->said);
    if (size > 0)
        to_server(oracle, gp_bytes_front(&oracle->said), size);
    gp_bytes_clear(&oracle->said);
    return size > 0;
}

static inline bool ask_server(struct oracle *oracle)
{
    struct iovec pieces[8];
    size_t count = gp_responder_gather(oracle->responder, pieces, 8), written = 0;

    if (gp_responder_pending(oracle->responder) > oracle->most_pending)
        oracle->most_pending = gp_responder_pending(oracle->responder);
    for (size_t i = 0; i < count; i++) {
        size_t part = oracle->cut && oracle->cut < pieces[i].iov_len ? oracle->cut : pieces[i].iov_len;
        ssize_t read = nghttp2_session_mem_recv(oracle->session, pieces[i].iov_base, part);
        if (read != (ssize_t)part)
            fprintf(stderr, "nghttp2: %s\n", nghttp2_strerror((int)read));
        CHECK(read == (ssize_t)part);
        written += part;
        if (part < pieces[i].iov_len)
            break;
    }
    gp_responder_written(oracle->responder, written);
    return written > 0;
}

/* Until neither side has anything to say. */
static inline void exchange(struct oracle *oracle)
{
    bool more = true;

    while (more) {
        more = ask_client(oracle);
        more = ask_server(oracle) || more;
    }
}

/* --- calls */

/* A length-prefixed SimpleRequest with a payload of `payload` bytes. Field 2, then field 3. */
static inline size_t put_request(uint8_t *out, uint32_t response_size, uint32_t payload)
{
    uint8_t *at = out + 5;
    uint32_t inner = payload + 1 + 4, numbers[] = {inner, payload};

    *at++ = 0x10;
    for (; response_size >= 0x80; response_size >>= 7)
        *at++ = (uint8_t)(response_size | 0x80);
    *at++ = (uint8_t)response_size;
    for (int i = 0; payload > 0 && i < 2; i++) {
        *at++ = i == 0 ? 0x1a : 0x12;
        for (int k = 0; k < 3; k++) /* varints of four bytes, whatever the number */
            *at++ = (uint8_t)(numbers[i] >> (7 * k) | 0x80);
        *at++ = (uint8_t)(numbers[i] >> 21 & 0x7f);
    }
    memset(at, 'x', payload);
    at += payload;
    uint32_t size = (uint32_t)(at - out - 5);
    out[0] = 0;
    out[1] = (uint8_t)(size >> 24);
    out[2] = (uint8_t)(size >> 16);
    out[3] = (uint8_t)(size >> 8);
    out[4] = (uint8_t)size;
    return size + 5;
}

static inline nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

/* A call with a request given as bytes, which are copied. */
static inline struct call *start_bytes(struct oracle *oracle, const char *path, const uint8_t *request,
                                       size_t size, bool stays_open)
{
    struct call *call = &oracle->calls[oracle->count++];
    nghttp2_nv fields[] = {field(":method", "POST"), field(":scheme", "http"),
                           field(":path", path),     field(":authority", "localhost"),
                           field("te", "trailers"),  field("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = give_request};

    CHECK(oracle->count <= ORACLE_CALLS);
    *call = (struct call){.grpc_status = -1, .stays_open = stays_open, .request_size = size};
    call->request = malloc(size + 1);
    CHECK(call->request);
    if (size > 0)
        memcpy(call->request, request, size);
    call->id = nghttp2_submit_request(oracle->session, NULL, fields, sizeof fields / sizeof *fields,
                                      &provider, call);
    CHECK(call->id > 0);
    if (oracle->together)
        collect(oracle);
    return call;
}

/* A call of `messages` requests that ask for `response_size` each. */
static inline struct call *start(struct oracle *oracle, const char *path, unsigned messages,
                                 uint32_t response_size, uint32_t payload, bool stays_open)
{
    size_t size = 0;
    uint8_t *request = malloc(((size_t)payload + 64) * (messages + 1));

    CHECK(request);
    for (unsigned i = 0; i < messages; i++)
        size += put_request(request + size, response_size, payload);
    struct call *call = start_bytes(oracle, path, request, size, stays_open);
    free(request);
    return call;
}

/* More to send on a call that stays open. */
static inline void send_more(struct oracle *oracle, struct call *call, uint32_t response_size, bool last)
{
    uint8_t *grown = realloc(call->request, call->request_size + 64);

    CHECK(grown);
    call->request = grown;
    call->request_size += put_request(grown + call->request_size, response_size, 0);
    call->stays_open = !last;
    CHECK(nghttp2_session_resume_data(oracle->session, call->id) == 0);
}

static inline void end_side(struct oracle *oracle, struct call *call)
{
    call->stays_open = false;
    CHECK(nghttp2_session_resume_data(oracle->session, call->id) == 0);
}

static inline void cancel(struct oracle *oracle, struct call *call)
{
    CHECK(nghttp2_submit_rst_stream(oracle->session, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL) == 0);
}

static inline void check_ok(const struct call *call, uint64_t messages, uint64_t body_bytes)
{
    CHECK(call->closed && call->ended && call->error_code == 0);
    CHECK(call->http_status == 200 && call->grpc_content_type && call->grpc_status == 0);
    CHECK(call->messages == messages && call->body_bytes == body_bytes && call->have == 0);
}

static inline void check_failed(const struct call *call, int status)
{
    CHECK(call->closed && call->ended && call->error_code == 0);
    CHECK(call->http_status == 200 && call->grpc_content_type && call->grpc_status == status);
    CHECK(call->message[0] != 0);
}

#endif
