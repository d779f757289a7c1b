/* codec: each codec gives back what it was given, and refuses what is no record, whatever the bytes are. */
#include "codec/codec.h"

#include <string.h>

#include "base/random.h"
#include "check.h"

#define FLIPS 3000

/* Where there is not the memory that a hostile length asks for, the library is to be told so. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static char many[2000];

static struct gp_text long_text(void)
{
    memset(many, 'x', sizeof many - 1);
    return (struct gp_text){many, sizeof many - 1};
}

static void make_empty(struct gp_record *record)
{
    struct gp_text empty = {"", 0};
    *record = (struct gp_record){.customer = empty, .email = empty, .signature = empty};
    record->address =
        (struct gp_address){.street = empty, .city = empty, .postcode = empty, .country = empty};
}

static void make_full(struct gp_record *record)
{
    gp_record_example(record);
    record->id = UINT64_MAX;
    record->created_us = INT64_MIN;
    record->state = INT32_MIN;
    record->paid = false;
    record->email = long_text();
    record->item_count = GP_RECORD_ITEMS;
    record->tag_count = GP_RECORD_TAGS;
    record->sample_count = GP_RECORD_SAMPLES;
    for (size_t i = 0; i < GP_RECORD_ITEMS; i++)
        record->items[i] = (struct gp_item){long_text(), long_text(), INT32_MAX, -1e300};
    for (size_t i = 0; i < GP_RECORD_TAGS; i++)
        record->tags[i] = long_text();
    for (size_t i = 0; i < GP_RECORD_SAMPLES; i++)
        record->samples[i] = 1.0 / (double)(i + 1);
}

static void *open_session(const struct gp_codec *codec, unsigned memory)
{
    void *session = NULL;
    CHECK(codec->open((enum gp_codec_memory)memory, &session) == 0 && session);
    return session;
}

/* Of malloc, of exactly its size, so that reading beyond it is seen. */
static struct gp_encoded encoded(const struct gp_codec *codec, unsigned memory,
                                 const struct gp_record *record)
{
    void *session = open_session(codec, memory);
    struct gp_encoded first, second;
    CHECK(codec->encode(session, record, &first) == 0 && first.size > 0);
    uint8_t *copy = memcpy(malloc(first.size), first.data, first.size);
    size_t size = first.size;
    codec->finish(session);
    CHECK(codec->encode(session, record, &second) == 0); /* in what the first has left */
    CHECK(second.size == size && memcmp(second.data, copy, size) == 0);
    codec->finish(session);
    codec->close(session);
    return (struct gp_encoded){copy, size};
}

static void check_decoded(const struct gp_codec *codec, unsigned memory, const struct gp_encoded *bytes,
                          const struct gp_record *record)
{
    void *session = open_session(codec, memory);
    for (int i = 0; i < 2; i++) {
        struct gp_record decoded;
        memset(&decoded, 0xa5, sizeof decoded);
        CHECK(codec->decode(session, bytes, &decoded) == 0 && gp_record_equal(record, &decoded));
        codec->finish(session);
        memset(&decoded, 0xa5, sizeof decoded);
        CHECK(!codec->decode_trusted ||
              (codec->decode_trusted(session, bytes, &decoded) == 0 && gp_record_equal(record, &decoded)));
        codec->finish(session);
    }
    codec->close(session);
}

static void test_round_trips(const struct gp_codec *codec, const struct gp_record *record)
{
    CHECK(codec->encodes && codec->decodes && *codec->version());
    for (unsigned from = 0; from < GP_CODEC_MEMORIES; from++)
        for (unsigned to = 0; to < GP_CODEC_MEMORIES; to++)
            if (codec->encodes & GP_CODEC_CAN(from) && codec->decodes & GP_CODEC_CAN(to)) {
                struct gp_encoded bytes = encoded(codec, from, record);
                check_decoded(codec, to, &bytes, record);
                free((void *)bytes.data);
            }
}

/* Whether these bytes, of which a copy of exactly their size is made, are taken for the example. */
static bool is_example(const struct gp_codec *codec, const void *data, size_t size)
{
    bool same = false;
    uint8_t *copy = malloc(size ? size : 1);
    struct gp_encoded bytes = {memcpy(copy, data, size), size};
    struct gp_record example, decoded;
    gp_record_example(&example);
    for (unsigned memory = 0; memory < GP_CODEC_MEMORIES; memory++)
        if (codec->decodes & GP_CODEC_CAN(memory)) {
            void *session = open_session(codec, memory);
            if (codec->decode(session, &bytes, &decoded) == 0) /* comparing it with itself reads all of it */
                same = gp_record_equal(&decoded, &decoded) && gp_record_equal(&example, &decoded);
            codec->finish(session);
            codec->close(session);
        }
    free(copy);
    return same;
}

