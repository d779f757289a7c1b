/* When bytes leave the far end of a link: a function of when they came, how many they are, and what came
 * before them. One for each direction, shared by all connections. Pure.
 *
 *     through the wire = max(arrival, wire free) + bytes / rate        the wire takes one after the other
 *     due              = through the wire + delay + a random part of jitter
 *
 * What waits for the wire is a queue in front of the link. It is kept short, a few milliseconds, by not
 * reading from the senders while it is full: their own sockets hold the rest, as with a real interface. */
#ifndef GP_RELAY_PACE_H
#define GP_RELAY_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

struct gp_link_opts {
    uint64_t delay_ns, jitter_ns; /* one way; each chunk is up to jitter_ns later than delay_ns */
    uint64_t rate;                /* bytes per second, each way; 0: no bound */
    uint64_t idle_ns;             /* a connection quiet for so long is forgotten; 0: none is */
    uint64_t seed;
};

struct gp_pace {
    const struct gp_link_opts *opts;
    uint64_t free_ns; /* when the wire will be through with what it was given */
    bool pressed;     /* senders have been waiting for room, and have had something ever since */
    struct gp_random random;
};

void gp_pace_init(struct gp_pace *pace, const struct gp_link_opts *opts, uint64_t seed);

/* Whether bytes are on their way for any time at all. */
bool gp_pace_shapes(const struct gp_pace *pace);

/* The most bytes that are to be sent as one piece. */
size_t gp_pace_piece(const struct gp_pace *pace);

/* 0: there is room in front of the wire; else when there will be. */
uint64_t gp_pace_full_until(const struct gp_pace *pace, uint64_t now_ns);

/* Senders wait for room (`waiting`), or one was found to have no more. While they wait, the wire does not
 * stand still for our being late, but takes what was there all along. */
void gp_pace_press(struct gp_pace *pace, bool waiting);

/* Put `size` bytes on the wire; when they are due at its far end. */
uint64_t gp_pace_send(struct gp_pace *pace, size_t size, uint64_t now_ns);

/* What sockets on either side of a link may buffer, near its bandwidth-delay product; 0: as much as they
 * like. */
int gp_pace_socket_bytes(const struct gp_link_opts *opts);

#endif
