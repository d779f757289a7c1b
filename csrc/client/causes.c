/* causes: a small table of texts, found by comparing, for causes are few and rare. */
#include "client/causes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER "other causes"

void gp_causes_init(struct gp_causes *causes)
{
    *causes = (struct gp_causes){0};
}

void gp_causes_fini(struct gp_causes *causes)
{
    free(causes->spans);
    causes->spans = NULL;
}

/* The last place is for all that have none; their class is that of the first. */
static uint32_t find(struct gp_causes *causes, enum gp_class class, const char *text)
{
    uint32_t i = 0;

    for (; i < causes->count; i++)
        if (causes->known[i].class == class &&
            strncmp(causes->known[i].text, text, GP_CLIENT_CAUSE_BYTES - 1) == 0)
            return i;
    if (i == GP_CLIENT_CAUSES)
        return i - 1;
    causes->known[i].class = class;
    causes->known[i].calls = 0;
    snprintf(causes->known[i].text, sizeof causes->known[i].text, "%s",
             i == GP_CLIENT_CAUSES - 1 ? OTHER : text);
    causes->count++;
    return i;
}

void gp_causes_add(struct gp_causes *causes, enum gp_class class, const char *text, uint64_t calls)
{
    if (calls > 0)
        causes->known[find(causes, class, text)].calls += calls;
}

/* Room for one more span, by moving to the front or by growing. */
static bool make_room(struct gp_causes *causes)
{
    size_t count = causes->last - causes->first;
    struct gp_causes_span *grown = causes->spans;

    if (causes->last < causes->capacity)
        return true;
    if (count < causes->capacity / 2) {
        memmove(causes->spans, causes->spans + causes->first, count * sizeof *causes->spans);
        causes->first = 0;
        causes->last = count;
        return true;
    }
    grown = realloc(causes->spans, (causes->capacity ? causes->capacity * 2 : 16) * sizeof *grown);
    if (!grown)
        return false;
    causes->spans = grown;
    causes->capacity = causes->capacity ? causes->capacity * 2 : 16;
    return true;
}

/* Without memory the calls are counted all the same, only not their cause. */
void gp_causes_note(struct gp_causes *causes, enum gp_class class, const char *text, uint64_t from,
                    uint64_t to)
{
    uint32_t cause;

    if (from == to || !make_room(causes))
        return;
    cause = find(causes, class, text);
    if (causes->last > causes->first) {
        struct gp_causes_span *before = &causes->spans[causes->last - 1];

        if (before->cause == cause && before->to == from) {
            before->to = to;
            return;
        }
    }
    causes->spans[causes->last++] = (struct gp_causes_span){from, to, cause};
}

/* The place of all that had none is for any class, but a cause of its own comes first. */
static const struct gp_causes_span *span_of(const struct gp_causes *causes, enum gp_class class, uint64_t at)
{
    const struct gp_causes_span *other = NULL;

    for (size_t i = causes->first; i < causes->last && causes->spans[i].from <= at; i++) {
        const struct gp_causes_span *span = &causes->spans[i];

        if (span->to <= at)
            continue;
        if (span->cause == GP_CLIENT_CAUSES - 1)
            other = span;
        else if (causes->known[span->cause].class == class)
            return span;
    }
    return other;
}

void gp_causes_pass(struct gp_causes *causes, enum gp_class class, uint64_t at)
{
    const struct gp_causes_span *span;

    while (gp_causes_pending(causes) && causes->spans[causes->first].to <= at)
        causes->first++;
    if (!gp_causes_pending(causes)) {
        causes->first = causes->last = 0;
        return;
    }
    span = span_of(causes, class, at);
    if (span)
        causes->known[span->cause].calls += class != GP_CLASS_OK;
}