static struct gp_encoded example(const struct gp_codec *codec)
{
    struct gp_record record;
    gp_record_example(&record);
    return encoded(codec, (unsigned)__builtin_ctz(codec->encodes), &record);
}

static void test_truncated(const struct gp_codec *codec)
{
    struct gp_encoded bytes = example(codec);
    size_t padding = strcmp(codec->name, "flatbuffers") == 0 ? 3 : 0; /* at most, behind the last text */
    CHECK(is_example(codec, bytes.data, bytes.size));
    for (size_t size = 0; size < bytes.size - padding; size++)
        CHECK(!is_example(codec, bytes.data, size));
    free((void *)bytes.data);
}

static void test_flipped(const struct gp_codec *codec)
{
    struct gp_encoded bytes = example(codec);
    uint8_t *data = (uint8_t *)bytes.data;
    unsigned refused = 0;
    for (uint64_t i = 0; i < FLIPS; i++) {
        uint64_t random = gp_random_at(1, i), at = random % bytes.size;
        uint8_t before = data[at];
        data[at] ^= (uint8_t)(random >> 32 | 1);
        refused += !is_example(codec, data, bytes.size);
        data[at] = before;
    }
    CHECK(refused > FLIPS / 2); /* padding is nobody's */
    free(data);
}

static void test_noise(const struct gp_codec *codec)
{
    uint8_t noise[64];
    for (uint64_t i = 0; i < FLIPS; i++) {
        for (size_t at = 0; at < sizeof noise; at++)
            noise[at] = (uint8_t)gp_random_at(i, at);
        CHECK(!is_example(codec, noise, i % sizeof noise));
    }
}

static const struct gp_codec *named(const char *name)
{
    const struct gp_codec *codec = NULL;
    for (size_t i = 0; (codec = gp_codec_at(i)) && strcmp(codec->name, name) != 0;)
        i++;
    return codec;
}

/* What is in the bytes of the example in place of `before`, all of it once; the new bytes are of malloc. */
static struct gp_encoded replaced(const struct gp_codec *codec, const char *before, size_t before_size,
                                  const char *after, size_t after_size)
{
    struct gp_encoded bytes = example(codec);
    uint8_t *at = memmem(bytes.data, bytes.size, before, before_size);
    CHECK(at);
    size_t head = (size_t)(at - bytes.data), tail = bytes.size - head - before_size;
    uint8_t *made = malloc(head + after_size + tail);
    memcpy(made, bytes.data, head);
    memcpy(made + head, after, after_size);
    memcpy(made + head + after_size, at + before_size, tail);
    free((void *)bytes.data);
    return (struct gp_encoded){made, head + after_size + tail};
}

static int decoded(const struct gp_codec *codec, const struct gp_encoded *bytes, struct gp_record *record)
{
    void *session = open_session(codec, (unsigned)__builtin_ctz(codec->decodes));
    int status = codec->decode(session, bytes, record);
    codec->finish(session);
    codec->close(session);
    return status;
}

static void check_replaced(const char *before, size_t before_size, const char *after, size_t after_size,
                           int expected)
{
    const struct gp_codec *codec = named("msgpack-c");
    struct gp_record record;
    struct gp_encoded bytes = replaced(codec, before, before_size, after, after_size);
    CHECK(decoded(codec, &bytes, &record) == expected);
    CHECK(is_example(codec, bytes.data, bytes.size) == (expected == 0));
    free((void *)bytes.data);
}

#define REPLACED(before, after, expected)                                                                    \
    check_replaced(before, sizeof(before) - 1, after, sizeof(after) - 1, expected)
#define SAMPLE "\xcb\x40\x34\0\0\0\0\0\0"

