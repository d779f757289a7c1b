/* The codecs behind one table of functions: each encodes a record (record.h), and decodes one so that all of
 * it is read. Which there are is decided when this is built: a library that is missing is a codec less. */
#ifndef GP_CODEC_CODEC_H
#define GP_CODEC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "codec/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where an operation's memory comes from. */
enum gp_codec_memory {
    GP_CODEC_MALLOC, /* the heap, and back to it afterwards */
    GP_CODEC_ARENA,  /* one block, in pieces, given back as a whole: arena.h, or the library's own */
    GP_CODEC_REUSE,  /* what the operation before has left */
    GP_CODEC_MEMORIES,
};

#define GP_CODEC_CAN(memory) (1u << (memory)) /* in a set of them */

struct gp_encoded {
    const uint8_t *data;
    size_t size;
};

/* `open` makes a session, which does one operation after the other with one kind of memory; -1: no memory.
 * What an operation gives lives until `finish`, which follows each, also one that failed (-1).
 *
 * The decoders take any bytes, and refuse those that are no record. */
struct gp_codec {
    const char *name;
    const char *(*version)(void); /* of the library */
    unsigned encodes, decodes;    /* with which memory */
    int (*open)(enum gp_codec_memory memory, void **session);
    int (*encode)(void *session, const struct gp_record *record, struct gp_encoded *encoded);
    int (*decode)(void *session, const struct gp_encoded *encoded, struct gp_record *record);
    /* Without looking whether the bytes are right: for those of a trusted writer. NULL: it always looks. */
    int (*decode_trusted)(void *session, const struct gp_encoded *encoded, struct gp_record *record);
    void (*finish)(void *session);
    void (*close)(void *session);
};

extern const struct gp_codec gp_codec_protobuf, gp_codec_msgpack, gp_codec_flatbuffers; /* where built */

/* No codec: what a buffer of 1 KiB costs that is only taken and given back. Not
 * among those of gp_codec_at. */
extern const struct gp_codec gp_codec_buffer;

const struct gp_codec *gp_codec_at(size_t index); /* NULL behind the last */

#ifdef __cplusplus
}
#endif

#endif
