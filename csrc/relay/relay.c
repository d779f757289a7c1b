/* relay: one loop over all descriptors and times. */
#include "relay/relay.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <malloc.h>
#include <gnu/libc-version.h>

#include "base/clock.h"
#include "base/error.h"
#include "relay/deaf.h"

#define ACCEPTED_AT_ONCE 64u
#define ACKNOWLEDGED_MS 100u
#define AWAKE_NS 80000ull          /* before a time of a short delay */
#define LEAST_AWAITED_NS 500000ull /* of a shorter delay it would be awake most of the time */
#define SHORT_DELAY_NS 10000000ull /* of a longer one a late waking is within a percent or two */
#define HEAP_KEPT                                                                                            \
    (64 << 20) /* what has come is freed when it has gone: its pages are wanted again at once                \
                */

/* --- pairs and their times ---------------------------------------------------------------------- */

static void retire(struct gp_relay *relay, struct gp_pair *pair)
{
    gp_timer_heap_remove(&relay->times, &pair->timer);
    pair->next->previous = pair->previous;
    pair->previous->next = pair->next;
    pair->previous = NULL;
    pair->next = relay->over;
    relay->over = pair;
}

/* After whatever happened to a pair. */
static void follow_up(struct gp_relay *relay, struct gp_pair *pair, uint64_t now_ns)
{
    if (pair->previous == NULL)
        return;
    uint64_t due_ns = gp_pair_due_ns(&relay->fabric, pair, now_ns);
    bool planned = pair->timer.place != 0;
    if (pair->state == GP_PAIR_OVER) {
        retire(relay, pair);
    } else if (!planned || pair->timer.at_ns != due_ns) {
        gp_timer_heap_remove(&relay->times, &pair->timer);
        if (due_ns != UINT64_MAX && gp_timer_heap_add(&relay->times, &pair->timer, due_ns) < 0) {
            gp_pair_reset(&relay->fabric, pair);
            retire(relay, pair);
        }
    }
}

static void bury(struct gp_relay *relay)
{
    while (relay->over) {
        struct gp_pair *pair = relay->over;
        relay->over = pair->next;
        gp_pair_destroy(&relay->fabric, pair);
    }
}

static void welcome(struct gp_relay *relay, uint64_t now_ns)
{
    for (unsigned i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = gp_listener_accept(&relay->listener);
        struct gp_pair *pair = fd < 0 ? NULL : gp_pair_create(&relay->fabric, fd, now_ns);
        if (!pair)
            return;
        pair->next = relay->pairs.next;
        pair->previous = &relay->pairs;
        pair->next->previous = pair;
        relay->pairs.next = pair;
        gp_pair_tick(&relay->fabric, pair, now_ns);
        follow_up(relay, pair, now_ns);
    }
}

static void tick(struct gp_relay *relay, uint64_t now_ns)
{
    struct gp_timer *first;

    while ((first = gp_timer_heap_first(&relay->times)) && first->at_ns <= now_ns) {
        struct gp_pair *pair = (struct gp_pair *)((char *)first - offsetof(struct gp_pair, timer));
        gp_timer_heap_remove(&relay->times, first);
        gp_pair_tick(&relay->fabric, pair, now_ns);
        follow_up(relay, pair, now_ns);
    }
}

/* --- what the parent asks ----------------------------------------------------------------------- */

static int read_memstats(void *context, bool settle, Grpcperf__Control__MemStats *memstats,
                         struct gp_error *err)
{
    return gp_report_memory(settle, memstats, err);
}

static void set_blackhole(struct gp_relay *relay, bool on)
{
    if (relay->blackhole == on)
        return;
    relay->blackhole = on;
    if (on) {
        gp_deaf_set(relay->listener.fd);
        gp_poller_remove(&relay->poller, relay->listener.fd);
    } else {
        gp_deaf_clear(relay->listener.fd);
        gp_poller_add(&relay->poller, relay->listener.fd, &relay->listener, false, NULL);
    }
}

static void impair_one(struct gp_relay *relay, struct gp_pair *pair, Grpcperf__Control__Impair__How how,
                       uint64_t now_ns)
{
    switch (how) {
    case GRPCPERF__CONTROL__IMPAIR__HOW__HEAL:
        gp_pair_undeafen(&relay->fabric, pair, now_ns);
        break;
    case GRPCPERF__CONTROL__IMPAIR__HOW__BLACKHOLE:
        gp_pair_stop(&relay->fabric, pair);
        break;
    case GRPCPERF__CONTROL__IMPAIR__HOW__RESET:
        gp_pair_reset(&relay->fabric, pair);
        break;
    case GRPCPERF__CONTROL__IMPAIR__HOW__CLOSE_CLIENT:
        gp_pair_half_close(&relay->fabric, pair, GP_CLIENT, now_ns);
        break;
    case GRPCPERF__CONTROL__IMPAIR__HOW__CLOSE_SERVER:
        gp_pair_half_close(&relay->fabric, pair, GP_SERVER, now_ns);
        break;
    default:
        break;
    }
}

