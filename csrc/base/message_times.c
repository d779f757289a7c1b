/* message_times: from moments at which messages came to spans. Knows kinds of calls, but no transport. */
#include "base/message_times.h"

#include <assert.h>
#include <stdlib.h>

/* A first value makes a histogram allocate here instead of on the path of a message. */
static int warm(struct gp_histogram *histogram)
{
    gp_histogram_init(histogram);
    gp_histogram_record(histogram, 1);
    gp_histogram_reset(histogram);
    return histogram->counts ? 0 : -1;
}

int gp_message_times_init(struct gp_message_times *times, enum gp_kind kind, uint32_t max_in_flight)
{
    assert(kind == GP_KIND_SERVER_STREAM || kind == GP_KIND_BIDI || kind == GP_KIND_BIDI_FREE);
    *times = (struct gp_message_times){.kind = kind};
    gp_histogram_init(&times->first);
    gp_histogram_init(&times->gap);
    gp_histogram_init(&times->round_trip);
    times->marks = calloc(max_in_flight, sizeof *times->marks);
    if (!times->marks || warm(&times->first) != 0 ||
        warm(kind == GP_KIND_BIDI ? &times->round_trip : &times->gap) != 0) {
        gp_message_times_fini(times);
        return -1;
    }
    return 0;
}

void gp_message_times_fini(struct gp_message_times *times)
{
    gp_histogram_fini(&times->first);
    gp_histogram_fini(&times->gap);
    gp_histogram_fini(&times->round_trip);
    free(times->marks);
    times->marks = NULL;
    times->on = false;
}

/* In ping-pong the next message may be sent as soon as the last answer is here, so one mark serves both. */
void gp_message_times_came(struct gp_message_times *times, uint64_t id, uint32_t before, uint32_t count,
                           uint64_t now_ns)
{
    uint64_t mark_ns = times->marks[id];
    uint64_t span_ns = now_ns > mark_ns ? now_ns - mark_ns : 0;

    times->marks[id] = now_ns;
    if (!times->on || count == 0)
        return;
    if (before == 0)
        gp_histogram_record(&times->first, span_ns);
    if (times->kind == GP_KIND_BIDI) {
        gp_histogram_record(&times->round_trip, span_ns);
        return;
    }
    if (before > 0)
        gp_histogram_record(&times->gap, span_ns);
    gp_histogram_record_many(&times->gap, 0, count - 1);
}
