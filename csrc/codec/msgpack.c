/* msgpack: by msgpack-c, each part a map from the names of its fields, as MessagePack is mostly written: it
 * says itself what is in it. The tables below are the record's shape for both directions.
 *
 * What is encoded goes into one buffer, fresh or used, so an arena would be the same as reuse. What is
 * decoded lies in the library's arena, a zone: a fresh one each time, or one that is cleared. */
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"

enum kind { U64, I64, I32, BOOL, DOUBLE, TEXT, BINARY, PART };

struct field {
    struct gp_text name;
    enum kind kind;
    size_t offset;
    const struct shape *shape; /* of a PART */
    size_t most, count_offset; /* of what is repeated; most is 0 else */
};

struct shape {
    size_t bytes, count;
    const struct field *fields;
};

#define NAME(name) {name, sizeof(name) - 1}
#define FIELDS(of, list) {sizeof(struct of), sizeof(list) / sizeof *(list), list}

static const struct field address_fields[] = {
    {NAME("street"), TEXT, offsetof(struct gp_address, street)},
    {NAME("city"), TEXT, offsetof(struct gp_address, city)},
    {NAME("postcode"), TEXT, offsetof(struct gp_address, postcode)},
    {NAME("country"), TEXT, offsetof(struct gp_address, country)},
    {NAME("latitude"), DOUBLE, offsetof(struct gp_address, latitude)},
    {NAME("longitude"), DOUBLE, offsetof(struct gp_address, longitude)},
};
static const struct shape address_shape = FIELDS(gp_address, address_fields);

static const struct field item_fields[] = {
    {NAME("sku"), TEXT, offsetof(struct gp_item, sku)},
    {NAME("name"), TEXT, offsetof(struct gp_item, name)},
    {NAME("quantity"), I32, offsetof(struct gp_item, quantity)},
    {NAME("price"), DOUBLE, offsetof(struct gp_item, price)},
};
static const struct shape item_shape = FIELDS(gp_item, item_fields);

static const struct field record_fields[] = {
    {NAME("id"), U64, offsetof(struct gp_record, id)},
    {NAME("created_us"), I64, offsetof(struct gp_record, created_us)},
    {NAME("customer"), TEXT, offsetof(struct gp_record, customer)},
    {NAME("email"), TEXT, offsetof(struct gp_record, email)},
    {NAME("paid"), BOOL, offsetof(struct gp_record, paid)},
    {NAME("state"), I32, offsetof(struct gp_record, state)},
    {NAME("total"), DOUBLE, offsetof(struct gp_record, total)},
    {NAME("address"), PART, offsetof(struct gp_record, address), &address_shape},
    {NAME("items"), PART, offsetof(struct gp_record, items), &item_shape, GP_RECORD_ITEMS,
     offsetof(struct gp_record, item_count)},
    {NAME("tags"), TEXT, offsetof(struct gp_record, tags), NULL, GP_RECORD_TAGS,
     offsetof(struct gp_record, tag_count)},
    {NAME("samples"), DOUBLE, offsetof(struct gp_record, samples), NULL, GP_RECORD_SAMPLES,
     offsetof(struct gp_record, sample_count)},
    {NAME("signature"), BINARY, offsetof(struct gp_record, signature)},
};
static const struct shape record_shape = FIELDS(gp_record, record_fields);

struct session {
    enum gp_codec_memory memory;
    msgpack_sbuffer buffer;
    msgpack_zone zone;
    bool zoned; /* there is a zone */
};

static size_t value_bytes(const struct field *field)
{
    static const size_t bytes[] = {[U64] = 8,
                                   [I64] = 8,
                                   [I32] = 4,
                                   [BOOL] = sizeof(bool),
                                   [DOUBLE] = 8,
                                   [TEXT] = sizeof(struct gp_text),
                                   [BINARY] = sizeof(struct gp_text)};
    return field->kind == PART ? field->shape->bytes : bytes[field->kind];
}

/* --- encode: each function gives 0, or what is not 0 when there is no memory */

