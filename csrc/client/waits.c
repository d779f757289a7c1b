/* waits: three lists in one table. Time is given, connections are not known here. */
#include "client/waits.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

static const struct gp_waits_list empty = {GP_WAITS_NONE, GP_WAITS_NONE};

int gp_waits_init(struct gp_waits *waits, uint32_t max_in_flight, uint64_t span_ns)
{
    *waits = (struct gp_waits){
        .calls = calloc(max_in_flight, sizeof *waits->calls),
        .span_ns = span_ns,
        .ages = empty,
        .waiting = empty,
        .failed = empty,
    };
    return waits->calls ? 0 : -1;
}

void gp_waits_fini(struct gp_waits *waits)
{
    free(waits->calls);
    waits->calls = NULL;
}

/* --- lists: `offset` tells which of a call's two links -------------------------------------------- */

static struct gp_waits_link *link_of(struct gp_waits *waits, uint32_t id, size_t offset)
{
    return (struct gp_waits_link *)((char *)&waits->calls[id] + offset);
}

#define AGE offsetof(struct gp_waits_call, age)
#define PLACE offsetof(struct gp_waits_call, place)

static void append(struct gp_waits *waits, struct gp_waits_list *list, uint32_t id, size_t offset)
{
    *link_of(waits, id, offset) = (struct gp_waits_link){list->last, GP_WAITS_NONE};
    if (list->last == GP_WAITS_NONE)
        list->first = id;
    else
        link_of(waits, list->last, offset)->next = id;
    list->last = id;
}

static void detach(struct gp_waits *waits, struct gp_waits_list *list, uint32_t id, size_t offset)
{
    struct gp_waits_link link = *link_of(waits, id, offset);

    if (link.previous == GP_WAITS_NONE)
        list->first = link.next;
    else
        link_of(waits, link.previous, offset)->next = link.next;
    if (link.next == GP_WAITS_NONE)
        list->last = link.previous;
    else
        link_of(waits, link.next, offset)->previous = link.previous;
}

/* --- deadlines --------------------------------------------------------------------------------- */

void gp_waits_begin(struct gp_waits *waits, uint32_t id, uint64_t now_ns)
{
    struct gp_waits_call *call = &waits->calls[id];

    if (waits->span_ns == 0)
        return;
    assert(!call->aged && !call->waiting);
    call->submitted_ns = now_ns;
    call->aged = true;
    append(waits, &waits->ages, id, AGE);
}

static void forget_age(struct gp_waits *waits, uint32_t id)
{
    if (!waits->calls[id].aged)
        return;
    waits->calls[id].aged = false;
    detach(waits, &waits->ages, id, AGE);
}

void gp_waits_end(struct gp_waits *waits, uint32_t id)
{
    forget_age(waits, id);
    waits->calls[id].held = waits->calls[id].retried = false;
}

uint64_t gp_waits_due_ns(const struct gp_waits *waits)
{
    if (waits->ages.first == GP_WAITS_NONE)
        return UINT64_MAX;
    return waits->calls[waits->ages.first].submitted_ns + waits->span_ns;
}

uint32_t gp_waits_expire(struct gp_waits *waits, uint64_t now_ns)
{
    uint32_t id = waits->ages.first;

    if (gp_waits_due_ns(waits) > now_ns)
        return GP_WAITS_NONE;
    forget_age(waits, id);
    return id;
}

/* --- waiting for a connection ------------------------------------------------------------------ */

void gp_waits_hold(struct gp_waits *waits, uint32_t id, uint64_t now_ns)
{
    struct gp_waits_call *call = &waits->calls[id];

    assert(!call->waiting);
    call->held_ns = now_ns;
    call->held = call->waiting = true;
    append(waits, &waits->waiting, id, PLACE);
}

uint32_t gp_waits_release(struct gp_waits *waits)
{
    uint32_t id = waits->waiting.first;

    if (id == GP_WAITS_NONE)
        return id;
    waits->calls[id].waiting = false;
    detach(waits, &waits->waiting, id, PLACE);
    return id;
}

void gp_waits_fail(struct gp_waits *waits, uint32_t id, enum gp_class class)
{
    struct gp_waits_call *call = &waits->calls[id];

    if (call->waiting)
        detach(waits, &waits->waiting, id, PLACE);
    call->waiting = false;
    call->class = (uint8_t)class;
    append(waits, &waits->failed, id, PLACE);
}

uint32_t gp_waits_take_failed(struct gp_waits *waits)
{
    uint32_t id = waits->failed.first;

    if (id != GP_WAITS_NONE)
        detach(waits, &waits->failed, id, PLACE);
    return id;
}
