/* Frames as bytes: headers, SETTINGS and padding, against the rules of RFC 9113 and
 * against any random bytes. */
#include <string.h>

#include "base/random.h"
#include "check.h"
#include "wire/frame.h"

/* RFC 9113, 4.1: the layout of the nine bytes; the reserved bit is neither read nor written. */
static void test_header(void)
{
    static const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x09, 0x2d, 0xff, 0xfe, 0xfd, 0xfc};
    uint8_t written[GP_FRAME_HEADER_BYTES];
    struct gp_frame frame = gp_frame_read(bytes);

    CHECK(frame.length == 0x010203 && frame.type == GP_FRAME_CONTINUATION && frame.flags == 0x2d);
    CHECK(frame.stream_id == 0x7ffefdfc);
    gp_frame_write(written, frame);
    CHECK(memcmp(written, bytes, 5) == 0 && gp_get_u32(written + 5) == 0x7ffefdfc);
}

static void test_header_round_trip(void)
{
    struct gp_random random;

    gp_random_init(&random, 1);
    for (int i = 0; i < 10000; i++) {
        uint8_t bytes[GP_FRAME_HEADER_BYTES];
        uint64_t bits = gp_random_u64(&random), more = gp_random_u64(&random);
        struct gp_frame frame = {.length = (uint32_t)(bits & 0xffffff),
                                 .type = (uint8_t)(bits >> 24),
                                 .flags = (uint8_t)(bits >> 32),
                                 .stream_id = (uint32_t)(more & GP_FRAME_MAX_ID)};
        gp_frame_write(bytes, frame);
        struct gp_frame read = gp_frame_read(bytes);
        CHECK(read.length == frame.length && read.type == frame.type && read.flags == frame.flags &&
              read.stream_id == frame.stream_id);
    }
}

/* RFC 9113, 3.4. */
static void test_preface(void)
{
    static const uint8_t bytes[] = {0x50, 0x52, 0x49, 0x20, 0x2a, 0x20, 0x48, 0x54, 0x54, 0x50, 0x2f, 0x32,
                                    0x2e, 0x30, 0x0d, 0x0a, 0x0d, 0x0a, 0x53, 0x4d, 0x0d, 0x0a, 0x0d, 0x0a};

    CHECK(sizeof bytes == GP_FRAME_PREFACE_BYTES && memcmp(bytes, gp_frame_preface, sizeof bytes) == 0);
}

static enum gp_h2_error apply(struct gp_settings *settings, uint16_t id, uint32_t value)
{
    uint8_t payload[6] = {(uint8_t)(id >> 8), (uint8_t)id};

    gp_put_u32(payload + 2, value);
    return gp_settings_apply(settings, payload, sizeof payload);
}

static void test_settings_defaults(void)
{
    struct gp_settings settings;

    gp_settings_init(&settings);
    CHECK(settings.header_table_size == 4096 && settings.enable_push);
    CHECK(settings.initial_window_size == 65535 && settings.max_frame_size == 16384);
    CHECK(settings.max_concurrent_streams == UINT32_MAX && settings.max_header_list_size == UINT32_MAX);
    CHECK(gp_settings_apply(&settings, (const uint8_t *)"", 0) == GP_H2_NO_ERROR);
    CHECK(settings.header_table_size == 4096 && settings.initial_window_size == 65535);
}

