/* bench: every operation that a codec has can be timed, and no other; and all of it with memory running out,
 * of which our own libraries' goes by short_memory.h. */
#include "codec/bench.h"

#include <string.h>

#include "base/error.h"
#include "check.h"
#include "short_memory.h"

static void test_encoded(const struct gp_codec *codec)
{
    struct gp_error err = {0};
    size_t size = 0;
    uint8_t *encoded = gp_codec_encoded(codec, &size, &err);
    CHECK(encoded && size > 700 && size < 1400); /* about 1 KB */
    free(encoded);
}

static void test_time(const struct gp_codec *codec, enum gp_codec_operation operation,
                      enum gp_codec_memory memory)
{
    struct gp_codec_timing few, many;
    struct gp_error err = {0};
    int has = gp_codec_memories(codec, operation) & GP_CODEC_CAN(memory) ? 0 : -1;
    CHECK(gp_codec_time(codec, operation, memory, 20, &few, &err) == has);
    CHECK(err.code == (has == 0 ? GP_ERROR_NONE : GP_ERROR_INVALID));
    if (has < 0)
        return;
    for (int i = 0; i < 3; i++) { /* one of which is not interrupted */
        CHECK(gp_codec_time(codec, operation, memory, 20, &many, &err) == 0);
        few.ns = many.ns < few.ns ? many.ns : few.ns;
    }
    CHECK(gp_codec_time(codec, operation, memory, 2000, &many, &err) == 0);
    CHECK(many.ns > 5 * few.ns && many.encoded_bytes == few.encoded_bytes && few.encoded_bytes > 700);
}

/* Fails with words, or does not need the allocation that failed. */
static void test_short_memory(const struct gp_codec *codec, enum gp_codec_operation operation,
                              enum gp_codec_memory memory)
{
    uint32_t asked = 1;
    for (uint32_t failing = 0; failing < asked && failing < 20; failing++) {
        struct gp_codec_timing timing;
        struct gp_error err = {0};
        short_memory_begin(failing, true);
        int status = gp_codec_time(codec, operation, memory, 1, &timing, &err);
        asked = short_memory_end();
        CHECK(status == 0 || (err.code == GP_ERROR_ENGINE && strstr(err.message, codec->name)));
    }
}

static void test_all(const struct gp_codec *codec)
{
    for (int operation = 0; operation < GP_CODEC_OPERATIONS; operation++)
        for (int memory = 0; memory < GP_CODEC_MEMORIES; memory++) {
            test_time(codec, operation, memory);
            if (gp_codec_memories(codec, operation) & GP_CODEC_CAN(memory))
                test_short_memory(codec, operation, memory);
        }
}

int main(void)
{
    const struct gp_codec *codec;
    for (size_t i = 0; (codec = gp_codec_at(i)); i++) {
        test_encoded(codec);
        test_all(codec);
    }
    test_all(&gp_codec_buffer);
    return 0;
}
