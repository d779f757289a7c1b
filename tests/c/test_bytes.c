/* Tests of base/bytes: a queue of bytes against a plain model, and its bounds. */
#include "base/bytes.h"

#include <string.h>

#include "base/random.h"
#include "check.h"

/* ASan otherwise ends the process where malloc would return NULL. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void empty_has_nothing(void)
{
    struct gp_bytes bytes;

    gp_bytes_init(&bytes);
    CHECK(gp_bytes_length(&bytes) == 0 && bytes.data == NULL);
    CHECK(gp_bytes_append(&bytes, NULL, 0) == 0 && bytes.data == NULL);
    gp_bytes_take(&bytes, 0);
    gp_bytes_clear(&bytes);
    gp_bytes_fini(&bytes);
    gp_bytes_fini(&bytes); /* a second time is fine */
}

static void what_goes_in_comes_out(void)
{
    struct gp_bytes bytes;

    gp_bytes_init(&bytes);
    CHECK(gp_bytes_append(&bytes, "hello ", 6) == 0);
    CHECK(gp_bytes_append(&bytes, "world", 5) == 0);
    CHECK(gp_bytes_length(&bytes) == 11);
    CHECK(memcmp(gp_bytes_front(&bytes), "hello world", 11) == 0);
    gp_bytes_take(&bytes, 6);
    CHECK(gp_bytes_length(&bytes) == 5 && memcmp(gp_bytes_front(&bytes), "world", 5) == 0);
    gp_bytes_take(&bytes, 5);
    CHECK(bytes.start == 0 && bytes.end == 0 && bytes.capacity > 0); /* the room is kept */
    gp_bytes_fini(&bytes);
    CHECK(bytes.data == NULL && bytes.capacity == 0);
}

static void reserve_gives_room_at_the_end(void)
{
    struct gp_bytes bytes;

    gp_bytes_init(&bytes);
    CHECK(gp_bytes_append(&bytes, "abc", 3) == 0);
    CHECK(gp_bytes_reserve(&bytes, 5000) == 0);
    CHECK(bytes.capacity - bytes.end >= 5000);
    memset(bytes.data + bytes.end, 'z', 5000); /* ASan watches */
    bytes.end += 5000;
    CHECK(gp_bytes_length(&bytes) == 5003 && memcmp(gp_bytes_front(&bytes), "abcz", 4) == 0);
    gp_bytes_fini(&bytes);
}

static void the_impossible_is_refused_and_nothing_lost(void)
{
    struct gp_bytes bytes;

    gp_bytes_init(&bytes);
    CHECK(gp_bytes_append(&bytes, "abc", 3) == 0);
    CHECK(gp_bytes_reserve(&bytes, SIZE_MAX) == -1);     /* would wrap */
    CHECK(gp_bytes_reserve(&bytes, SIZE_MAX / 2) == -1); /* no such memory */
    CHECK(gp_bytes_length(&bytes) == 3 && memcmp(gp_bytes_front(&bytes), "abc", 3) == 0);
    gp_bytes_fini(&bytes);
}

/* A queue that is emptied as fast as it is filled must not grow, whatever the sizes. */
static void steady_use_stays_small(void)
{
    struct gp_bytes bytes;
    uint8_t chunk[100] = {0};

    gp_bytes_init(&bytes);
    CHECK(gp_bytes_append(&bytes, chunk, 50) == 0);
    for (int i = 0; i < 100000; i++) {
        CHECK(gp_bytes_append(&bytes, chunk, 100) == 0);
        gp_bytes_take(&bytes, 100);
    }
    CHECK(gp_bytes_length(&bytes) == 50);
    CHECK(bytes.capacity <= 1024);
    gp_bytes_fini(&bytes);
}

/* The n-th byte ever put in is n modulo 251, so what comes out can be told without keeping a copy. */
static void random_use_keeps_order(void)
{
    struct gp_bytes bytes;
    struct gp_random random;
    uint64_t in = 0, out = 0;
    uint8_t chunk[700];

    gp_bytes_init(&bytes);
    gp_random_init(&random, 1);
    for (int step = 0; step < 20000; step++) {
        size_t size = gp_random_below(&random, sizeof chunk);
        for (size_t i = 0; i < size; i++)
            chunk[i] = (uint8_t)((in + i) % 251);
        CHECK(gp_bytes_append(&bytes, chunk, size) == 0);
        in += size;
        CHECK(gp_bytes_length(&bytes) == in - out);
        size = gp_random_below(&random, gp_bytes_length(&bytes) + 1);
        for (size_t i = 0; i < size; i++)
            CHECK(gp_bytes_front(&bytes)[i] == (out + i) % 251);
        gp_bytes_take(&bytes, size);
        out += size;
        if (step % 1000 == 999) {
            gp_bytes_clear(&bytes);
            out = in;
        }
    }
    gp_bytes_fini(&bytes);
}

int main(void)
{
    empty_has_nothing();
    what_goes_in_comes_out();
    reserve_gives_room_at_the_end();
    the_impossible_is_refused_and_nothing_lost();
    steady_use_stays_small();
    random_use_keeps_order();
    return 0;
}
