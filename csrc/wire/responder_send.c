/* responder: what goes out. Small things are written into one buffer as they arise; answers whose size or
 * number the peer's windows have a say in wait in a queue, and are made when somebody gathers. Bodies are
 * zeros that are never copied when there are many. */
#include "wire/responder_parts.h"

#include <assert.h>
#include <string.h>

#define ZERO_BYTES (256u << 10)
#define COPY_BYTES 1024u           /* a body up to here is copied, which is cheaper than a piece */
#define PENDING_BYTES (256u << 10) /* enough for one system call to be worth it */
#define CROWD_BYTES (4u << 20)
#define CROWD_STREAMS 65536u
#define TURN_FRAMES 16u /* that a stream may send before it is the next one's turn */
#define TURN_PIECES 3u  /* at most, that a frame adds, and what follows it */

/* Never written, so the kernel backs all of it with its one page of zeros. */
static uint8_t zeros[ZERO_BYTES];

/* --- pieces */

static struct gp_responder_piece *piece_at(struct gp_responder *responder, uint32_t index)
{
    return &responder->pieces[(responder->piece_first + index) % GP_RESPONDER_PIECES];
}

static void add_piece(struct gp_responder *responder, size_t size, bool is_zeros)
{
    uint32_t count = responder->piece_count;

    responder->pending += size;
    if (count > 0 && piece_at(responder, count - 1)->zeros == is_zeros && !is_zeros) {
        piece_at(responder, count - 1)->size += (uint32_t)size;
        return;
    }
    assert(count < GP_RESPONDER_PIECES);
    *piece_at(responder, responder->piece_count++) = (struct gp_responder_piece){(uint32_t)size, is_zeros};
}

/* One owned piece always finds a place: zeros are added only while there are several. */
static bool has_places(const struct gp_responder *responder)
{
    return responder->piece_count + TURN_PIECES <= GP_RESPONDER_PIECES;
}

uint8_t *gp_responder_room(struct gp_responder *responder, size_t size)
{
    if (gp_bytes_reserve(&responder->out, size) == 0)
        return responder->out.data + responder->out.end;
    responder->phase = GP_RESPONDER_OVER;
    return NULL;
}

void gp_responder_add(struct gp_responder *responder, size_t size)
{
    responder->out.end += size;
    add_piece(responder, size, false);
}

void gp_responder_put_u32(struct gp_responder *responder, enum gp_frame_type type, uint32_t id,
                          uint32_t value)
{
    uint8_t *room = gp_responder_room(responder, GP_FRAME_HEADER_BYTES + 4);

    if (!room)
        return;
    gp_frame_write(room, (struct gp_frame){.length = 4, .type = type, .stream_id = id});
    gp_put_u32(room + GP_FRAME_HEADER_BYTES, value);
    gp_responder_add(responder, GP_FRAME_HEADER_BYTES + 4);
}

/* --- the queue of those with something to send */

void gp_responder_queue(struct gp_responder *responder, struct gp_stream *stream)
{
    uint32_t index = gp_streams_index(&responder->streams, stream);

    stream->blocked = false;
    if (stream->queued)
        return;
    stream->queued = true;
    stream->next = GP_STREAM_NONE;
    if (responder->first == GP_STREAM_NONE)
        responder->first = index;
    else
        responder->streams.records[responder->last].next = index;
    responder->last = index;
}

static struct gp_stream *unqueue(struct gp_responder *responder)
{
    struct gp_stream *stream = &responder->streams.records[responder->first];

    responder->first = stream->next;
    stream->queued = false;
    return stream;
}

/* Back to the place it was just taken from: if it was the only one, it is still known as the last. */
static void requeue(struct gp_responder *responder, struct gp_stream *stream)
{
    stream->queued = true;
    stream->next = responder->first;
    responder->first = gp_streams_index(&responder->streams, stream);
}

/* --- answers */

static void put_headers(struct gp_responder *responder, struct gp_stream *stream)
{
    uint8_t *room = stream->headers_sent ? NULL : gp_responder_room(responder, GP_REPLY_BYTES);

    if (!room)
        return;
    gp_responder_add(responder, gp_reply_headers(&responder->reply, room, stream->id));
    stream->headers_sent = true;
}

void gp_responder_trailers(struct gp_responder *responder, struct gp_stream *stream)
{
    put_headers(responder, stream);
    uint8_t *room = gp_responder_room(responder, GP_REPLY_BYTES);
    if (room)
        gp_responder_add(responder, gp_reply_ok(&responder->reply, room, stream->id));
    gp_responder_close(responder, stream);
}

/* The next answer, if one is due. Streams without an end always have one. */
static bool begin_answer(struct gp_stream *stream)
{
    uint8_t head[GP_BENCHMARK_HEAD_BYTES];
    bool endless = stream->kind == GP_KIND_SERVER_STREAM ||
                   (stream->kind == GP_KIND_BIDI_FREE && stream->asked && !stream->half_closed);

    if (endless)
        stream->response_size = stream->wanted;
    else if (!gp_stream_next(stream, &stream->response_size))
        return false;
    stream->left = (uint32_t)(gp_benchmark_head(stream->response_size, head) + (size_t)stream->response_size);
    return true;
}

