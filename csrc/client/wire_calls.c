/* wire_calls: calls between submit and poll that are no connection's business: which connection takes one,
 * those that wait for any, deadlines, sending again, and taking in what has finished. */
#include "client/wire.h"

#include <stdio.h>

#include "base/clock.h"

#define PATIENCE_NS GP_NS_PER_S /* how long a call waits for a connection */

/* --- calls that no connection has -------------------------------------------------------------- */

/* The next connection that takes a call; NULL: none does. Stream ids may have come to their end. */
static struct wire_link *pick(struct wire_client *client)
{
    while (client->pool.connections > 0) {
        struct wire_link *link = client->open[gp_pool_take(&client->pool)];

        if (gp_wire_open(link->wire))
            return link;
        link->state = WIRE_LEAVING;
        wire_slots_leaving(client, link);
        wire_link_mark_dirty(client, link); /* so that it is closed if it has no calls */
    }
    return NULL;
}

bool wire_calls_place(struct wire_client *client, uint32_t id)
{
    struct wire_link *link;

    gp_pool_enter(&client->pool);
    link = pick(client);
    if (link)
        wire_link_submit(client, link, id);
    gp_pool_leave(&client->pool);
    return link != NULL;
}

static void release_held(struct wire_client *client)
{
    struct gp_waits *waits = &client->waits;

    while (gp_waits_any_held(waits) && wire_calls_place(client, waits->waiting.first))
        gp_waits_release(waits);
}

void wire_calls_fail_held(struct wire_client *client, enum gp_class class)
{
    while (gp_waits_any_held(&client->waits))
        gp_waits_fail(&client->waits, client->waits.waiting.first, class);
}

/* Calls wait as long as there is hope, and for a second at most. */
void wire_calls_tend_held(struct wire_client *client)
{
    struct gp_waits *waits = &client->waits;

    if (!gp_waits_any_held(waits))
        return;
    release_held(client);
    if (!wire_is_hopeful(client) && client->pool.connections == 0)
        wire_calls_fail_held(client, GP_CLASS_TRANSPORT);
    while (gp_waits_any_held(waits) &&
           client->now_ns - waits->calls[waits->waiting.first].held_ns >= PATIENCE_NS)
        gp_waits_fail(waits, waits->waiting.first, GP_CLASS_TRANSPORT);
}

uint64_t wire_calls_due_ns(const struct wire_client *client)
{
    const struct gp_waits *waits = &client->waits;
    uint64_t held_ns = UINT64_MAX, deadline_ns = gp_waits_due_ns(waits);

    if (gp_waits_any_held(waits))
        held_ns = waits->calls[waits->waiting.first].held_ns + PATIENCE_NS;
    return held_ns < deadline_ns ? held_ns : deadline_ns;
}

void wire_calls_expire(struct wire_client *client)
{
    uint32_t id;

    while ((id = gp_waits_expire(&client->waits, client->now_ns)) != GP_WAITS_NONE) {
        uint32_t owner = gp_calls_owner(client->calls, id);

        if (client->waits.calls[id].waiting) {
            gp_waits_fail(&client->waits, id, GP_CLASS_DEADLINE_EXCEEDED);
        } else if (owner != WIRE_NONE) { /* else it has finished and waits to be taken */
            struct wire_link *link = client->links[owner];

            gp_wire_abort(link->wire, id, GP_CLASS_DEADLINE_EXCEEDED, client->now_ns);
            wire_link_account(client, link);
            wire_link_mark_dirty(client, link);
        }
    }
}

/* --- finished calls ---------------------------------------------------------------------------- */

/* A call that its peer is known not to have begun may be sent again, and counts from when it was sent first.
 * Once, if a living peer has refused it; as often as it takes, if its connection went before its turn came: a
 * server that serves a hundred calls on each may let the same call meet the end of two. */
