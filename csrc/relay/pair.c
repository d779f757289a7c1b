/* pair: two sockets and two lanes. After whatever happens to it, `settle` looks what follows. */
#include "relay/pair.h"

#include <stdlib.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/poller.h"
#include "relay/deaf.h"
#include "relay/pace.h"

#define AGAIN_NS (2 * GP_NS_PER_MS) /* to ask a full listen queue again */

static enum gp_side side_of(const struct gp_end *end)
{
    return end == &end->pair->ends[GP_CLIENT] ? GP_CLIENT : GP_SERVER;
}

static enum gp_side other(enum gp_side side)
{
    return side == GP_CLIENT ? GP_SERVER : GP_CLIENT;
}

/* --- what the poller is asked ------------------------------------------------------------------- */

/* With no interest it is not watched at all, for a broken socket would be reported for ever. */
static void watch(struct gp_fabric *fabric, struct gp_end *end, bool reads, bool writes)
{
    if (end->fd < 0 || (end->reads == reads && end->writes == writes))
        return;
    if (!reads && !writes) {
        gp_poller_remove(fabric->poller, end->fd);
        end->watched = false;
    } else {
        if (!end->watched)
            gp_poller_add(fabric->poller, end->fd, end, false, NULL);
        end->watched = true;
        gp_poller_set(fabric->poller, end->fd, end, reads, writes);
    }
    end->reads = reads;
    end->writes = writes;
}

static void watch_all(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    bool connecting = pair->state == GP_PAIR_CONNECTS;

    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++) {
        bool reads = !pair->deaf && gp_lane_room_at(&pair->lanes[side], now_ns) == 0;
        bool writes = !pair->deaf && pair->lanes[other(side)].blocked;
        bool is_server = side == GP_SERVER;
        watch(fabric, &pair->ends[side], reads && !(is_server && connecting),
              writes || (is_server && connecting && !pair->deaf));
    }
}

/* --- its end ----------------------------------------------------------------------------------- */

static void close_end(struct gp_fabric *fabric, struct gp_end *end, bool reset)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (end->fd < 0)
        return;
    watch(fabric, end, false, false);
    if (reset)
        setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(end->fd);
    end->fd = -1;
}

static void finish(struct gp_fabric *fabric, struct gp_pair *pair, bool reset)
{
    close_end(fabric, &pair->ends[GP_CLIENT], reset);
    close_end(fabric, &pair->ends[GP_SERVER], reset);
    pair->state = GP_PAIR_OVER;
}

void gp_pair_reset(struct gp_fabric *fabric, struct gp_pair *pair)
{
    if (pair->state != GP_PAIR_OVER)
        finish(fabric, pair, true);
}

static void settle(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    const struct gp_lane *lanes = pair->lanes;

    if (lanes[GP_CLIENT].state == GP_LANE_CUT || lanes[GP_SERVER].state == GP_LANE_CUT)
        gp_pair_reset(fabric, pair);
    else if (lanes[GP_CLIENT].state == GP_LANE_CLOSED && lanes[GP_SERVER].state == GP_LANE_CLOSED)
        finish(fabric, pair, false);
    if (pair->state != GP_PAIR_OVER)
        watch_all(fabric, pair, now_ns);
}

/* --- its beginning ----------------------------------------------------------------------------- */