/* DATA with the next `size` bytes of the answer. */
static void put_data(struct gp_responder *responder, struct gp_stream *stream, uint32_t size)
{
    uint8_t head[GP_BENCHMARK_HEAD_BYTES];
    size_t head_size = gp_benchmark_head(stream->response_size, head);
    size_t begin = head_size + (size_t)stream->response_size - stream->left;
    size_t from_head = begin < head_size ? head_size - begin : 0;
    from_head = from_head < size ? from_head : size;
    size_t body = size - from_head, copied = body <= COPY_BYTES ? body : 0;
    uint8_t *room = gp_responder_room(responder, GP_FRAME_HEADER_BYTES + from_head + copied);

    if (!room)
        return;
    gp_frame_write(room, (struct gp_frame){.length = size, .type = GP_FRAME_DATA, .stream_id = stream->id});
    memcpy(room + GP_FRAME_HEADER_BYTES, head + (begin < head_size ? begin : 0), from_head);
    memset(room + GP_FRAME_HEADER_BYTES + from_head, 0, copied);
    gp_responder_add(responder, GP_FRAME_HEADER_BYTES + from_head + copied);
    if (body > copied)
        add_piece(responder, body, true);
    stream->left -= size;
    stream->credit -= (int32_t)size;
    responder->send_window -= (int32_t)size;
}

/* How much of the answer may go out in one frame, windows aside. */
static uint32_t frame_bytes(const struct gp_responder *responder, const struct gp_stream *stream)
{
    uint32_t most = responder->peer.max_frame_size < ZERO_BYTES ? responder->peer.max_frame_size : ZERO_BYTES;

    return stream->left < most ? stream->left : most;
}

enum turn {
    ITS_NEXT, /* it has more to send, and may */
    STARVED,  /* likewise, but the connection's window is used up */
    AT_REST,  /* nothing to send, not allowed to, or over */
};

static enum turn rest(struct gp_responder *responder, struct gp_stream *stream)
{
    if (stream->half_closed)
        gp_responder_trailers(responder, stream);
    else
        gp_responder_allow(responder, stream); /* it was not, while answers were due */
    return AT_REST;
}

static enum turn take_turn(struct gp_responder *responder, struct gp_stream *stream)
{
    put_headers(responder, stream);
    for (unsigned frames = 0;; frames++) {
        if (stream->left == 0 && !begin_answer(stream))
            return rest(responder, stream);
        if (frames == TURN_FRAMES || !has_places(responder) || responder->phase == GP_RESPONDER_OVER)
            return ITS_NEXT;
        int64_t window = gp_responder_window(responder, stream);
        if (window <= 0) {
            stream->blocked = true;
            return AT_REST;
        }
        if (responder->send_window <= 0)
            return STARVED;
        window = window < responder->send_window ? window : responder->send_window;
        uint32_t size = frame_bytes(responder, stream);
        put_data(responder, stream, size < window ? size : (uint32_t)window);
    }
}

static void take_turns(struct gp_responder *responder)
{
    while (responder->first != GP_STREAM_NONE && responder->pending < PENDING_BYTES &&
           has_places(responder) && responder->phase != GP_RESPONDER_OVER) {
        struct gp_stream *stream = unqueue(responder);
        if (stream->gone) {
            gp_streams_give(&responder->streams, stream);
            continue;
        }
        enum turn turn = take_turn(responder, stream);
        if (turn == ITS_NEXT)
            gp_responder_queue(responder, stream);
        if (turn == STARVED) {
            requeue(responder, stream);
            return;
        }
    }
}

/* --- what the peer may send */

/* A client that sends on while answers to it are due is not allowed more until they are out. */
void gp_responder_allow(struct gp_responder *responder, struct gp_stream *stream)
{
    if (stream && (stream->half_closed || stream->received < GP_RESPONDER_STREAM_WINDOW / 2 ||
                   (stream->kind == GP_KIND_BIDI && stream->left + stream->run.count > 0)))
        return;
    if (!stream && responder->received < GP_RESPONDER_WINDOW / 2)
        return;
    uint32_t *received = stream ? &stream->received : &responder->received;
    gp_responder_put_u32(responder, GP_FRAME_WINDOW_UPDATE, stream ? stream->id : 0, *received);
    *received = 0;
}

/* --- out */

size_t gp_responder_gather(struct gp_responder *responder, struct iovec *pieces, size_t capacity)
{
    size_t owned = 0, count = 0;

    take_turns(responder);
    for (; count < capacity && count < responder->piece_count; count++) {
        const struct gp_responder_piece *piece = piece_at(responder, (uint32_t)count);
        pieces[count].iov_len = piece->size;
        pieces[count].iov_base = piece->zeros ? zeros : responder->out.data + responder->out.start + owned;
        owned += piece->zeros ? 0 : piece->size;
    }
    return count;
}

void gp_responder_written(struct gp_responder *responder, size_t bytes)
{
    assert(bytes <= responder->pending);
    responder->pending -= bytes;
    while (bytes > 0) {
        struct gp_responder_piece *piece = piece_at(responder, 0);
        uint32_t part = bytes < piece->size ? (uint32_t)bytes : piece->size;
        if (!piece->zeros)
            gp_bytes_take(&responder->out, part);
        piece->size -= part;
        bytes -= part;
        if (piece->size == 0) {
            responder->piece_first = (responder->piece_first + 1) % GP_RESPONDER_PIECES;
            responder->piece_count--;
        }
    }
}

bool gp_responder_crowded(const struct gp_responder *responder)
{
    return responder->pending > CROWD_BYTES || responder->streams.count > CROWD_STREAMS;
}

size_t gp_responder_pending(const struct gp_responder *responder)
{
    return responder->pending;
}