static int pack_shape(msgpack_packer *packer, const struct shape *shape, const uint8_t *at);

static int pack_value(msgpack_packer *packer, const struct field *field, const void *at)
{
    const struct gp_text *text = at;
    switch (field->kind) {
    case U64:
        return msgpack_pack_uint64(packer, *(const uint64_t *)at);
    case I64:
        return msgpack_pack_int64(packer, *(const int64_t *)at);
    case I32:
        return msgpack_pack_int32(packer, *(const int32_t *)at);
    case BOOL:
        return *(const bool *)at ? msgpack_pack_true(packer) : msgpack_pack_false(packer);
    case DOUBLE:
        return msgpack_pack_double(packer, *(const double *)at);
    case TEXT:
        return msgpack_pack_str(packer, text->size) || msgpack_pack_str_body(packer, text->data, text->size);
    case BINARY:
        return msgpack_pack_bin(packer, text->size) || msgpack_pack_bin_body(packer, text->data, text->size);
    case PART:
        return pack_shape(packer, field->shape, at);
    }
    return -1;
}

static int pack_repeated(msgpack_packer *packer, const struct field *field, const uint8_t *at, size_t count)
{
    int status = msgpack_pack_array(packer, count);
    for (size_t i = 0; i < count && status == 0; i++)
        status = pack_value(packer, field, at + i * value_bytes(field));
    return status;
}

static int pack_shape(msgpack_packer *packer, const struct shape *shape, const uint8_t *at)
{
    int status = msgpack_pack_map(packer, shape->count);
    for (const struct field *f = shape->fields; f < shape->fields + shape->count && status == 0; f++) {
        status = msgpack_pack_str(packer, f->name.size) ||
                 msgpack_pack_str_body(packer, f->name.data, f->name.size) ||
                 (f->most ? pack_repeated(packer, f, at + f->offset, *(const size_t *)(at + f->count_offset))
                          : pack_value(packer, f, at + f->offset));
    }
    return status;
}

static int encode(void *session, const struct gp_record *record, struct gp_encoded *encoded)
{
    struct session *s = session;
    msgpack_packer packer;
    msgpack_packer_init(&packer, &s->buffer, msgpack_sbuffer_write);
    if (pack_shape(&packer, &record_shape, (const uint8_t *)record))
        return -1;
    *encoded = (struct gp_encoded){(const uint8_t *)s->buffer.data, s->buffer.size};
    return 0;
}

/* --- decode: each function gives 0, or -1 for what is no such thing */

static int read_shape(const msgpack_object *object, const struct shape *shape, uint8_t *at);

static int read_text(const msgpack_object *object, msgpack_object_type type, struct gp_text *text)
{
    if (object->type != type)
        return -1;
    *text = (struct gp_text){object->via.str.ptr, object->via.str.size}; /* as in via.bin */
    return 0;
}

static int read_u64(const msgpack_object *object, uint64_t *value)
{
    *value = object->via.u64;
    return object->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? 0 : -1;
}

static int read_i64(const msgpack_object *object, int64_t *value)
{
    *value = object->via.i64;
    if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        return object->via.u64 <= INT64_MAX ? 0 : -1;
    return object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER ? 0 : -1;
}

static int read_i32(const msgpack_object *object, int32_t *value)
{
    int64_t wide;
    if (read_i64(object, &wide) < 0 || wide < INT32_MIN || wide > INT32_MAX)
        return -1;
    *value = (int32_t)wide;
    return 0;
}

static int read_bool(const msgpack_object *object, bool *value)
{
    if (object->type != MSGPACK_OBJECT_BOOLEAN)
        return -1;
    *value = object->via.boolean;
    return 0;
}

static int read_double(const msgpack_object *object, double *value)
{
    if (object->type != MSGPACK_OBJECT_FLOAT64)
        return -1;
    *value = object->via.f64;
    return 0;
}

