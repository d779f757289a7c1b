/* Length-prefixed messages, whole, cut at every byte and at random, plain and gzip, sound and broken. */
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/random.h"
#include "check.h"
#include "wire/message.h"

#define LIMIT 100000u

struct outcome {
    uint32_t messages;
    enum gp_message_fault fault;
    bool between;
};

/* Feeds `size` bytes in pieces of `step` (0: of random sizes), each in memory of its own. */
static struct outcome scan(const uint8_t *data, size_t size, size_t step, uint32_t max_bytes, bool gzip,
                           struct gp_random *random)
{
    struct gp_message_scan state = {0};
    struct outcome outcome = {.fault = GP_MESSAGE_FINE};

    for (size_t at = 0; at < size && outcome.fault == GP_MESSAGE_FINE;) {
        size_t piece = step ? step : 1 + gp_random_below(random, gp_random_below(random, 2) ? 6 : size);
        piece = piece < size - at ? piece : size - at;
        uint8_t *copy = malloc(piece);
        memcpy(copy, data + at, piece);
        outcome.messages += gp_message_scan(&state, copy, piece, max_bytes, gzip, &outcome.fault);
        free(copy);
        at += piece;
    }
    outcome.between = gp_message_between(&state);
    gp_message_scan_fini(&state);
    gp_message_scan_fini(&state);
    return outcome;
}

static void check_scan(const uint8_t *data, size_t size, uint32_t max_bytes, bool gzip, struct outcome wanted)
{
    struct gp_random random;

    gp_random_init(&random, size);
    for (size_t step = 0; step <= size; step++) {
        struct outcome got = scan(data, size, step, max_bytes, gzip, &random);
        CHECK(got.messages == wanted.messages && got.fault == wanted.fault && got.between == wanted.between);
    }
}

static void append_message(struct gp_bytes *stream, const void *message, size_t size, bool gzip)
{
    size_t framed_size;
    uint8_t *framed = gp_message_frame(message, size, gzip, &framed_size);

    CHECK(framed && gp_bytes_append(stream, framed, framed_size) == 0);
    free(framed);
}

/* A prefix of the stream, its own copy, must end inside a message unless it ends where one does. */
static void test_cut_at_every_byte(void)
{
    static const size_t sizes[] = {0, 16, 1, 0, 300, 5};
    uint8_t message[300];
    struct gp_bytes stream;
    size_t ends[sizeof sizes / sizeof sizes[0]];

    gp_bytes_init(&stream);
    memset(message, 0, sizeof message); /* looks like prefixes: a scan that slips is not noticed by luck */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        append_message(&stream, message, sizes[i], false);
        ends[i] = gp_bytes_length(&stream);
    }
    for (size_t size = 0; size <= gp_bytes_length(&stream); size++) {
        struct outcome wanted = {.fault = GP_MESSAGE_FINE, .between = size == 0};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            wanted.messages += ends[i] <= size;
            wanted.between = wanted.between || ends[i] == size;
        }
        check_scan(gp_bytes_front(&stream), size, LIMIT, false, wanted);
    }
    gp_bytes_fini(&stream);
}

static void fill(uint8_t *message, size_t size, struct gp_random *random)
{
    bool noise = gp_random_below(random, 2);

    for (size_t i = 0; i < size; i++)
        message[i] = noise ? (uint8_t)gp_random_u64(random) : (uint8_t)(i / 100);
}

/* Any messages, any cuts: as many come out as went in. */
static void test_random_streams(void)
{
    static uint8_t message[70000];
    struct gp_random random;

    gp_random_init(&random, 8);
    for (int round = 0; round < 300; round++) {
        struct gp_bytes stream;
        uint32_t count = (uint32_t)gp_random_below(&random, 10);
        gp_bytes_init(&stream);
        for (uint32_t i = 0; i < count; i++) {
            size_t size = gp_random_below(&random, gp_random_below(&random, 4) ? 40 : sizeof message);
            fill(message, size, &random);
            append_message(&stream, message, size, gp_random_below(&random, 2));
        }
        for (int cuts = 0; cuts < 10 && count > 0; cuts++) {
            struct outcome got = scan(gp_bytes_front(&stream), gp_bytes_length(&stream), 0,
                                      sizeof message + 1000, true, &random);
            CHECK(got.messages == count && got.fault == GP_MESSAGE_FINE && got.between);
        }
        gp_bytes_fini(&stream);
    }
}

