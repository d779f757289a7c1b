/* fields: from header blocks to what a call needs to know of them. Recognised blocks first, then inflating,
 * then the rules of RFC 9113, 8.2 and 8.3, field by field. */
#include "wire/fields.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <nghttp2/nghttp2.h>

#include "base/error.h"
#include "wire/hpack.h"
#include "wire/inflate.h"
#include "wire/known.h"
#include "wire/status.h"

#define MESSAGE_BYTES 256u /* of grpc-message: enough for a cause */

/* What is remembered of a block; of the message only what it has, its end included. */
struct meaning {
    struct gp_fields fields;
    uint16_t message_size; /* 0: the block has none */
    char message[MESSAGE_BYTES];
};

struct gp_decoder {
    nghttp2_hd_inflater *inflater;
    uint32_t max_list_bytes;
    bool broken;
    struct gp_known known;
    uint64_t inflated;
    char message[MESSAGE_BYTES];
};

/* A block while it is being read. */
struct reading {
    struct gp_decoder *decoder;
    struct gp_fields *fields;
    uint16_t message_size;
    bool regular_seen, status_seen;
};

int gp_decoder_create(struct gp_decoder **decoder, uint32_t max_list_bytes, struct gp_error *err)
{
    struct gp_decoder *made = calloc(1, sizeof *made);

    *decoder = NULL;
    if (!made || nghttp2_hd_inflate_new(&made->inflater) != 0) {
        free(made);
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a header decoder");
    }
    made->max_list_bytes = max_list_bytes;
    *decoder = made;
    return 0;
}

static bool equals(const uint8_t *text, size_t size, const char *literal)
{
    return size == strlen(literal) && memcmp(text, literal, size) == 0;
}

