/* Records found by stream ids, against a plain array; answers owed, against a plain list. */
#include <string.h>

#include "base/random.h"
#include "check.h"
#include "wire/streams.h"

#define IDS 4000u

static void taken_are_found_and_forgotten_are_not(void)
{
    struct gp_streams streams = {0};

    CHECK(!gp_streams_find(&streams, 1) && !gp_streams_find(&streams, 0));
    for (uint32_t id = 1; id < 2000; id += 2)
        CHECK(gp_streams_take(&streams, id)->id == id);
    CHECK(streams.count == 1000 && !gp_streams_find(&streams, 2) && !gp_streams_find(&streams, 0));
    for (uint32_t id = 1; id < 2000; id += 2) {
        struct gp_stream *stream = gp_streams_find(&streams, id);
        CHECK(stream && stream->id == id && gp_streams_index(&streams, stream) == id / 2);
        gp_streams_forget(&streams, stream);
        CHECK(!gp_streams_find(&streams, id));
        gp_streams_give(&streams, stream);
    }
    CHECK(streams.count == 0);
    uint32_t used = streams.used;
    for (uint32_t id = 2001; id < 4000; id += 2)
        gp_streams_take(&streams, id);
    CHECK(streams.used == used); /* records are used again */
    gp_streams_fini(&streams);
}

/* Which ids are in use, told by a plain array. Ids are spread, so that many have one home. */
static void any_order(uint64_t seed, uint32_t spread)
{
    struct gp_streams streams = {0};
    struct gp_random random;
    static bool in_use[IDS];
    uint32_t count = 0;

    memset(in_use, 0, sizeof in_use);
    gp_random_init(&random, seed);
    for (unsigned step = 0; step < 20000; step++) {
        uint32_t number = (uint32_t)gp_random_below(&random, step % 2000 < 1000 ? IDS : 50),
                 id = 1 + 2 * spread * number;
        struct gp_stream *stream = gp_streams_find(&streams, id);
        CHECK(!stream == !in_use[number] && (!stream || stream->id == id));
        if (stream) {
            gp_streams_forget(&streams, stream);
            gp_streams_give(&streams, stream);
            count--;
        } else {
            stream = gp_streams_take(&streams, id);
            CHECK(stream->credit == 0 && !stream->gone && stream->run.count == 0);
            stream->credit = 5;
            count++;
        }
        in_use[number] = !in_use[number];
        CHECK(streams.count == count);
    }
    for (uint32_t number = 0; number < IDS; number++)
        CHECK(!gp_streams_find(&streams, 1 + 2 * spread * number) == !in_use[number]);
    gp_streams_fini(&streams);
}

static void a_queued_record_stays(void)
{
    struct gp_streams streams = {0};
    struct gp_stream *first = gp_streams_take(&streams, 1);
    uint32_t index = gp_streams_index(&streams, first);

    first->queued = true;
    gp_streams_forget(&streams, first);
    for (uint32_t id = 3; id < 100; id += 2)
        CHECK(gp_streams_index(&streams, gp_streams_take(&streams, id)) != index);
    first = &streams.records[index];
    CHECK(first->gone && !gp_streams_find(&streams, 1));
    first->queued = false;
    gp_streams_give(&streams, first);
    CHECK(gp_streams_index(&streams, gp_streams_take(&streams, 101)) == index);
    gp_streams_fini(&streams);
}

static void answers_come_in_order(uint64_t seed)
{
    struct gp_streams streams = {0};
    struct gp_stream *stream = gp_streams_take(&streams, 1);
    struct gp_random random;
    static int32_t sizes[20000];
    uint32_t owed = 0, given = 0;
    int32_t size;

    gp_random_init(&random, seed);
    CHECK(!gp_stream_next(stream, &size));
    for (unsigned step = 0; step < 10000; step++) {
        if (gp_random_below(&random, 100) < (step / 500 % 2 ? 45 : 55)) {
            sizes[owed] = (int32_t)gp_random_below(&random, 3);
            if (gp_stream_owe(stream, sizes[owed]) == 0)
                owed++;
        } else {
            bool any = gp_stream_next(stream, &size);
            CHECK(any == (given < owed) && (!any || size == sizes[given]));
            given += any;
        }
    }
    gp_streams_fini(&streams);
}

static void runs_are_limited(void)
{
    struct gp_streams streams = {0};
    struct gp_stream *stream = gp_streams_take(&streams, 1);
    int32_t size;

    for (unsigned i = 0; i < 100000; i++)
        CHECK(gp_stream_owe(stream, 7) == 0); /* of one size they are only counted */
    for (unsigned i = 0; i < GP_STREAM_RUNS; i++)
        CHECK(gp_stream_owe(stream, i % 2) == 0);
    CHECK(gp_stream_owe(stream, 5) != 0);
    CHECK(gp_stream_next(stream, &size) && size == 7);
    gp_streams_fini(&streams);
}

int main(void)
{
    taken_are_found_and_forgotten_are_not();
    any_order(1, 1);
    any_order(2, 64);
    any_order(3, 4096);
    a_queued_record_stays();
    answers_come_in_order(1);
    answers_come_in_order(2);
    runs_are_limited();
    return 0;
}
