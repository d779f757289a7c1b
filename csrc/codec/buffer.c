/* buffer: a buffer from the heap, or from a pool of used ones, that is taken, touched, and given back. */
#include <stdlib.h>

#include "codec/codec.h"

#define BUFFER_BYTES 1024

struct buffer {
    struct buffer *next;
    uint8_t data[BUFFER_BYTES];
};

struct session {
    enum gp_codec_memory memory;
    struct buffer *pool, *taken;
};

static const char *version(void)
{
    return "";
}

static int open_session(enum gp_codec_memory memory, void **session)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    s->memory = memory;
    *session = s;
    return 0;
}

static int encode(void *session, const struct gp_record *record, struct gp_encoded *encoded)
{
    struct session *s = session;
    s->taken = s->pool;
    if (s->taken)
        s->pool = s->taken->next;
    else
        s->taken = malloc(sizeof *s->taken);
    if (!s->taken)
        return -1;
    s->taken->data[0] = (uint8_t)record->id;
    *encoded = (struct gp_encoded){s->taken->data, sizeof s->taken->data};
    return 0;
}

static void finish(void *session)
{
    struct session *s = session;
    if (s->taken && s->memory == GP_CODEC_REUSE) {
        s->taken->next = s->pool;
        s->pool = s->taken;
    } else {
        free(s->taken);
    }
    s->taken = NULL;
}

static void close_session(void *session)
{
    struct session *s = session;
    if (!s)
        return;
    while (s->pool) {
        struct buffer *next = s->pool->next;
        free(s->pool);
        s->pool = next;
    }
    free(s);
}

const struct gp_codec gp_codec_buffer = {
    .name = "buffer",
    .version = version,
    .encodes = GP_CODEC_CAN(GP_CODEC_MALLOC) | GP_CODEC_CAN(GP_CODEC_REUSE),
    .open = open_session,
    .encode = encode,
    .finish = finish,
    .close = close_session,
};