static void test_names_of_msgpack(void)
{
    if (!named("msgpack-c"))
        return;
    REPLACED("\xa4paid\xc3\xa5state\xfd", "\xa5state\xfd\xa4paid\xc3", 0); /* in another order */
    REPLACED("\xa4paid\xc3", "\xa4said\xc3", -1);
    REPLACED("\xa4paid\xc3", "\xa4paid\x01", -1);                          /* a number is no bool */
    REPLACED("\xa4paid\xc3\xa5state\xfd", "\xa4paid\xc3\xa4paid\xc3", -1); /* twice, and no state */
    REPLACED("\xa5state\xfd", "\xa5state\xcf\0\0\0\x01\0\0\0\0", -1);      /* beyond 32 bits */
    REPLACED("samples\xdc\0\x18",
             "samples\xdc\0\x21" SAMPLE SAMPLE SAMPLE SAMPLE SAMPLE SAMPLE SAMPLE SAMPLE SAMPLE,
             -1);                                                     /* one too many */
    REPLACED("samples\xdc\0\x18", "samples\xdd\xff\xff\xff\xff", -1); /* a length that nobody has */
}

/* Of what is repeated, one more at a time behind the example: protobuf adds them to those that are there. */
static void check_protobuf_takes(const struct gp_codec *codec, const char *more, size_t more_size,
                                 size_t left)
{
    struct gp_record record;
    struct gp_encoded bytes = example(codec);
    uint8_t *data = (uint8_t *)bytes.data;
    for (size_t i = 1; i <= left + 1; i++) {
        data = realloc(data, bytes.size + more_size);
        memcpy(data + bytes.size, more, more_size);
        bytes = (struct gp_encoded){data, bytes.size + more_size};
        CHECK(decoded(codec, &bytes, &record) == (i <= left ? 0 : -1));
    }
    free(data);
}

static void test_counts_of_protobuf(void)
{
    const struct gp_codec *codec = named("protobuf-c");
    struct gp_encoded id_alone = {(const uint8_t *)"\x08\x01", 2};
    struct gp_record record;
    if (!codec)
        return;
    CHECK(decoded(codec, &id_alone, &record) == -1); /* no address */
    gp_record_example(&record);
    check_protobuf_takes(codec, "\x4a\0", 2, GP_RECORD_ITEMS - record.item_count);
    check_protobuf_takes(codec, "\x52\0", 2, GP_RECORD_TAGS - record.tag_count);
    check_protobuf_takes(codec, "\x59\0\0\0\0\0\0\0\0", 9, GP_RECORD_SAMPLES - record.sample_count);
}

/* A longer vector of numbers takes in what lies behind it, and is as right. */
static void test_counts_of_flatbuffers(void)
{
    static const char few[] = "\x18\0\0\0\0\0\0\0\0\0\x34\x40", many[] = "\x21\0\0\0\0\0\0\0\0\0\x34\x40";
    static const char most[] = "\x20\0\0\0\0\0\0\0\0\0\x34\x40";
    const struct gp_codec *codec = named("flatbuffers");
    struct gp_record record;
    if (!codec)
        return;
    struct gp_encoded right = replaced(codec, few, 12, most, 12), wrong = replaced(codec, few, 12, many, 12);
    CHECK(decoded(codec, &right, &record) == 0 && record.sample_count == GP_RECORD_SAMPLES);
    CHECK(decoded(codec, &wrong, &record) == -1);
    free((void *)right.data);
    free((void *)wrong.data);
}

static void test_buffers(void)
{
    struct gp_record record;
    struct gp_encoded first, second;
    gp_record_example(&record);
    void *session = open_session(&gp_codec_buffer, GP_CODEC_REUSE);
    CHECK(gp_codec_buffer.encode(session, &record, &first) == 0 && first.size == 1024);
    gp_codec_buffer.finish(session);
    CHECK(gp_codec_buffer.encode(session, &record, &second) == 0 && second.data == first.data);
    gp_codec_buffer.finish(session);
    gp_codec_buffer.close(session);
    gp_codec_buffer.close(NULL);
}

int main(void)
{
    static struct gp_record records[3];
    const struct gp_codec *codec;
    gp_record_example(&records[0]);
    make_empty(&records[1]);
    make_full(&records[2]);
    CHECK(!gp_record_equal(&records[0], &records[1]) && !gp_record_equal(&records[0], &records[2]));
    for (size_t i = 0; (codec = gp_codec_at(i)); i++) {
        for (size_t r = 0; r < sizeof records / sizeof *records; r++)
            test_round_trips(codec, &records[r]);
        test_truncated(codec);
        test_flipped(codec);
        test_noise(codec);
        codec->close(NULL);
    }
    test_names_of_msgpack();
    test_counts_of_protobuf();
    test_counts_of_flatbuffers();
    test_buffers();
    return 0;
}
