/* One direction of a relayed connection: bytes read on one side, kept until they are due, and written on the
 * other. Their order is kept, also that of the end of the stream. */
#ifndef GP_RELAY_LANE_H
#define GP_RELAY_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_chunk;
struct gp_pace;

#define GP_LANE_READ_BYTES (1u << 20) /* of the buffer that all lanes share */

enum gp_lane_state {
    GP_LANE_OPEN,
    GP_LANE_CLOSED, /* the end of the stream has come out, or there is nobody any more to read it */
    GP_LANE_CUT,    /* broken: the whole connection is over, and its peers are to be told by a reset */
};

struct gp_lane {
    struct gp_pace *pace;
    struct gp_chunk *first, *last; /* what is on its way */
    size_t held;                   /* bytes of it */
    uint64_t latest_ns;            /* when the last of it is due */
    bool ended;                    /* nothing more goes in */
    bool blocked;                  /* the socket it comes out of is full */
    enum gp_lane_state state;
};

void gp_lane_init(struct gp_lane *lane, struct gp_pace *pace);
void gp_lane_fini(struct gp_lane *lane);

/* 0: there is room for more; else from when on, GP_LANE_NOT_NOW when time alone will not make any. */
#define GP_LANE_NOT_NOW UINT64_MAX
uint64_t gp_lane_room_at(const struct gp_lane *lane, uint64_t now_ns);

/* Read what has come on `from`. Where nothing is shaped and `to` (-1: not yet connected) takes it, it goes
 * there at once. Returns the number of bytes. */
size_t gp_lane_take_in(struct gp_lane *lane, int from, int to, uint8_t *buffer, uint64_t now_ns);

/* Put the end of the stream on its way. */
void gp_lane_end(struct gp_lane *lane, uint64_t now_ns);

/* When something is due; UINT64_MAX: nothing that time alone would bring. */
uint64_t gp_lane_due_ns(const struct gp_lane *lane);

/* Write what is due to `to`. */
void gp_lane_put_out(struct gp_lane *lane, int to, uint64_t now_ns);

#endif