/* Two good messages, then what is given: two are counted and the fault is found, wherever the cuts are. */
static void check_fault(const uint8_t *bad, size_t size, uint32_t max_bytes, bool gzip,
                        enum gp_message_fault fault)
{
    struct gp_bytes stream;

    gp_bytes_init(&stream);
    append_message(&stream, "good", 4, false);
    append_message(&stream, "", 0, false);
    CHECK(gp_bytes_append(&stream, bad, size) == 0);
    check_scan(gp_bytes_front(&stream), gp_bytes_length(&stream), max_bytes, gzip,
               (struct outcome){.messages = 2, .fault = fault, .between = true});
    gp_bytes_fini(&stream);
}

#define CHECK_FAULT(bytes, max_bytes, gzip, fault)                                                           \
    check_fault((const uint8_t *)(bytes), sizeof(bytes) - 1, max_bytes, gzip, fault)

static void test_flags_and_limits(void)
{
    uint8_t at_limit[5 + 64] = {0, 0, 0, 0, 64};

    CHECK_FAULT("\x02\0\0\0\x01x", LIMIT, true, GP_MESSAGE_BAD_FLAG);
    CHECK_FAULT("\xff\0\0\0\0", LIMIT, true, GP_MESSAGE_BAD_FLAG);
    CHECK_FAULT("\x01\0\0\0\x01x", LIMIT, false, GP_MESSAGE_BAD_FLAG);
    CHECK_FAULT("\x01\0\0\0\0", LIMIT, false, GP_MESSAGE_BAD_FLAG);
    CHECK_FAULT("\0\xff\xff\xff\xff", LIMIT, true, GP_MESSAGE_TOO_LARGE);
    CHECK_FAULT("\x01\xff\xff\xff\xff", LIMIT, true, GP_MESSAGE_TOO_LARGE);
    CHECK_FAULT("\0\0\0\0\x41yyyy", 64, true, GP_MESSAGE_TOO_LARGE);
    check_scan(at_limit, sizeof at_limit, 64, false, (struct outcome){.messages = 1, .between = true});
    check_scan(at_limit, sizeof at_limit, 63, false,
               (struct outcome){.fault = GP_MESSAGE_TOO_LARGE, .between = true});
    check_fault(at_limit, sizeof at_limit, 63, false, GP_MESSAGE_TOO_LARGE);
    check_scan((const uint8_t *)"\x01\0\0\0\0", 5, LIMIT, true,
               (struct outcome){.messages = 1, .between = true});
    check_scan((const uint8_t *)"\0\0\0\0\0", 5, 0, false, (struct outcome){.messages = 1, .between = true});
}

/* A compressed message is judged by what it grows to. */
static void test_gzip_limit(void)
{
    static uint8_t zeros[20000];
    size_t size;
    uint8_t *framed = gp_message_frame(zeros, sizeof zeros, true, &size);

    CHECK(framed && size < 200 && framed[0] == 1);
    check_scan(framed, size, sizeof zeros, true, (struct outcome){.messages = 1, .between = true});
    check_fault(framed, size, sizeof zeros - 1, true, GP_MESSAGE_TOO_LARGE);
    check_fault(framed, size, 200, true, GP_MESSAGE_TOO_LARGE);
    free(framed);
}

