/* connection: against nghttp2's server session, which knows nothing of us and checks every frame that we
 * send. Both ends keep their own windows, small ones, and bytes go over in random parts. */
#include <nghttp2/nghttp2.h>

#include "base/random.h"
#include "wire_peer.h"

#define STREAMS 1000u

struct setup {
    enum gp_kind kind;
    uint32_t messages;
    size_t message_bytes, answer_bytes;
    uint32_t server_window, server_streams, stream_window, connection_window;
    uint32_t calls, at_once; /* altogether, and in flight */
    bool aborts;             /* some calls are ended by us, at random */
};

struct stream {       /* as the server sees it */
    uint64_t bytes;   /* of framed messages received */
    uint32_t answers; /* begun or sent */
    uint64_t sent;    /* bytes of answers */
    bool half_closed, deferred;
};

struct server {
    const struct setup *setup;
    nghttp2_session *session;
    struct stream streams[STREAMS];
    uint64_t headers; /* requests that had what they must */
    bool path_seen;
};

/* --- the server -------------------------------------------------------------------------------- */

static struct stream *stream_of(struct server *server, int32_t id)
{
    CHECK((uint32_t)id / 2 < STREAMS);
    return &server->streams[(uint32_t)id / 2];
}

/* Answers that are due by now. */
static uint32_t owed(const struct setup *setup, const struct stream *stream)
{
    if (setup->kind == GP_KIND_UNARY || setup->kind == GP_KIND_CLIENT_STREAM)
        return stream->half_closed;
    if (setup->kind == GP_KIND_SERVER_STREAM)
        return stream->half_closed ? setup->messages + 2 : 0; /* more than the client wants */
    return (uint32_t)(stream->bytes / (setup->message_bytes + 5));
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_answers(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct server *server = user;
    struct stream *stream = stream_of(server, id);
    size_t answer = 5 + server->setup->answer_bytes;
    uint64_t due = (uint64_t)owed(server->setup, stream) * answer, size = 0;

    (void)source;
    for (; size < capacity && stream->sent < due; size++, stream->sent++) {
        size_t at = stream->sent % answer;
        out[size] = at >= 1 && at < 5 ? (uint8_t)(server->setup->answer_bytes >> (8 * (4 - at))) : 0;
    }
    if (stream->sent == due && stream->half_closed) {
        nghttp2_nv trailers[] = {field("grpc-status", "0")};
        *flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        CHECK(nghttp2_submit_trailer(session, id, trailers, 1) == 0);
    } else if (size == 0) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)size;
}

static void respond(struct server *server, int32_t id)
{
    nghttp2_nv headers[] = {field(":status", "200"), field("content-type", "application/grpc"),
                            field("x-many", "indexed by nghttp2")};
    nghttp2_data_provider provider = {.read_callback = read_answers};

    CHECK(nghttp2_submit_response(server->session, id, headers, 3, &provider) == 0);
}

static void resume(struct server *server, int32_t id)
{
    struct stream *stream = stream_of(server, id);

    if (stream->deferred)
        nghttp2_session_resume_data(server->session, id);
    stream->deferred = false;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct server *server = user;

    (void)session;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        CHECK(server->path_seen);
        server->path_seen = false;
        server->headers++;
        respond(server, frame->hd.stream_id);
    }
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
        stream_of(server, frame->hd.stream_id)->half_closed = true;
        resume(server, frame->hd.stream_id);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size,
                   void *user)
{
    (void)session, (void)flags, (void)data;
    stream_of(user, id)->bytes += size;
    resume(user, id);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t size, uint8_t flags, void *user)
{
    (void)session, (void)frame, (void)flags;
    if (name_size == 5 && memcmp(name, ":path", 5) == 0)
        ((struct server *)user)->path_seen = size == 20 && memcmp(value, "/test.Service/Method", 20) == 0;
    return 0;
}

static int on_invalid(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
    (void)session, (void)user;
    fprintf(stderr, "frame of type %u is not valid: %s\n", frame->hd.type, nghttp2_strerror(error));
    CHECK(false);
    return 0;
}

static void server_open(struct server *server, const struct setup *setup)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, setup->server_window},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, setup->server_streams},
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 1000},
    };

    memset(server, 0, sizeof *server);
    server->setup = setup;
    CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid);
    CHECK(nghttp2_session_server_new(&server->session, callbacks, server) == 0);
    nghttp2_session_callbacks_del(callbacks);
    CHECK(nghttp2_submit_settings(server->session, NGHTTP2_FLAG_NONE, settings, 3) == 0);
}

/* --- the conversation -------------------------------------------------------------------------- */

/* Our bytes to the server, some of them; whether there were any. */
static bool to_server(struct peer *peer, struct server *server, struct gp_random *random)
{
    struct iovec pieces[5];
    size_t count = gp_wire_gather(peer->wire, pieces, 5, NOW), written = 0;
    bool all = true;

    for (size_t i = 0; i < count && all; i++) {
        size_t size = 1 + gp_random_below(random, pieces[i].iov_len);
        all = size == pieces[i].iov_len;
        CHECK(nghttp2_session_mem_recv(server->session, pieces[i].iov_base, size) == (ssize_t)size);
        written += size;
    }
    gp_wire_written(peer->wire, written);
    return written > 0;
}