static void limit_buffers(const struct gp_fabric *fabric, int fd)
{
    int bytes = gp_pace_socket_bytes(fabric->opts);

    if (bytes == 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

struct gp_pair *gp_pair_create(struct gp_fabric *fabric, int fd, uint64_t now_ns)
{
    struct gp_pair *pair = calloc(1, sizeof *pair);

    if (!pair) {
        close(fd);
        return NULL;
    }
    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++) {
        pair->ends[side] = (struct gp_end){.pair = pair, .fd = side == GP_CLIENT ? fd : -1};
        gp_lane_init(&pair->lanes[side], &fabric->paces[side]);
    }
    limit_buffers(fabric, fd);
    pair->active_ns = now_ns;
    /* SYN, SYN-ACK and ACK: then the server would know of it. The kernel has shaken hands without us. */
    pair->open_ns = now_ns + 3 * fabric->opts->delay_ns;
    return pair;
}

static void opened(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    pair->state = GP_PAIR_OPEN;
    pair->active_ns = now_ns;
    gp_lane_put_out(&pair->lanes[GP_CLIENT], pair->ends[GP_SERVER].fd, now_ns);
}

/* A target that is not there: the client's connection is reset, for it has one already. */
static void connect_server(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    struct gp_end *server = &pair->ends[GP_SERVER];

    switch (gp_socket_connect(fabric->target, NULL, &server->fd)) {
    case GP_IO_OK:
        limit_buffers(fabric, server->fd);
        opened(fabric, pair, now_ns);
        break;
    case GP_IO_AGAIN:
        if (server->fd < 0) {
            pair->open_ns = now_ns + AGAIN_NS;
            break;
        }
        limit_buffers(fabric, server->fd);
        pair->state = GP_PAIR_CONNECTS;
        break;
    case GP_IO_CLOSED:
    case GP_IO_ERROR:
        gp_pair_reset(fabric, pair);
        break;
    }
}

static void finish_connecting(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    if (gp_socket_finish(pair->ends[GP_SERVER].fd) == GP_IO_OK)
        opened(fabric, pair, now_ns);
    else
        gp_pair_reset(fabric, pair);
}

/* --- its life ---------------------------------------------------------------------------------- */

static void put_out(struct gp_pair *pair, enum gp_side from, uint64_t now_ns)
{
    if (pair->state == GP_PAIR_OPEN)
        gp_lane_put_out(&pair->lanes[from], pair->ends[other(from)].fd, now_ns);
}

static void take_in(struct gp_fabric *fabric, struct gp_pair *pair, enum gp_side from, uint64_t now_ns)
{
    int to = pair->state == GP_PAIR_OPEN ? pair->ends[other(from)].fd : -1;

    if (gp_lane_take_in(&pair->lanes[from], pair->ends[from].fd, to, fabric->buffer, now_ns) > 0)
        pair->active_ns = now_ns;
    put_out(pair, from, now_ns); /* an end is due at once where nothing is shaped */
}

void gp_pair_serve(struct gp_fabric *fabric, struct gp_end *end, bool readable, bool writable,
                   uint64_t now_ns)
{
    struct gp_pair *pair = end->pair;
    enum gp_side side = side_of(end);

    if (pair->state == GP_PAIR_OVER || pair->deaf) /* told of before it came to that */
        return;
    if (pair->state == GP_PAIR_CONNECTS && side == GP_SERVER) {
        finish_connecting(fabric, pair, now_ns);
    } else {
        if (readable && end->reads)
            take_in(fabric, pair, side, now_ns);
        if (writable && end->writes)
            put_out(pair, other(side), now_ns);
    }
    settle(fabric, pair, now_ns);
}

static bool is_idle(const struct gp_fabric *fabric, const struct gp_pair *pair, uint64_t now_ns)
{
    return fabric->opts->idle_ns && now_ns >= pair->active_ns + fabric->opts->idle_ns;
}

void gp_pair_tick(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    if (pair->state == GP_PAIR_OVER || pair->deaf)
        return;
    if (pair->state == GP_PAIR_WAITS && now_ns >= pair->open_ns)
        connect_server(fabric, pair, now_ns);
    for (enum gp_side from = GP_CLIENT; from <= GP_SERVER; from++)
        if (gp_lane_due_ns(&pair->lanes[from]) <= now_ns)
            put_out(pair, from, now_ns);
    if (pair->state == GP_PAIR_OPEN && is_idle(fabric, pair, now_ns)) {
        pair->forgotten = true;
        gp_pair_stop(fabric, pair);
        gp_pair_deafen(pair);
    }
    if (!pair->deaf)
        settle(fabric, pair, now_ns);
}

uint64_t gp_pair_due_ns(const struct gp_fabric *fabric, const struct gp_pair *pair, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;

    if (pair->state == GP_PAIR_OVER || pair->deaf)
        return due_ns;
    if (pair->state == GP_PAIR_WAITS)
        due_ns = pair->open_ns;
    for (enum gp_side from = GP_CLIENT; from <= GP_SERVER; from++) {
        uint64_t out_ns = pair->state == GP_PAIR_OPEN ? gp_lane_due_ns(&pair->lanes[from]) : UINT64_MAX;
        uint64_t room_ns = gp_lane_room_at(&pair->lanes[from], now_ns);
        due_ns = out_ns < due_ns ? out_ns : due_ns;
        due_ns = room_ns && room_ns < due_ns ? room_ns : due_ns;
    }
    if (pair->state == GP_PAIR_OPEN && fabric->opts->idle_ns &&
        pair->active_ns + fabric->opts->idle_ns < due_ns)
        due_ns = pair->active_ns + fabric->opts->idle_ns;
    return due_ns;
}

/* --- faults ------------------------------------------------------------------------------------ */

void gp_pair_half_close(struct gp_fabric *fabric, struct gp_pair *pair, enum gp_side side, uint64_t now_ns)
{
    if (pair->state == GP_PAIR_OVER)
        return;
    gp_lane_end(&pair->lanes[side], now_ns);
    put_out(pair, side, now_ns);
    settle(fabric, pair, now_ns);
}

void gp_pair_stop(struct gp_fabric *fabric, struct gp_pair *pair)
{
    if (pair->state == GP_PAIR_OVER)
        return;
    pair->deaf = true;
    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++)
        watch(fabric, &pair->ends[side], false, false);
}

bool gp_pair_is_acknowledged(const struct gp_pair *pair)
{
    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++) {
        int left = 0;
        if (pair->ends[side].fd >= 0 && ioctl(pair->ends[side].fd, SIOCOUTQ, &left) == 0 && left > 0)
            return false;
    }
    return true;
}

void gp_pair_deafen(struct gp_pair *pair)
{
    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++)
        if (pair->ends[side].fd >= 0)
            gp_deaf_set(pair->ends[side].fd);
}

void gp_pair_undeafen(struct gp_fabric *fabric, struct gp_pair *pair, uint64_t now_ns)
{
    if (pair->forgotten)
        gp_pair_reset(fabric, pair);
    if (pair->state == GP_PAIR_OVER || !pair->deaf)
        return;
    pair->deaf = false;
    pair->active_ns = now_ns;
    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++)
        if (pair->ends[side].fd >= 0)
            gp_deaf_clear(pair->ends[side].fd);
    settle(fabric, pair, now_ns);
}

void gp_pair_destroy(struct gp_fabric *fabric, struct gp_pair *pair)
{
    gp_pair_reset(fabric, pair);
    for (enum gp_side side = GP_CLIENT; side <= GP_SERVER; side++)
        gp_lane_fini(&pair->lanes[side]);
    free(pair);
}