/* 200 MiB out of 200 KiB: refused after the limit's worth of work, not after 200 MiB. */
static void test_bomb(void)
{
    size_t zeros_size = (size_t)200 << 20, size;
    uint8_t *zeros = calloc(1, zeros_size);
    uint8_t *framed = gp_message_frame(zeros, zeros_size, true, &size);
    struct gp_message_scan state = {0};
    enum gp_message_fault fault;

    CHECK(framed && size < 1 << 20);
    CHECK(gp_message_scan(&state, framed, size, 4 << 20, true, &fault) == 0 && fault == GP_MESSAGE_TOO_LARGE);
    CHECK(!state.gzip);
    free(framed);
    free(zeros);
}

static void set_length(uint8_t *framed, size_t size)
{
    framed[1] = framed[2] = 0;
    framed[3] = (uint8_t)(size >> 8);
    framed[4] = (uint8_t)size;
}

/* Cut off, with a second member or rubbish behind, with any one bit changed, or no gzip at all. */
static void test_bad_gzip(void)
{
    uint8_t message[100], copy[400];
    size_t size;
    struct gp_random random;

    gp_random_init(&random, 9);
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)gp_random_below(&random, 20);
    uint8_t *framed = gp_message_frame(message, sizeof message, true, &size);
    CHECK(framed && size < 200);
    for (size_t cut = 6; cut < size; cut += 7) {
        memcpy(copy, framed, cut);
        set_length(copy, cut - 5);
        check_fault(copy, cut, LIMIT, true, GP_MESSAGE_BAD_GZIP);
    }
    memcpy(copy, framed, size);
    memcpy(copy + size, framed + 5, size - 5);
    set_length(copy, 2 * (size - 5));
    check_fault(copy, 2 * size - 5, LIMIT, true, GP_MESSAGE_BAD_GZIP);
    set_length(copy, size - 5 + 1);
    check_fault(copy, size + 1, LIMIT, true, GP_MESSAGE_BAD_GZIP);
    memcpy(copy, framed, size);
    copy[size - 6] ^= 1; /* the checksum */
    check_fault(copy, size, LIMIT, true, GP_MESSAGE_BAD_GZIP);
    copy[size - 6] ^= 1;
    copy[size - 1] ^= 1; /* the length */
    check_fault(copy, size, LIMIT, true, GP_MESSAGE_BAD_GZIP);
    CHECK_FAULT("\x01\0\0\0\x04text", LIMIT, true, GP_MESSAGE_BAD_GZIP);
    CHECK_FAULT("\x01\0\0\0\x02\x78\x9c", LIMIT, true, GP_MESSAGE_BAD_GZIP); /* zlib's format, not gzip's */
    free(framed);
}

/* Another implementation's reading of what we compress: zlib's one-shot, on the bytes after the prefix. */
static void test_frame(void)
{
    static uint8_t message[50000], inflated[50000];
    struct gp_random random;

    gp_random_init(&random, 10);
    for (int round = 0; round < 50; round++) {
        size_t size = gp_random_below(&random, round < 25 ? 30 : sizeof message), framed_size;
        z_stream stream = {0};
        fill(message, size, &random);
        uint8_t *framed = gp_message_frame(message, size, true, &framed_size);
        CHECK(framed && framed[0] == 1);
        CHECK(((size_t)framed[1] << 24 | framed[2] << 16 | framed[3] << 8 | framed[4]) == framed_size - 5);
        CHECK(inflateInit2(&stream, 31) == Z_OK);
        stream.next_in = framed + 5;
        stream.avail_in = (uInt)(framed_size - 5);
        stream.next_out = inflated;
        stream.avail_out = sizeof inflated;
        CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.total_out == size && stream.avail_in == 0);
        CHECK(memcmp(inflated, message, size) == 0);
        inflateEnd(&stream);
        free(framed);
        framed = gp_message_frame(message, size, false, &framed_size);
        CHECK(framed && framed[0] == 0 && framed_size == size + 5 && memcmp(framed + 5, message, size) == 0);
        free(framed);
    }
}

int main(void)
{
    test_cut_at_every_byte();
    test_random_streams();
    test_flags_and_limits();
    test_gzip_limit();
    test_bomb();
    test_bad_gzip();
    test_frame();
    return 0;
}