static bool all_acknowledged(const struct gp_relay *relay)
{
    for (const struct gp_pair *pair = relay->pairs.next; pair != &relay->pairs; pair = pair->next)
        if (!gp_pair_is_acknowledged(pair))
            return false;
    return true;
}

/* Peers that read acknowledge within 40 ms. There is nothing else to do meanwhile. */
static void deafen_all(struct gp_relay *relay)
{
    const struct timespec pause = gp_clock_timespec(GP_NS_PER_MS);

    for (unsigned i = 0; i < ACKNOWLEDGED_MS && !all_acknowledged(relay); i++)
        nanosleep(&pause, NULL);
    for (struct gp_pair *pair = relay->pairs.next; pair != &relay->pairs; pair = pair->next)
        gp_pair_deafen(pair);
}

static void impair(void *context, Grpcperf__Control__Impair__How how)
{
    struct gp_relay *relay = context;
    uint64_t now_ns = gp_clock_now_ns();

    if (how == GRPCPERF__CONTROL__IMPAIR__HOW__HEAL || how == GRPCPERF__CONTROL__IMPAIR__HOW__BLACKHOLE)
        set_blackhole(relay, how == GRPCPERF__CONTROL__IMPAIR__HOW__BLACKHOLE);
    for (struct gp_pair *pair = relay->pairs.next, *next; pair != &relay->pairs; pair = next) {
        next = pair->next;
        impair_one(relay, pair, how, now_ns);
        follow_up(relay, pair, now_ns);
    }
    if (how == GRPCPERF__CONTROL__IMPAIR__HOW__BLACKHOLE)
        deafen_all(relay);
}

int gp_relay_report(struct gp_relay *relay, int fd, struct gp_error *err)
{
    char versions[64];

    snprintf(versions, sizeof versions, "grpcperf-relay %s, glibc %s", GP_VERSION, gnu_get_libc_version());
    relay->report =
        (struct gp_report){.fd = fd, .context = relay, .memstats = read_memstats, .impair = impair};
    if (gp_report_ready(&relay->report, relay->listener.port, versions) < 0)
        return gp_error_errno(err, "cannot write to the control channel, descriptor %d", fd);
    return gp_poller_add(&relay->poller, fd, &relay->report, false, err);
}

/* --- its life ----------------------------------------------------------------------------------- */

int gp_relay_start(struct gp_relay *relay, const struct gp_relay_options *options, struct gp_error *err)
{
    *relay = (struct gp_relay){.options = options};
    relay->pairs.next = relay->pairs.previous = &relay->pairs;
    relay->fabric = (struct gp_fabric){
        .poller = &relay->poller,
        .opts = &options->link,
        .target = &options->target,
        .buffer = malloc(GP_LANE_READ_BYTES),
    };
    gp_pace_init(&relay->fabric.paces[GP_CLIENT], &options->link, 2 * options->link.seed);
    gp_pace_init(&relay->fabric.paces[GP_SERVER], &options->link, 2 * options->link.seed + 1);
    mallopt(M_MMAP_THRESHOLD, HEAP_KEPT / 2);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
    if (!relay->fabric.buffer)
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory");
    if (gp_arguments_use_cpus(&options->arguments, err) < 0)
        return -1;
    gp_arguments_raise_fd_limit();
    if (gp_poller_init(&relay->poller, false, err) < 0 ||
        gp_listener_open(&relay->listener, options->arguments.listen, err) < 0)
        return -1;
    return gp_poller_add(&relay->poller, relay->listener.fd, &relay->listener, false, err);
}

/* False: the parent is gone, or wants no more. */
static bool serve(struct gp_relay *relay, const struct gp_ready *ready, uint64_t now_ns)
{
    if (ready->owner == &relay->report)
        return gp_report_answer(&relay->report);
    if (ready->owner == &relay->listener) {
        if (!relay->blackhole)
            welcome(relay, now_ns);
        return true;
    }
    struct gp_end *end = ready->owner;
    gp_pair_serve(&relay->fabric, end, ready->readable, ready->writable, now_ns);
    follow_up(relay, end->pair, now_ns);
    return true;
}

/* A sleeper wakes tens of microseconds late, more in a virtual machine: of a delay of a millisecond that is
 * several percent. So before a time that a short delay depends on it wakes early, and looks until it is
 * there. */
static uint64_t next_wake_ns(const struct gp_relay *relay)
{
    const struct gp_timer *first = gp_timer_heap_first(&relay->times);
    uint64_t delay_ns = relay->fabric.opts->delay_ns;

    if (!first)
        return UINT64_MAX;
    return first->at_ns - (delay_ns >= LEAST_AWAITED_NS && delay_ns <= SHORT_DELAY_NS ? AWAKE_NS : 0);
}

void gp_relay_run(struct gp_relay *relay)
{
    for (;;) {
        uint64_t now_ns;
        size_t count = gp_poller_wait(&relay->poller, next_wake_ns(relay), &now_ns);
        tick(relay, now_ns);
        for (size_t i = 0; i < count; i++)
            if (!serve(relay, &relay->poller.ready[i], now_ns))
                return;
        bury(relay);
    }
}
