/* wire_slots: as many connections as were asked for, set up a bounded number at a time, kept, and replaced
 * when they are lost or take no more calls: at once, or after a pause that grows when that fails. */
#include "client/wire.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define SETTING_UP_MAX 128u /* at a time: more overflow the server's listen queue and cost seconds */
#define SCAN_NS (10 * GP_NS_PER_MS)
#define ATTEMPT_NS (20 * GP_NS_PER_S) /* for one to be set up; gRPC's own */
#define FIRST_PAUSE_NS (20 * GP_NS_PER_MS)
#define LONGEST_PAUSE_NS GP_NS_PER_S

/* --- life -------------------------------------------------------------------------------------- */

/* A connection that leaves overlaps with the one in its place, so there can be more links than slots: the
 * tables of links grow. */
static int grow_links(struct wire_client *client)
{
    uint32_t count = client->link_count ? client->link_count * 2 : client->slot_count + 8;
    struct wire_link **links = realloc(client->links, count * sizeof *links);

    if (links)
        client->links = links;
    uint32_t *free_links = realloc(client->free_links, count * sizeof *free_links);
    if (free_links)
        client->free_links = free_links;
    if (!links || !free_links)
        return -1;
    for (uint32_t index = count; index-- > client->link_count;) {
        client->links[index] = NULL;
        client->free_links[client->free_count++] = index;
    }
    client->link_count = count;
    return 0;
}

static void enqueue(struct wire_client *client, uint32_t slot)
{
    uint32_t at = client->queue_first + client->queue_count++;

    assert(client->queue_count <= client->slot_count);
    client->queue[at < client->slot_count ? at : at - client->slot_count] = slot;
    client->slots[slot].retry_ns = UINT64_MAX;
}

static uint32_t dequeue(struct wire_client *client)
{
    uint32_t slot = client->queue[client->queue_first];

    client->queue_first = client->queue_first + 1 == client->slot_count ? 0 : client->queue_first + 1;
    client->queue_count--;
    return slot;
}

int wire_slots_create(struct wire_client *client, const struct gp_client_opts *opts)
{
    uint32_t count = opts->connections;

    client->slot_count = count;
    client->slots = calloc(count, sizeof *client->slots);
    client->queue = calloc(count, sizeof *client->queue);
    client->open = calloc(count, sizeof *client->open);
    if (!client->slots || !client->queue || !client->open || grow_links(client) < 0 ||
        gp_pool_init(&client->pool, opts->pick, count, opts->max_in_flight, opts->lock) < 0)
        return -1;
    for (uint32_t slot = 0; slot < count; slot++)
        enqueue(client, slot);
    return 0;
}

void wire_slots_destroy(struct wire_client *client)
{
    for (uint32_t index = 0; index < client->link_count; index++)
        if (client->links[index] && client->links[index]->state != WIRE_CLOSED)
            wire_link_close(client, client->links[index]);
    wire_link_bury(client);
    free(client->links);
    free(client->free_links);
    free(client->slots);
    free(client->queue);
    free(client->open);
    gp_pool_fini(&client->pool);
}

/* --- which ones take calls --------------------------------------------------------------------- */

static void list(struct wire_client *client, struct wire_link *link)
{
    link->place = client->pool.connections;
    client->open[link->place] = link;
    gp_pool_add(&client->pool, link->outstanding);
}

static void unlist(struct wire_client *client, struct wire_link *link)
{
    uint32_t last = client->pool.connections - 1;

    if (link->place == WIRE_NONE)
        return;
    gp_pool_remove(&client->pool, link->place);
    client->open[link->place] = client->open[last];
    client->open[link->place]->place = link->place;
    link->place = WIRE_NONE;
}

void wire_slots_stuffed(struct wire_client *client, struct wire_link *link, bool stuffed)
{
    if (link->stuffed == stuffed || link->state != WIRE_OPEN)
        return;
    link->stuffed = stuffed;
    if (stuffed) {
        client->stuffed++;
        unlist(client, link);
    } else {
        client->stuffed--;
        list(client, link);
    }
}

/* It takes no calls, now or ever. */
static void retire(struct wire_client *client, struct wire_link *link)
{
    unlist(client, link);
    client->stuffed -= link->stuffed;
    link->stuffed = false;
}

/* --- what becomes of a connection -------------------------------------------------------------- */

/* The next attempt: at once for the first `grace` failures in a row, then after a
 * pause that doubles with each. */