static void test_settings_values(void)
{
    struct gp_settings settings;

    gp_settings_init(&settings);
    CHECK(apply(&settings, 1, 0) == GP_H2_NO_ERROR && settings.header_table_size == 0);
    CHECK(apply(&settings, 2, 0) == GP_H2_NO_ERROR && !settings.enable_push);
    CHECK(apply(&settings, 2, 1) == GP_H2_NO_ERROR && settings.enable_push);
    CHECK(apply(&settings, 3, 0) == GP_H2_NO_ERROR && settings.max_concurrent_streams == 0);
    CHECK(apply(&settings, 4, 0x7fffffff) == GP_H2_NO_ERROR && settings.initial_window_size == 0x7fffffff);
    CHECK(apply(&settings, 5, 16384) == GP_H2_NO_ERROR && settings.max_frame_size == 16384);
    CHECK(apply(&settings, 5, 16777215) == GP_H2_NO_ERROR && settings.max_frame_size == 16777215);
    CHECK(apply(&settings, 6, 8192) == GP_H2_NO_ERROR && settings.max_header_list_size == 8192);
    struct gp_settings before = settings;
    CHECK(apply(&settings, 0, 7) == GP_H2_NO_ERROR && apply(&settings, 8, 1) == GP_H2_NO_ERROR);
    CHECK(apply(&settings, 0xfe03, 1) == GP_H2_NO_ERROR); /* what C core sends of its own */
    CHECK(memcmp(&before, &settings, sizeof before) == 0);
}

/* RFC 9113, 6.5.2: the limits, and nothing is applied of a frame that is in error. */
static void test_settings_refused(void)
{
    static const struct {
        uint16_t id;
        uint32_t value;
        enum gp_h2_error error;
    } cases[] = {
        {2, 2, GP_H2_PROTOCOL_ERROR},
        {2, UINT32_MAX, GP_H2_PROTOCOL_ERROR},
        {4, 0x80000000, GP_H2_FLOW_CONTROL_ERROR},
        {4, UINT32_MAX, GP_H2_FLOW_CONTROL_ERROR},
        {5, 16383, GP_H2_PROTOCOL_ERROR},
        {5, 16777216, GP_H2_PROTOCOL_ERROR},
        {5, 0, GP_H2_PROTOCOL_ERROR},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_settings settings, before;
        uint8_t payload[12] = {0, GP_SETTING_MAX_CONCURRENT_STREAMS, 0, 0, 0, 9, 0, (uint8_t)cases[i].id};
        gp_settings_init(&settings);
        before = settings;
        gp_put_u32(payload + 8, cases[i].value);
        CHECK(gp_settings_apply(&settings, payload, sizeof payload) == cases[i].error);
        CHECK(settings.max_concurrent_streams == before.max_concurrent_streams);
    }
    for (size_t size = 1; size < 12; size++) {
        static const uint8_t payload[12] = {0};
        struct gp_settings settings;
        gp_settings_init(&settings);
        CHECK(gp_settings_apply(&settings, payload, size) ==
              (size == 6 ? GP_H2_NO_ERROR : GP_H2_FRAME_SIZE_ERROR));
    }
}

/* The last value of a setting that comes twice rules: they are processed in order (6.5.3). */
static void test_settings_order(void)
{
    static const uint8_t payload[] = {0, 4, 0, 0, 0, 1, 0, 4, 0, 0, 0, 2};
    struct gp_settings settings;

    gp_settings_init(&settings);
    CHECK(gp_settings_apply(&settings, payload, sizeof payload) == GP_H2_NO_ERROR);
    CHECK(settings.initial_window_size == 2);
}

static enum gp_h2_error body_of(uint8_t type, uint8_t flags, const uint8_t *payload, uint32_t length,
                                size_t *front, size_t *size)
{
    const uint8_t *body = NULL;
    struct gp_frame frame = {.length = length, .type = type, .flags = flags, .stream_id = 1};
    enum gp_h2_error error = gp_frame_body(frame, payload, &body, size);

    *front = error == GP_H2_NO_ERROR ? (size_t)(body - payload) : 0;
    return error;
}