static bool retry(struct wire_client *client, const struct gp_event *event)
{
    struct gp_waits_call *call = &client->waits.calls[event->id];

    if (!event->refused || (call->retried && event->class != GP_CLASS_TRANSPORT) || client->cancelled ||
        (client->waits.span_ns > 0 && !call->aged)) /* its deadline has come */
        return false;
    client->eventful += !call->retried && !call->held;
    if (!call->retried)
        call->sent_ns = event->sent_ns;
    call->retried = true;
    client->retried++;
    if (gp_waits_any_held(&client->waits) || !wire_calls_place(client, (uint32_t)event->id))
        gp_waits_hold(&client->waits, (uint32_t)event->id, client->now_ns);
    return true;
}

static void forget(struct wire_client *client, uint64_t id)
{
    client->eventful -= client->waits.calls[id].retried || client->waits.calls[id].held;
    gp_waits_end(&client->waits, (uint32_t)id);
}

/* A server too cancels what is past its deadline. What it says is read before the time is looked at, and when
 * both have come, the deadline was the reason (so do gRPC's own clients). */
static bool is_late(const struct wire_client *client, const struct gp_event *event)
{
    const struct gp_waits *waits = &client->waits;

    return event->class == GP_CLASS_CANCELLED && waits->span_ns > 0 && !client->cancelled &&
           event->done_ns >= waits->calls[event->id].submitted_ns + waits->span_ns;
}

/* True: it is the caller's; false: it was sent again. */
static bool take_in(struct wire_client *client, struct gp_event *event)
{
    const struct gp_waits_call *call = &client->waits.calls[event->id];
    bool again = event->refused && retry(client, event);

    if (is_late(client, event))
        event->class = GP_CLASS_DEADLINE_EXCEEDED;
    if (gp_causes_pending(&client->causes))
        gp_causes_pass(&client->causes, again ? GP_CLASS_OK : event->class, client->taken);
    client->taken++;
    if (again)
        return false;
    if (call->retried)
        event->sent_ns = call->sent_ns;
    else
        event->held |= call->held;
    if (call->held && !call->retried && client->calls_per_connection < UINT64_MAX)
        event->sent_ns = call->held_ns; /* what churn costs: the wait for a connection is the call's own */
    forget(client, event->id);
    return true;
}

/* Whether a finished call is nothing but its event: then its other record is not even looked at. */
static bool is_plain(const struct wire_client *client, const struct gp_event *event)
{
    return !event->refused && client->waits.span_ns == 0 && client->eventful == 0 &&
           !gp_causes_pending(&client->causes);
}

static size_t take_finished(struct wire_client *client, struct gp_event *events, size_t capacity)
{
    size_t came = gp_calls_take(client->calls, events, capacity), count = 0;

    for (size_t i = 0; i < came; i++) {
        if (i != count)
            events[count] = events[i];
        if (is_plain(client, &events[count])) {
            client->taken++;
            count++;
        } else {
            count += take_in(client, &events[count]);
        }
    }
    return count;
}

static size_t take_failed(struct wire_client *client, struct gp_event *events, size_t capacity)
{
    char text[GP_CLIENT_CAUSE_BYTES + 32];
    uint64_t without = 0;
    size_t count = 0;
    uint32_t id;

    while (count < capacity && (id = gp_waits_take_failed(&client->waits)) != GP_WAITS_NONE) {
        const struct gp_waits_call *call = &client->waits.calls[id];

        events[count++] = (struct gp_event){
            .id = id,
            .sent_ns = call->retried ? call->sent_ns : client->now_ns,
            .done_ns = client->now_ns,
            .class = (enum gp_class)call->class,
            .held = call->held,
        };
        without += call->class == GP_CLASS_TRANSPORT;
        forget(client, id);
    }
    if (without > 0) {
        snprintf(text, sizeof text, "no connection takes calls: %s",
                 client->stuffed > 0 ? "the peer does not read" : client->failure);
        gp_causes_add(&client->causes, GP_CLASS_TRANSPORT, text, without);
    }
    return count;
}

size_t wire_calls_take(struct wire_client *client, struct gp_event *events, size_t capacity)
{
    size_t count = take_finished(client, events, capacity);

    return count + take_failed(client, events + count, capacity - count);
}
