/* bench: see the header. One function call through the table for each operation, of about 2 ns, is in all
 * figures alike. */
#include "codec/bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

struct bench {
    const struct gp_codec *codec;
    enum gp_codec_operation operation;
    void *session;
    struct gp_record record, decoded;
    struct gp_encoded encoded; /* to be decoded, or what was encoded last */
};

unsigned gp_codec_memories(const struct gp_codec *codec, enum gp_codec_operation operation)
{
    switch (operation) {
    case GP_CODEC_ENCODE:
        return codec->encodes;
    case GP_CODEC_DECODE:
        return codec->decodes;
    case GP_CODEC_DECODE_TRUSTED:
        return codec->decode_trusted ? codec->decodes : 0;
    default:
        return 0;
    }
}

static enum gp_codec_memory any_memory(unsigned memories)
{
    return (enum gp_codec_memory)__builtin_ctz(memories);
}

static int failed(const struct gp_codec *codec, const char *what, struct gp_error *err)
{
    return gp_error_set(err, GP_ERROR_ENGINE, "%s cannot %s the record", codec->name, what);
}

uint8_t *gp_codec_encoded(const struct gp_codec *codec, size_t *size, struct gp_error *err)
{
    struct gp_record record;
    struct gp_encoded encoded;
    uint8_t *copy = NULL;
    void *session;
    gp_record_example(&record);
    if (codec->open(any_memory(codec->encodes), &session) == 0) {
        if (codec->encode(session, &record, &encoded) == 0 && (copy = malloc(encoded.size))) {
            memcpy(copy, encoded.data, encoded.size);
            *size = encoded.size;
        }
        codec->finish(session);
        codec->close(session);
    }
    if (!copy)
        failed(codec, "encode", err);
    return copy;
}

static int once(struct bench *b)
{
    switch (b->operation) {
    case GP_CODEC_ENCODE:
        return b->codec->encode(b->session, &b->record, &b->encoded);
    case GP_CODEC_DECODE:
        return b->codec->decode(b->session, &b->encoded, &b->decoded);
    default:
        return b->codec->decode_trusted(b->session, &b->encoded, &b->decoded);
    }
}

static int repeat(struct bench *b, uint64_t ops)
{
    int status = 0;
    for (uint64_t i = 0; i < ops && status == 0; i++) {
        status = once(b);
        b->codec->finish(b->session);
    }
    return status;
}

/* Whether what comes out of the decoder is what went into the encoder. */
static int check(struct bench *b)
{
    bool right =
        once(b) == 0 && (b->operation == GP_CODEC_ENCODE || gp_record_equal(&b->record, &b->decoded));
    b->codec->finish(b->session);
    return right ? 0 : -1;
}

static int run(struct bench *b, uint64_t ops, uint64_t *ns)
{
    if (check(b) < 0 || repeat(b, GP_CODEC_WARMUP) < 0)
        return -1;
    uint64_t begin = gp_clock_thread_cpu_ns();
    int status = repeat(b, ops);
    *ns = gp_clock_thread_cpu_ns() - begin;
    return status;
}

int gp_codec_time(const struct gp_codec *codec, enum gp_codec_operation operation,
                  enum gp_codec_memory memory, uint64_t ops, struct gp_codec_timing *timing,
                  struct gp_error *err)
{
    struct bench b = {.codec = codec, .operation = operation};
    const char *what = operation == GP_CODEC_ENCODE ? "encode" : "decode";
    uint8_t *encoded = NULL;
    if (!(gp_codec_memories(codec, operation) & GP_CODEC_CAN(memory)))
        return gp_error_set(err, GP_ERROR_INVALID, "%s does not %s with such memory", codec->name, what);
    if (operation != GP_CODEC_ENCODE && !(encoded = gp_codec_encoded(codec, &b.encoded.size, err)))
        return -1;
    b.encoded.data = encoded;
    gp_record_example(&b.record);
    int status = codec->open(memory, &b.session);
    if (status == 0) {
        status = run(&b, ops, &timing->ns);
        timing->encoded_bytes = b.encoded.size;
        codec->close(b.session);
    }
    free(encoded);
    return status == 0 ? 0 : failed(codec, what, err);
}
