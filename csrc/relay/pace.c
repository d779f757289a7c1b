/* pace: the arithmetic of rate, delay and jitter. */
#include "relay/pace.h"

#include "base/clock.h"

#define QUEUE_NS (2 * GP_NS_PER_MS)  /* in front of the wire */
#define LATE_NS (100 * GP_NS_PER_MS) /* after which something else is wrong than our being late */
#define PIECE_NS (250 * GP_NS_PER_US)
#define PIECE_LEAST 1500u
#define PIECE_RATED 16384u
#define PIECE_MOST 65536u
#define SOCKET_LEAST 32768.0
#define SOCKET_MOST 4194304.0
#define SOCKET_S                                                                                             \
    0.02 /* of the rate, as for a round trip of so long: a sender must be able to miss its turn */

void gp_pace_init(struct gp_pace *pace, const struct gp_link_opts *opts, uint64_t seed)
{
    *pace = (struct gp_pace){.opts = opts};
    gp_random_init(&pace->random, seed);
}

bool gp_pace_shapes(const struct gp_pace *pace)
{
    return pace->opts->rate || pace->opts->delay_ns || pace->opts->jitter_ns;
}

static uint64_t wire_ns(const struct gp_pace *pace, size_t size)
{
    return (uint64_t)((double)size * (double)GP_NS_PER_S / (double)pace->opts->rate);
}

size_t gp_pace_piece(const struct gp_pace *pace)
{
    double piece = (double)pace->opts->rate * (double)PIECE_NS / (double)GP_NS_PER_S;

    if (!pace->opts->rate)
        return PIECE_MOST;
    return piece < PIECE_LEAST ? PIECE_LEAST : piece > PIECE_RATED ? PIECE_RATED : (size_t)piece;
}

/* A slow wire may have one piece waiting behind the one it is at. */
uint64_t gp_pace_full_until(const struct gp_pace *pace, uint64_t now_ns)
{
    if (!pace->opts->rate)
        return 0;
    uint64_t piece_ns = wire_ns(pace, gp_pace_piece(pace));
    uint64_t room_ns = piece_ns > QUEUE_NS ? piece_ns : QUEUE_NS;
    return pace->free_ns > now_ns + room_ns ? pace->free_ns - room_ns : 0;
}

void gp_pace_press(struct gp_pace *pace, bool waiting)
{
    pace->pressed = waiting;
}

static uint64_t begin_ns(const struct gp_pace *pace, uint64_t now_ns)
{
    bool was_there = pace->pressed && pace->free_ns + LATE_NS > now_ns;

    return was_there || pace->free_ns > now_ns ? pace->free_ns : now_ns;
}

uint64_t gp_pace_send(struct gp_pace *pace, size_t size, uint64_t now_ns)
{
    const struct gp_link_opts *opts = pace->opts;
    uint64_t through_ns = now_ns;

    if (opts->rate) {
        pace->free_ns = begin_ns(pace, now_ns) + wire_ns(pace, size);
        through_ns = pace->free_ns;
    }
    return through_ns + opts->delay_ns + (uint64_t)((double)opts->jitter_ns * gp_random_unit(&pace->random));
}

int gp_pace_socket_bytes(const struct gp_link_opts *opts)
{
    double round_trip_s = 2.0 * (double)opts->delay_ns / (double)GP_NS_PER_S;
    double bytes = (double)opts->rate * (round_trip_s > SOCKET_S ? round_trip_s : SOCKET_S);

    if (!opts->rate)
        return 0;
    return (int)(bytes < SOCKET_LEAST ? SOCKET_LEAST : bytes > SOCKET_MOST ? SOCKET_MOST : bytes);
}