static int read_value(const msgpack_object *object, const struct field *field, void *at)
{
    switch (field->kind) {
    case U64:
        return read_u64(object, at);
    case I64:
        return read_i64(object, at);
    case I32:
        return read_i32(object, at);
    case BOOL:
        return read_bool(object, at);
    case DOUBLE:
        return read_double(object, at);
    case TEXT:
        return read_text(object, MSGPACK_OBJECT_STR, at);
    case BINARY:
        return read_text(object, MSGPACK_OBJECT_BIN, at);
    case PART:
        return read_shape(object, field->shape, at);
    }
    return -1;
}

static int read_field(const msgpack_object *object, const struct field *field, uint8_t *of)
{
    uint8_t *at = of + field->offset;
    if (!field->most)
        return read_value(object, field, at);
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size > field->most)
        return -1;
    for (uint32_t i = 0; i < object->via.array.size; i++)
        if (read_value(&object->via.array.ptr[i], field, at + i * value_bytes(field)) < 0)
            return -1;
    *(size_t *)(of + field->count_offset) = object->via.array.size;
    return 0;
}

static bool is_named(const struct field *field, const msgpack_object *key)
{
    return key->type == MSGPACK_OBJECT_STR && field->name.size == key->via.str.size &&
           memcmp(field->name.data, key->via.str.ptr, key->via.str.size) == 0;
}

/* The field of that name. Writers mostly keep an order, so the one whose turn it is is looked at first. */
static const struct field *find(const struct shape *shape, size_t turn, const msgpack_object *key)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *field = &shape->fields[(turn + i) % shape->count];
        if (is_named(field, key))
            return field;
    }
    return NULL;
}

/* Each field once, in any order. */
static int read_shape(const msgpack_object *object, const struct shape *shape, uint8_t *at)
{
    unsigned seen = 0;
    if (object->type != MSGPACK_OBJECT_MAP || object->via.map.size != shape->count)
        return -1;
    for (size_t i = 0; i < shape->count; i++) {
        const msgpack_object_kv *pair = &object->via.map.ptr[i];
        const struct field *field = find(shape, i, &pair->key);
        if (!field || read_field(&pair->val, field, at) < 0)
            return -1;
        seen |= 1u << (field - shape->fields);
    }
    return seen == (1u << shape->count) - 1 ? 0 : -1;
}

static int decode(void *session, const struct gp_encoded *encoded, struct gp_record *record)
{
    struct session *s = session;
    msgpack_object object;
    size_t offset = 0;
    if (!s->zoned && !(s->zoned = msgpack_zone_init(&s->zone, MSGPACK_ZONE_CHUNK_SIZE)))
        return -1;
    if (msgpack_unpack((const char *)encoded->data, encoded->size, &offset, &s->zone, &object) !=
        MSGPACK_UNPACK_SUCCESS)
        return -1;
    return read_shape(&object, &record_shape, (uint8_t *)record);
}

/* --- sessions */

static int open_session(enum gp_codec_memory memory, void **session)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    s->memory = memory;
    *session = s;
    return 0;
}

static void give_back(struct session *s)
{
    msgpack_sbuffer_destroy(&s->buffer);
    msgpack_sbuffer_init(&s->buffer);
    if (s->zoned)
        msgpack_zone_destroy(&s->zone);
    s->zoned = false;
}

static void finish(void *session)
{
    struct session *s = session;
    if (s->memory == GP_CODEC_MALLOC) {
        give_back(s);
        return;
    }
    msgpack_sbuffer_clear(&s->buffer);
    if (s->zoned)
        msgpack_zone_clear(&s->zone);
}

static void close_session(void *session)
{
    if (session)
        give_back(session);
    free(session);
}

const struct gp_codec gp_codec_msgpack = {
    .name = "msgpack-c",
    .version = msgpack_version,
    .encodes = GP_CODEC_CAN(GP_CODEC_MALLOC) | GP_CODEC_CAN(GP_CODEC_REUSE),
    .decodes = GP_CODEC_CAN(GP_CODEC_MALLOC) | GP_CODEC_CAN(GP_CODEC_ARENA),
    .open = open_session,
    .encode = encode,
    .decode = decode,
    .finish = finish,
    .close = close_session,
};