/* RFC 9113, 8.2.1: what no name may contain. A colon is for pseudo-fields, at the front. */
static bool name_is_sound(const uint8_t *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (name[i] <= 0x20 || name[i] >= 0x7f || (name[i] >= 'A' && name[i] <= 'Z') ||
            (name[i] == ':' && i > 0))
            return false;
    return size > 0;
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

/* Spaces at the ends break the rules, but of grpc-message they are part: its encoding leaves them bare. */
static bool value_is_sound(const uint8_t *value, size_t size, bool blanks_allowed)
{
    for (size_t i = 0; i < size; i++)
        if (value[i] == '\0' || value[i] == '\r' || value[i] == '\n')
            return false;
    return size == 0 || blanks_allowed || (!is_blank(value[0]) && !is_blank(value[size - 1]));
}

/* RFC 9113, 8.2.2. */
static bool is_connection_specific(const nghttp2_nv *field)
{
    static const char *const names[] = {"connection", "proxy-connection", "keep-alive", "transfer-encoding",
                                        "upgrade"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (equals(field->name, field->namelen, names[i]))
            return true;
    return equals(field->name, field->namelen, "te") && !equals(field->value, field->valuelen, "trailers");
}

/* 0: not three digits that make a status. */
static uint16_t parse_http_status(const uint8_t *value, size_t size)
{
    uint16_t status = 0;

    if (size != 3 || value[0] == '0')
        return 0;
    for (size_t i = 0; i < size; i++) {
        if (value[i] < '0' || value[i] > '9')
            return 0;
        status = (uint16_t)(status * 10 + (value[i] - '0'));
    }
    return status;
}

/* A response knows one pseudo-field: ":status", once, before all regular fields. */
static void read_pseudo(struct reading *reading, const nghttp2_nv *field)
{
    uint16_t status = parse_http_status(field->value, field->valuelen);

    if (equals(field->name, field->namelen, ":status") && status && !reading->status_seen &&
        !reading->regular_seen)
        reading->fields->http_status = status;
    else
        reading->fields->malformed = true;
    reading->status_seen = true;
}

/* "application/grpc" alone or followed by a sub-type or a parameter:
 * application/grpc-web is something else. */
static bool is_grpc(const uint8_t *value, size_t size)
{
    static const char type[] = "application/grpc";
    size_t length = sizeof type - 1;

    return size >= length && strncasecmp((const char *)value, type, length) == 0 &&
           (size == length || value[length] == '+' || value[length] == ';');
}

static void read_message(struct reading *reading, const nghttp2_nv *field)
{
    struct gp_decoder *decoder = reading->decoder;
    size_t size = field->valuelen < MESSAGE_BYTES ? field->valuelen : MESSAGE_BYTES - 1;

    size = gp_status_message_decode(field->value, size, decoder->message);
    decoder->message[size] = '\0';
    reading->message_size = (uint16_t)(size + 1);
}

static void read_regular(struct reading *reading, const nghttp2_nv *field)
{
    struct gp_fields *fields = reading->fields;
    const uint8_t *name = field->name, *value = field->value;
    size_t size = field->valuelen;

    reading->regular_seen = true;
    if (equals(name, field->namelen, "grpc-status")) {
        fields->grpc_status = (int8_t)gp_status_parse(value, size);
    } else if (equals(name, field->namelen, "content-type")) {
        fields->has_content_type = true;
        fields->grpc_content_type = is_grpc(value, size);
    } else if (equals(name, field->namelen, "grpc-encoding")) {
        fields->gzip = equals(value, size, "gzip");
        fields->unknown_encoding = !fields->gzip && !equals(value, size, "identity");
    } else if (equals(name, field->namelen, "grpc-message")) {
        read_message(reading, field);
    } else if (is_connection_specific(field)) {
        fields->malformed = true;
    }
}

static void read_field(void *context, const nghttp2_nv *field)
{
    struct reading *reading = context;

    if (!name_is_sound(field->name, field->namelen) ||
        !value_is_sound(field->value, field->valuelen, equals(field->name, field->namelen, "grpc-message")))
        reading->fields->malformed = true;
    else if (field->name[0] == ':')
        read_pseudo(reading, field);
    else
        read_regular(reading, field);
}

static void remember(struct gp_decoder *decoder, const uint8_t *block, size_t size,
                     const struct reading *reading)
{
    struct meaning meaning = {.fields = *reading->fields, .message_size = reading->message_size};

    memcpy(meaning.message, decoder->message, meaning.message_size);
    gp_known_add(&decoder->known, block, size, &meaning,
                 offsetof(struct meaning, message) + meaning.message_size);
}

static enum gp_decoded read_unknown(struct gp_decoder *decoder, const uint8_t *block, size_t size,
                                    struct gp_fields *fields)
{
    struct reading reading = {.decoder = decoder, .fields = fields};
    bool leaves_table = gp_hpack_leaves_table(block, size);

    *fields = (struct gp_fields){.grpc_status = -1};
    decoder->inflated++;
    if (!leaves_table)
        gp_known_forget(&decoder->known);
    switch (gp_inflate(decoder->inflater, block, size, decoder->max_list_bytes, read_field, &reading)) {
    case GP_INFLATED_BROKEN:
        decoder->broken = true;
        return GP_DECODED_BROKEN;
    case GP_INFLATED_TOO_LARGE:
        return GP_DECODED_TOO_LARGE;
    case GP_INFLATED:
        break;
    }
    if (leaves_table && size > 0)
        remember(decoder, block, size, &reading);
    return GP_DECODED;
}

enum gp_decoded gp_decoder_read(struct gp_decoder *decoder, const uint8_t *block, size_t size,
                                struct gp_fields *fields)
{
    if (decoder->broken)
        return GP_DECODED_BROKEN;
    const struct meaning *meaning = gp_known_find(&decoder->known, block, size);
    if (!meaning)
        return read_unknown(decoder, block, size, fields);
    *fields = meaning->fields;
    if (meaning->message_size > 0)
        memcpy(decoder->message, meaning->message, meaning->message_size);
    return GP_DECODED;
}

const char *gp_decoder_message(const struct gp_decoder *decoder)
{
    return decoder->message;
}

uint64_t gp_decoder_inflated(const struct gp_decoder *decoder)
{
    return decoder->inflated;
}

void gp_decoder_destroy(struct gp_decoder *decoder)
{
    if (!decoder)
        return;
    nghttp2_hd_inflate_del(decoder->inflater);
    gp_known_fini(&decoder->known);
    free(decoder);
}
