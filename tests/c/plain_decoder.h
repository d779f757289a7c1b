/* A decoder of header blocks that remembers nothing: each block goes through nghttp2's inflater,
 * its fields are written down as text and judged by looking them up there. Slow and simple, to
 * hold wire/fields against. */
#ifndef GP_TESTS_PLAIN_DECODER_H
#define GP_TESTS_PLAIN_DECODER_H

#include <ctype.h>
#include <string.h>
#include <nghttp2/nghttp2.h>

#include "check.h"
#include "wire/fields.h"
#include "wire/status.h"

#define PLAIN_FIELDS_MAX 4096

struct plain_field {
    char *name, *value;
    size_t name_size, value_size;
};

struct plain_decoder {
    nghttp2_hd_inflater *inflater;
    uint32_t max_list_bytes;
    struct plain_field fields[PLAIN_FIELDS_MAX];
    size_t count;
    char message[256];
};

static inline void plain_create(struct plain_decoder *plain, uint32_t max_list_bytes)
{
    memset(plain, 0, sizeof *plain);
    plain->max_list_bytes = max_list_bytes;
    CHECK(nghttp2_hd_inflate_new(&plain->inflater) == 0);
}

static inline void plain_forget(struct plain_decoder *plain)
{
    for (size_t i = 0; i < plain->count; i++) {
        free(plain->fields[i].name);
        free(plain->fields[i].value);
    }
    plain->count = 0;
}

static inline void plain_destroy(struct plain_decoder *plain)
{
    plain_forget(plain);
    nghttp2_hd_inflate_del(plain->inflater);
}

static inline char *plain_copy(const uint8_t *text, size_t size)
{
    char *copy = malloc(size + 1);

    CHECK(copy);
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

static inline int plain_inflate(struct plain_decoder *plain, const uint8_t *block, size_t size)
{
    for (int flags = 0; !(flags & NGHTTP2_HD_INFLATE_FINAL);) {
        nghttp2_nv nv;
        flags = 0;
        ssize_t taken = nghttp2_hd_inflate_hd2(plain->inflater, &nv, &flags, block, size, 1);
        if (taken < 0)
            return -1;
        block += taken;
        size -= (size_t)taken;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            CHECK(plain->count < PLAIN_FIELDS_MAX);
            plain->fields[plain->count++] = (struct plain_field){
                plain_copy(nv.name, nv.namelen), plain_copy(nv.value, nv.valuelen), nv.namelen, nv.valuelen};
        }
    }
    nghttp2_hd_inflate_end_headers(plain->inflater);
    return 0;
}

/* RFC 9113, 8.2: names and values by themselves. */
static inline bool plain_is_sound(const struct plain_field *field)
{
    static const char *const connection[] = {"connection", "proxy-connection", "keep-alive",
                                             "transfer-encoding", "upgrade"};
    size_t size = field->value_size;

    if (field->name_size == 0 || strlen(field->name) != field->name_size || strlen(field->value) != size)
        return false;
    for (const char *at = field->name; *at; at++)
        if (!isascii(*at) || !isgraph(*at) || isupper(*at) || (*at == ':' && at > field->name))
            return false;
    for (size_t i = 0; i < sizeof connection / sizeof connection[0]; i++)
        if (strcmp(field->name, connection[i]) == 0)
            return false;
    if (strcmp(field->name, "te") == 0 && strcmp(field->value, "trailers") != 0)
        return false;
    if (strpbrk(field->value, "\r\n"))
        return false;
    return size == 0 || strcmp(field->name, "grpc-message") == 0 ||
           (!strchr(" \t", field->value[0]) && !strchr(" \t", field->value[size - 1]));
}

/* RFC 9113, 8.3: the one pseudo-field, at most once and first. */
static inline bool plain_status_is_sound(const struct plain_decoder *plain)
{
    for (size_t i = 0; i < plain->count; i++) {
        const struct plain_field *field = &plain->fields[i];
        if (field->name[0] == ':' &&
            (i > 0 || strcmp(field->name, ":status") != 0 || strspn(field->value, "0123456789") != 3 ||
             field->value_size != 3 || field->value[0] == '0'))
            return false;
    }
    return true;
}

static inline const struct plain_field *plain_find(const struct plain_decoder *plain, const char *name)
{
    for (size_t i = plain->count; i-- > 0;)
        if (strcmp(plain->fields[i].name, name) == 0)
            return &plain->fields[i];
    return NULL;
}

/* What a sound block means. Of a field that comes twice, the last counts. */
static inline void plain_interpret(struct plain_decoder *plain, struct gp_fields *fields)
{
    const struct plain_field *status = plain_find(plain, ":status"), *code = plain_find(plain, "grpc-status");
    const struct plain_field *type = plain_find(plain, "content-type");
    const struct plain_field *encoding = plain_find(plain, "grpc-encoding"),
                             *text = plain_find(plain, "grpc-message");

    if (status)
        fields->http_status = (uint16_t)atoi(status->value);
    if (code)
        fields->grpc_status = (int8_t)gp_status_parse((const uint8_t *)code->value, code->value_size);
    fields->has_content_type = type;
    fields->grpc_content_type =
        type && strncasecmp(type->value, "application/grpc", 16) == 0 && strchr("+;", type->value[16]);
    fields->gzip = encoding && strcmp(encoding->value, "gzip") == 0;
    fields->unknown_encoding = encoding && !fields->gzip && strcmp(encoding->value, "identity") != 0;
    if (text) {
        size_t size = text->value_size < 255 ? text->value_size : 255;
        size = gp_status_message_decode((const uint8_t *)text->value, size, plain->message);
        plain->message[size] = '\0';
    }
}

static inline enum gp_decoded plain_read(struct plain_decoder *plain, const uint8_t *block, size_t size,
                                         struct gp_fields *fields)
{
    uint64_t list_bytes = 0;

    *fields = (struct gp_fields){.grpc_status = -1};
    plain_forget(plain);
    if (plain_inflate(plain, block, size) != 0)
        return GP_DECODED_BROKEN;
    for (size_t i = 0; i < plain->count; i++) {
        list_bytes += plain->fields[i].name_size + plain->fields[i].value_size + 32;
        fields->malformed = fields->malformed || !plain_is_sound(&plain->fields[i]);
    }
    if (list_bytes > plain->max_list_bytes)
        return GP_DECODED_TOO_LARGE;
    fields->malformed = fields->malformed || !plain_status_is_sound(plain);
    if (!fields->malformed)
        plain_interpret(plain, fields);
    return GP_DECODED;
}

/* Whether both say the same: the class always, the fields of what was decoded, and their meaning only when
 * they are not malformed, for then nobody may rely on it. */
static inline bool plain_agrees(enum gp_decoded decoded, const struct gp_fields *fields,
                                enum gp_decoded wanted, const struct gp_fields *wanted_fields)
{
    if (decoded != wanted || decoded != GP_DECODED)
        return decoded == wanted;
    if (fields->malformed || wanted_fields->malformed)
        return fields->malformed == wanted_fields->malformed;
    return fields->http_status == wanted_fields->http_status &&
           fields->grpc_status == wanted_fields->grpc_status &&
           fields->grpc_content_type == wanted_fields->grpc_content_type &&
           fields->has_content_type == wanted_fields->has_content_type &&
           fields->gzip == wanted_fields->gzip && fields->unknown_encoding == wanted_fields->unknown_encoding;
}

#endif
