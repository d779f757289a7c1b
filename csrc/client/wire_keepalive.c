/* wire_keepalive: whether a quiet connection is still there. It is asked by a PING (RFC 9113, 6.7), and given
 * up when nothing at all has come for a while after that: as gRPC's keepalive (proposal A8), but for its
 * bound on how often a client may ask, which is the server's to enforce. */
#include "client/wire.h"

#include <stdio.h>

#include "base/clock.h"

#define TIMEOUT_NS (20 * GP_NS_PER_S)

static uint64_t timeout_ns(const struct wire_client *client)
{
    return client->keepalive.timeout_ns > 0 ? client->keepalive.timeout_ns : TIMEOUT_NS;
}

static void look_by(struct wire_client *client, uint64_t at_ns)
{
    if (at_ns < client->keepalive_ns)
        client->keepalive_ns = at_ns;
}

void wire_keepalive_opened(struct wire_client *client, struct wire_link *link)
{
    wire_keepalive_heard(link, client->now_ns);
    if (client->keepalive.time_ns > 0)
        look_by(client, client->now_ns + client->keepalive.time_ns);
}

static void give_up(struct wire_client *client, struct wire_link *link)
{
    char cause[64];

    snprintf(cause, sizeof cause, "keepalive: no answer to a PING within %.3g s",
             (double)timeout_ns(client) / (double)GP_NS_PER_S);
    wire_link_lose(client, link, cause);
}

/* Asks, gives up, or does nothing yet; returns when to look again. */
static uint64_t look(struct wire_client *client, struct wire_link *link)
{
    uint64_t now_ns = client->now_ns, time_ns = client->keepalive.time_ns;

    if (link->asked_ns > 0 && now_ns - link->asked_ns >= timeout_ns(client)) {
        give_up(client, link);
        return UINT64_MAX;
    }
    if (link->asked_ns > 0)
        return link->asked_ns + timeout_ns(client);
    if (now_ns - link->heard_ns < time_ns)
        return link->heard_ns + time_ns;
    if (link->outstanding == 0 && !client->keepalive.without_calls)
        return now_ns + time_ns;
    gp_wire_ping(link->wire);
    wire_link_mark_dirty(client, link);
    link->asked_ns = now_ns;
    return now_ns + timeout_ns(client);
}

/* An answer makes a connection due again earlier than it was thought to be: so not later than `time`. */
void wire_keepalive_tend(struct wire_client *client)
{
    if (client->now_ns < client->keepalive_ns)
        return;
    client->keepalive_ns = UINT64_MAX;
    for (uint32_t index = 0; index < client->link_count; index++) {
        struct wire_link *link = client->links[index];

        if (!link || (link->state != WIRE_OPEN && link->state != WIRE_LEAVING))
            continue;
        look_by(client, look(client, link));
        look_by(client, client->now_ns + client->keepalive.time_ns);
    }
}