/* RFC 9113, 6.1 and 6.2. */
static void test_body(void)
{
    static const uint8_t padded[] = {3, 'a', 'b', 'c', 0, 0, 0};
    static const uint8_t priority[] = {0, 0, 0, 0, 15, 0x82};
    static const uint8_t both[] = {2, 0, 0, 0, 0, 15, 0x82, 0x84, 0, 0};
    size_t front, size;

    CHECK(body_of(0, 0, padded, 7, &front, &size) == GP_H2_NO_ERROR && front == 0 && size == 7);
    CHECK(body_of(0, GP_FLAG_PADDED, padded, 7, &front, &size) == GP_H2_NO_ERROR && front == 1 && size == 3);
    CHECK(body_of(0, GP_FLAG_PADDED, padded, 4, &front, &size) == GP_H2_NO_ERROR && size == 0);
    CHECK(body_of(0, GP_FLAG_PADDED, padded, 3, &front, &size) == GP_H2_PROTOCOL_ERROR);
    CHECK(body_of(0, GP_FLAG_PADDED, padded, 0, &front, &size) == GP_H2_FRAME_SIZE_ERROR);
    CHECK(body_of(0, GP_FLAG_PRIORITY, padded, 7, &front, &size) == GP_H2_NO_ERROR &&
          size == 7); /* not DATA's */
    CHECK(body_of(1, GP_FLAG_PRIORITY, priority, 6, &front, &size) == GP_H2_NO_ERROR && front == 5 &&
          size == 1);
    CHECK(body_of(1, GP_FLAG_PRIORITY, priority, 5, &front, &size) == GP_H2_NO_ERROR && size == 0);
    CHECK(body_of(1, GP_FLAG_PRIORITY, priority, 4, &front, &size) == GP_H2_FRAME_SIZE_ERROR);
    CHECK(body_of(1, GP_FLAG_PRIORITY | GP_FLAG_PADDED, both, 10, &front, &size) == GP_H2_NO_ERROR);
    CHECK(front == 6 && size == 2);
    CHECK(body_of(1, GP_FLAG_PRIORITY | GP_FLAG_PADDED, both, 7, &front, &size) == GP_H2_PROTOCOL_ERROR);
    CHECK(body_of(1, GP_FLAG_PRIORITY | GP_FLAG_PADDED, both, 5, &front, &size) == GP_H2_FRAME_SIZE_ERROR);
}

/* Whatever the bytes, the body lies inside the payload. */
static void test_body_inside(void)
{
    struct gp_random random;

    gp_random_init(&random, 2);
    for (int i = 0; i < 20000; i++) {
        uint32_t length = (uint32_t)gp_random_below(&random, 300);
        uint8_t *payload = malloc(length ? length : 1); /* exactly sized, for the sanitizer */
        size_t front, size = 0;
        for (uint32_t k = 0; k < length; k++)
            payload[k] = (uint8_t)gp_random_u64(&random);
        if (body_of((uint8_t)gp_random_below(&random, 2), (uint8_t)gp_random_u64(&random), payload, length,
                    &front, &size) == GP_H2_NO_ERROR)
            CHECK(front + size <= length);
        free(payload);
    }
}

static void test_error_names(void)
{
    CHECK(strcmp(gp_h2_error_name(GP_H2_NO_ERROR), "NO_ERROR") == 0);
    CHECK(strcmp(gp_h2_error_name(GP_H2_REFUSED_STREAM), "REFUSED_STREAM") == 0);
    CHECK(strcmp(gp_h2_error_name(GP_H2_ENHANCE_YOUR_CALM), "ENHANCE_YOUR_CALM") == 0);
    CHECK(strcmp(gp_h2_error_name(GP_H2_HTTP_1_1_REQUIRED), "HTTP_1_1_REQUIRED") == 0);
    CHECK(strcmp(gp_h2_error_name(14), "an unknown error") == 0);
    CHECK(strcmp(gp_h2_error_name(UINT32_MAX), "an unknown error") == 0);
}

int main(void)
{
    test_header();
    test_header_round_trip();
    test_preface();
    test_settings_defaults();
    test_settings_values();
    test_settings_refused();
    test_settings_order();
    test_body();
    test_body_inside();
    test_error_names();
    return 0;
}
