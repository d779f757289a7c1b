/* lane: a queue of chunks, each with the time at which it is due. */
#include "relay/lane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/socket.h"
#include "relay/pace.h"

#define MOST_HELD (64u << 20) /* on its way at a time: 1.6 GB/s through 40 ms */
#define READS 4u              /* in a row, before others get their turn */
#define PIECES 64u

enum what { DATA, END, CUT };

struct gp_chunk {
    struct gp_chunk *next;
    uint64_t due_ns;
    size_t start, end; /* of data, what is not yet out */
    enum what what;
    uint8_t data[];
};

void gp_lane_init(struct gp_lane *lane, struct gp_pace *pace)
{
    *lane = (struct gp_lane){.pace = pace};
}

static void drop_first(struct gp_lane *lane)
{
    struct gp_chunk *chunk = lane->first;

    lane->first = chunk->next;
    if (!lane->first)
        lane->last = NULL;
    free(chunk);
}

void gp_lane_fini(struct gp_lane *lane)
{
    while (lane->first)
        drop_first(lane);
}

/* --- in ---------------------------------------------------------------------------------------- */

uint64_t gp_lane_room_at(const struct gp_lane *lane, uint64_t now_ns)
{
    if (lane->ended || lane->held >= (gp_pace_shapes(lane->pace) ? MOST_HELD : 1))
        return GP_LANE_NOT_NOW;
    return gp_pace_full_until(lane->pace, now_ns);
}

/* Behind all that came before it. */
static void put_on_its_way(struct gp_lane *lane, enum what what, const uint8_t *data, size_t size,
                           uint64_t due_ns)
{
    struct gp_chunk *chunk = malloc(sizeof *chunk + size);

    if (!chunk) {
        lane->ended = true;
        lane->state = GP_LANE_CUT;
        return;
    }
    lane->latest_ns = due_ns > lane->latest_ns ? due_ns : lane->latest_ns;
    *chunk = (struct gp_chunk){.due_ns = lane->latest_ns, .end = size, .what = what};
    if (size > 0)
        memcpy(chunk->data, data, size);
    if (lane->last)
        lane->last->next = chunk;
    else
        lane->first = chunk;
    lane->last = chunk;
    lane->held += size;
}

static void finish(struct gp_lane *lane, enum what what, uint64_t now_ns)
{
    if (lane->ended)
        return;
    lane->ended = true;
    put_on_its_way(lane, what, NULL, 0, gp_pace_send(lane->pace, 0, now_ns));
}

void gp_lane_end(struct gp_lane *lane, uint64_t now_ns)
{
    finish(lane, END, now_ns);
}

/* The reader is gone: there is nowhere for the rest to go. What became of it, the lane the other way learns
 * from the same socket. */
static void give_up(struct gp_lane *lane)
{
    gp_lane_fini(lane);
    lane->held = 0;
    lane->ended = true;
    lane->state = GP_LANE_CLOSED;
}

/* Without shaping: what the other side does not take now is due as soon as it does. */
static void pass_on(struct gp_lane *lane, int to, const uint8_t *data, size_t size)
{
    const struct iovec piece = {(void *)data, size};
    size_t written = 0;
    enum gp_io io = GP_IO_AGAIN;

    if (to >= 0 && !lane->first)
        io = gp_socket_write(to, &piece, 1, &written);
    if (io == GP_IO_ERROR) {
        give_up(lane);
    } else if (written < size) {
        lane->blocked = to >= 0;
        put_on_its_way(lane, DATA, data + written, size - written, 0);
    }
}

/* One read; whether there may be more. */
static bool take_one(struct gp_lane *lane, int from, int to, uint8_t *buffer, uint64_t now_ns, size_t *got)
{
    bool shapes = gp_pace_shapes(lane->pace);
    size_t most = shapes ? gp_pace_piece(lane->pace) : GP_LANE_READ_BYTES;
    enum gp_io io = gp_socket_read(from, buffer, most, got);

    if (*got < most)
        gp_pace_press(lane->pace, false);
    switch (io) {
    case GP_IO_OK:
        if (shapes)
            put_on_its_way(lane, DATA, buffer, *got, gp_pace_send(lane->pace, *got, now_ns));
        else
            pass_on(lane, to, buffer, *got);
        return shapes && *got == most;
    case GP_IO_CLOSED:
        gp_lane_end(lane, now_ns);
        return false;
    case GP_IO_ERROR:
        finish(lane, CUT, now_ns);
        return false;
    case GP_IO_AGAIN:
        return false;
    }
    return false;
}

size_t gp_lane_take_in(struct gp_lane *lane, int from, int to, uint8_t *buffer, uint64_t now_ns)
{
    size_t got, all = 0;
    bool more = true;

    for (unsigned i = 0; more && i < READS && gp_lane_room_at(lane, now_ns) == 0; i++) {
        more = take_one(lane, from, to, buffer, now_ns, &got);
        all += got;
    }
    if (more && gp_pace_full_until(lane->pace, now_ns))
        gp_pace_press(lane->pace, true);
    return all;
}

/* --- out --------------------------------------------------------------------------------------- */

uint64_t gp_lane_due_ns(const struct gp_lane *lane)
{
    return lane->first && !lane->blocked && lane->state == GP_LANE_OPEN ? lane->first->due_ns : UINT64_MAX;
}

static size_t gather(const struct gp_lane *lane, uint64_t now_ns, struct iovec *pieces)
{
    size_t count = 0;

    for (struct gp_chunk *chunk = lane->first; chunk && count < PIECES; chunk = chunk->next) {
        if (chunk->due_ns > now_ns || chunk->what != DATA)
            break;
        pieces[count++] = (struct iovec){chunk->data + chunk->start, chunk->end - chunk->start};
    }
    return count;
}

static void written(struct gp_lane *lane, size_t size)
{
    lane->held -= size;
    while (size > 0) {
        struct gp_chunk *chunk = lane->first;
        size_t part = chunk->end - chunk->start < size ? chunk->end - chunk->start : size;

        chunk->start += part;
        size -= part;
        if (chunk->start == chunk->end)
            drop_first(lane);
    }
}

/* Whether there may be more that is due. */
static bool put_data(struct gp_lane *lane, int to, uint64_t now_ns)
{
    struct iovec pieces[PIECES];
    size_t size, count = gather(lane, now_ns, pieces);

    if (count == 0)
        return false;
    enum gp_io io = gp_socket_write(to, pieces, count, &size);
    lane->blocked = io == GP_IO_AGAIN;
    if (io == GP_IO_ERROR)
        give_up(lane);
    else
        written(lane, size);
    return io == GP_IO_OK;
}

void gp_lane_put_out(struct gp_lane *lane, int to, uint64_t now_ns)
{
    lane->blocked = false;
    while (lane->state == GP_LANE_OPEN && lane->first && lane->first->due_ns <= now_ns) {
        if (lane->first->what == DATA) {
            if (!put_data(lane, to, now_ns))
                return;
            continue;
        }
        lane->state = lane->first->what == CUT ? GP_LANE_CUT : GP_LANE_CLOSED;
        if (lane->state == GP_LANE_CLOSED)
            shutdown(to, SHUT_WR);
        drop_first(lane);
    }
}
