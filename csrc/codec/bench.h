/* Times a codec's operations: the same record, so many times, in one session. */
#ifndef GP_CODEC_BENCH_H
#define GP_CODEC_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "codec/codec.h"

struct gp_error;

enum gp_codec_operation { GP_CODEC_ENCODE, GP_CODEC_DECODE, GP_CODEC_DECODE_TRUSTED, GP_CODEC_OPERATIONS };

#define GP_CODEC_WARMUP 1000 /* operations before those that are timed */

struct gp_codec_timing {
    uint64_t ns; /* of all of them, on the thread's CPU clock: what others take meanwhile is not in it */
    size_t encoded_bytes;
};

/* The memory that a codec can do an operation with: a set of GP_CODEC_CAN, 0 when
 * it has no such operation. */
unsigned gp_codec_memories(const struct gp_codec *codec, enum gp_codec_operation operation);

/* 0, or -1 when there is no such operation with that memory, or it did not work. What is decoded is compared
 * with what was encoded, once. */
int gp_codec_time(const struct gp_codec *codec, enum gp_codec_operation operation,
                  enum gp_codec_memory memory, uint64_t ops, struct gp_codec_timing *timing,
                  struct gp_error *err);

/* The example record encoded, of malloc; NULL with `err` when that did not work. */
uint8_t *gp_codec_encoded(const struct gp_codec *codec, size_t *size, struct gp_error *err);

#endif