static void try_again(struct wire_client *client, uint32_t number, uint32_t grace)
{
    struct wire_slot *slot = &client->slots[number];
    uint64_t pause_ns = FIRST_PAUSE_NS;

    slot->link = NULL;
    if (slot->failures <= grace) {
        enqueue(client, number);
        return;
    }
    for (uint32_t i = grace + 1; i < slot->failures && pause_ns < LONGEST_PAUSE_NS; i++)
        pause_ns *= 2;
    slot->retry_ns = client->now_ns + (pause_ns < LONGEST_PAUSE_NS ? pause_ns : LONGEST_PAUSE_NS);
    client->resting++;
}

void wire_slots_opened(struct wire_client *client, struct wire_link *link)
{
    struct wire_slot *slot = &client->slots[link->slot];

    client->setting_up--;
    client->reconnects += slot->was_ready;
    slot->was_ready = client->ever_ready = true;
    list(client, link);
}

/* A connection that was never of any use counts as a failure, or one that is turned away each time would be
 * made again without end. One that lived long was of use, whatever its calls were waiting for. */
static void judge_life(struct wire_client *client, const struct wire_link *link)
{
    struct gp_wire_stats stats;

    gp_wire_stats(link->wire, &stats);
    if (stats.messages_received > 0 || client->now_ns - link->began_ns >= LONGEST_PAUSE_NS)
        client->slots[link->slot].failures = 0;
    else
        client->slots[link->slot].failures++;
}

static void keep_failure(struct wire_client *client, const char *cause)
{
    snprintf(client->failure, sizeof client->failure, "%s", cause);
}

/* That another comes in its place was wanted: it is no reconnect, and nothing has failed. */
void wire_slots_spent(struct wire_client *client, struct wire_link *link)
{
    uint32_t slot = link->slot;

    retire(client, link);
    client->slots[slot] = (struct wire_slot){0};
    link->slot = WIRE_NONE;
    enqueue(client, slot);
}

void wire_slots_leaving(struct wire_client *client, struct wire_link *link)
{
    uint32_t slot = link->slot;

    retire(client, link);
    keep_failure(client, gp_wire_cause(link->wire));
    judge_life(client, link);
    link->slot = WIRE_NONE;
    try_again(client, slot, 1);
}

void wire_slots_lost(struct wire_client *client, struct wire_link *link, const char *cause)
{
    uint32_t slot = link->slot;
    bool was_open = link->state == WIRE_OPEN;

    retire(client, link);
    if (slot == WIRE_NONE)
        return;
    keep_failure(client, cause);
    if (was_open) {
        judge_life(client, link);
    } else {
        client->setting_up--;
        client->slots[slot].failures++;
    }
    link->slot = WIRE_NONE;
    try_again(client, slot, was_open);
}

/* --- setting up -------------------------------------------------------------------------------- */

static void open_one(struct wire_client *client)
{
    uint32_t number = dequeue(client);
    struct wire_slot *slot = &client->slots[number];
    struct gp_error err = {.message = "out of memory for a connection"};
    struct wire_link *link = NULL;

    if (client->free_count > 0 || grow_links(client) == 0)
        link = wire_link_open(client, number, &err);
    if (!link) {
        keep_failure(client, err.message);
        slot->failures++;
        try_again(client, number, 0);
        return;
    }
    slot->link = link;
    link->index = client->free_links[--client->free_count];
    client->links[link->index] = link;
    client->setting_up++;
}

static void look_at(struct wire_client *client, uint32_t number)
{
    struct wire_slot *slot = &client->slots[number];
    struct wire_link *link = slot->link;

    if (!link) {
        if (slot->retry_ns > client->now_ns || !client->ever_ready)
            return;
        client->resting--;
        enqueue(client, number);
    } else if (link->state < WIRE_OPEN && client->now_ns - link->began_ns > ATTEMPT_NS &&
               client->now_ns > link->began_ns) {
        wire_link_lose(client, link, "timed out setting up the connection");
    }
}

/* As long as none has ever been ready, one that fails speaks for those not yet tried. */
static bool may_open(const struct wire_client *client)
{
    return client->queue_count > 0 && client->setting_up < SETTING_UP_MAX &&
           (client->ever_ready || client->resting == 0);
}

void wire_slots_tend(struct wire_client *client)
{
    if (client->resting + client->setting_up > 0 && client->now_ns >= client->scan_ns) {
        for (uint32_t slot = 0; slot < client->slot_count; slot++)
            look_at(client, slot);
        client->scan_ns = client->now_ns + SCAN_NS;
    }
    while (may_open(client))
        open_one(client);
}

uint64_t wire_slots_due_ns(const struct wire_client *client)
{
    if (may_open(client))
        return 0;
    return client->resting + client->setting_up > 0 ? client->scan_ns : UINT64_MAX;
}
