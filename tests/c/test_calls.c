/* calls: finished ones come out in order, each once, however few are taken at a time. What the kinds demand
 * is tested through connections (test_connection.c). */
#include "wire/calls.h"

#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "check.h"

#define CALLS 50u

static struct gp_calls *make(uint32_t max_in_flight)
{
    struct gp_request request = {.message = "abc", .message_bytes = 3};
    struct gp_calls *calls;

    CHECK(gp_calls_create(&calls, &(struct gp_calls_opts){max_in_flight, &request}, NULL) == 0);
    return calls;
}

static void events_come_in_order(uint64_t seed)
{
    struct gp_calls *calls = make(CALLS);
    struct gp_event events[CALLS];
    struct gp_random random;
    uint64_t finished = 0, taken = 0;

    gp_random_init(&random, seed);
    while (taken < 20000) {
        uint32_t id = (uint32_t)gp_random_below(&random, CALLS);
        if (finished - taken < CALLS && calls->slab[id].state == GP_CALL_FREE &&
            gp_random_below(&random, 3)) {
            calls->slab[id] = (struct gp_call){.sent_ns = finished, .received = id, .state = GP_CALL_OPEN};
            gp_calls_finish(calls, id, GP_CLASS_OK, id % 2, 10 * finished);
            CHECK(gp_calls_newest(calls)->sent_ns == finished);
            finished++;
        }
        if (gp_random_below(&random, 30))
            continue;
        size_t count = gp_calls_take(calls, events, gp_random_below(&random, CALLS + 1));
        for (size_t i = 0; i < count; i++, taken++)
            CHECK(events[i].sent_ns == taken && events[i].done_ns == 10 * taken &&
                  events[i].messages_received == events[i].id && events[i].refused == events[i].id % 2);
    }
    CHECK(gp_calls_take(calls, events, CALLS) == finished - taken);
    CHECK(gp_calls_take(calls, events, CALLS) == 0);
    gp_calls_destroy(calls);
}

static void message_is_framed_once(void)
{
    struct gp_calls *calls = make(1);

    CHECK(calls->pool->framed_bytes == 8 && memcmp(calls->pool->framed, "\0\0\0\0\3abc", 8) == 0);
    CHECK(memcmp(calls->pool->frame, "\0\0\x08\0\0\0\0\0\0", GP_FRAME_HEADER_BYTES) == 0);
    gp_calls_destroy(calls);
}

static void nonsense_is_refused(void)
{
    struct gp_request request = {.message = "", .message_bytes = (size_t)UINT32_MAX};
    struct gp_calls *calls;
    struct gp_error err;

    CHECK(gp_calls_create(&calls, &(struct gp_calls_opts){1, &request}, &err) == -1 && !calls);
    CHECK(err.code == GP_ERROR_INVALID);
    request.message_bytes = 0;
    CHECK(gp_calls_create(&calls, &(struct gp_calls_opts){0, &request}, &err) == -1 && !calls);
    CHECK(err.code == GP_ERROR_INVALID);
    gp_calls_destroy(NULL);
}

int main(void)
{
    for (uint64_t seed = 0; seed < 5; seed++)
        events_come_in_order(seed);
    message_is_framed_once();
    nonsense_is_refused();
    return 0;
}