static bool from_server(struct peer *peer, struct server *server, struct gp_random *random)
{
    const uint8_t *data;
    ssize_t size = nghttp2_session_mem_send(server->session, &data);

    CHECK(size >= 0);
    for (ssize_t at = 0, part; at < size; at += part) {
        part = 1 + (ssize_t)gp_random_below(random, (uint64_t)(size - at));
        CHECK(gp_wire_receive(peer->wire, data + at, (size_t)part, NOW) == 0);
    }
    return size > 0;
}

static void check_event(const struct setup *setup, const struct gp_event *event)
{
    bool one = setup->kind == GP_KIND_UNARY || setup->kind == GP_KIND_CLIENT_STREAM;

    if (setup->aborts && event->class == GP_CLASS_CANCELLED)
        return;
    CHECK(event->class == GP_CLASS_OK);
    CHECK(event->messages_received == (one ? 1 : setup->messages));
}

static void converse(const struct setup *setup, uint64_t seed)
{
    static struct server server;
    struct peer peer;
    struct gp_random random;
    uint32_t submitted = 0, back = 0;

    gp_random_init(&random, seed);
    peer_open(&peer, &(struct peer_opts){.kind = setup->kind,
                                         .messages = setup->messages,
                                         .message_bytes = setup->message_bytes,
                                         .stream_window = setup->stream_window,
                                         .connection_window = setup->connection_window,
                                         .silent = true});
    server_open(&server, setup);
    CHECK(nghttp2_session_mem_recv(server.session, gp_bytes_front(&peer.said), gp_bytes_length(&peer.said)) ==
          (ssize_t)gp_bytes_length(&peer.said));
    while (back < setup->calls) {
        for (uint64_t id = 0; id < setup->at_once && submitted < setup->calls; id++)
            if (gp_calls_owner(peer.calls, id) == UINT32_MAX) {
                gp_wire_submit(peer.wire, id, NOW);
                submitted++;
            }
        bool moved = to_server(&peer, &server, &random);
        moved = from_server(&peer, &server, &random) || moved;
        if (setup->aborts && gp_random_below(&random, 20) == 0)
            gp_wire_abort(peer.wire, gp_random_below(&random, setup->at_once), GP_CLASS_CANCELLED, NOW);
        take_events(&peer);
        for (size_t i = 0; i < peer.event_count; i++)
            check_event(setup, &peer.events[i]);
        back += (uint32_t)peer.event_count;
        CHECK(moved || peer.event_count > 0); /* neither side waits for the other */
        peer.event_count = 0;
    }
    while (to_server(&peer, &server, &random) || from_server(&peer, &server, &random))
        continue;
    CHECK(server.headers <= submitted && (setup->aborts || server.headers == submitted));
    CHECK(gp_wire_open(peer.wire) && nghttp2_session_want_read(server.session));
    nghttp2_session_del(server.session);
    peer_close(&peer);
}

int main(void)
{
    static const struct setup setups[] = {
        /* kind, messages, their size, that of answers, the server's window and streams, ours, calls */
        {GP_KIND_UNARY, 0, 16, 16, 65535, 1000, 0, 0, 900, 60, false},
        {GP_KIND_UNARY, 0, 0, 0, 65535, 1000, 0, 0, 900, 1, false},
        {GP_KIND_UNARY, 0, 100000, 50, 3000, 100, 0, 0, 50, 20, false},
        {GP_KIND_UNARY, 0, 50, 100000, 65535, 100, 2000, 5000, 50, 20, false},
        {GP_KIND_UNARY, 0, 70000, 70000, 1, 3, 70000, 0, 4, 4, false},
        {GP_KIND_UNARY, 0, 20000, 20000, 10000, 7, 10000, 20000, 300, 60, true},
        {GP_KIND_CLIENT_STREAM, 5, 3000, 10, 4000, 10, 0, 0, 60, 30, false},
        {GP_KIND_CLIENT_STREAM, 20, 10, 10, 30, 10, 0, 0, 60, 30, true},
        {GP_KIND_SERVER_STREAM, 9, 10, 5000, 65535, 10, 6000, 9000, 60, 30, false},
        {GP_KIND_BIDI, 10, 10, 20, 65535, 100, 0, 0, 200, 60, false},
        {GP_KIND_BIDI, 10, 30000, 30000, 20000, 10, 20000, 30000, 20, 10, false},
        {GP_KIND_BIDI, 4, 2000, 2000, 1000, 10, 1000, 0, 100, 20, true},
        {GP_KIND_BIDI_FREE, 30, 100, 100, 65535, 10, 0, 0, 60, 30, false},
        {GP_KIND_BIDI_FREE, 5, 20000, 3000, 5000, 10, 5000, 9000, 40, 20, true},
    };

    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++)
        for (uint64_t seed = 0; seed < 4; seed++)
            converse(&setups[i], seed);
    return 0;
}
