/* protobuf: by protobuf-c. To be encoded, a record is first told in its messages, which point at
 * the record's texts; its decoder always allocates, from an allocator that may be the arena, so
 * there is nothing to reuse. */
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>

#include "codec/arena.h"
#include "codec/codec.h"
#include "codec/record.pb-c.h"

#define ARENA_BYTES 65536

struct messages {
    Grpcperf__Codec__Record record;
    Grpcperf__Codec__Address address;
    Grpcperf__Codec__Item items[GP_RECORD_ITEMS], *item_places[GP_RECORD_ITEMS];
    char *tags[GP_RECORD_TAGS];
};

struct session {
    enum gp_codec_memory memory;
    struct gp_arena arena;
    ProtobufCAllocator allocator; /* of the arena */
    struct messages *messages;
    uint8_t *packed;
    size_t packed_capacity; /* of what is reused */
    Grpcperf__Codec__Record *unpacked;
};

static void *take(void *session, size_t size)
{
    struct session *s = session;
    return s->memory == GP_CODEC_ARENA ? gp_arena_take(&s->arena, size) : malloc(size);
}

static void leave(void *session, void *memory) {} /* until the arena is reset */

static int open_session(enum gp_codec_memory memory, void **session)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    s->memory = memory;
    s->allocator = (ProtobufCAllocator){.alloc = take, .free = leave, .allocator_data = s};
    if (memory == GP_CODEC_ARENA && gp_arena_init(&s->arena, ARENA_BYTES) < 0) {
        free(s);
        return -1;
    }
    *session = s;
    return 0;
}

static ProtobufCBinaryData binary(const struct gp_text *text)
{
    return (ProtobufCBinaryData){.len = text->size, .data = (uint8_t *)text->data};
}

static void tell_address(Grpcperf__Codec__Address *message, const struct gp_address *address)
{
    *message = (Grpcperf__Codec__Address)GRPCPERF__CODEC__ADDRESS__INIT;
    message->street = (char *)address->street.data;
    message->city = (char *)address->city.data;
    message->postcode = (char *)address->postcode.data;
    message->country = (char *)address->country.data;
    message->latitude = address->latitude;
    message->longitude = address->longitude;
}

static void tell_item(Grpcperf__Codec__Item *message, const struct gp_item *item)
{
    *message = (Grpcperf__Codec__Item)GRPCPERF__CODEC__ITEM__INIT;
    message->sku = (char *)item->sku.data;
    message->name = (char *)item->name.data;
    message->quantity = item->quantity;
    message->price = item->price;
}

static void tell_parts(struct messages *m, const struct gp_record *record)
{
    tell_address(&m->address, &record->address);
    for (size_t i = 0; i < record->item_count; i++) {
        tell_item(&m->items[i], &record->items[i]);
        m->item_places[i] = &m->items[i];
    }
    for (size_t i = 0; i < record->tag_count; i++)
        m->tags[i] = (char *)record->tags[i].data;
}

static void tell(struct messages *m, const struct gp_record *record)
{
    tell_parts(m, record);
    m->record = (Grpcperf__Codec__Record)GRPCPERF__CODEC__RECORD__INIT;
    m->record.id = record->id;
    m->record.created_us = record->created_us;
    m->record.customer = (char *)record->customer.data;
    m->record.email = (char *)record->email.data;
    m->record.paid = record->paid;
    m->record.state = record->state;
    m->record.total = record->total;
    m->record.address = &m->address;
    m->record.n_items = record->item_count;
    m->record.items = m->item_places;
    m->record.n_tags = record->tag_count;
    m->record.tags = m->tags;
    m->record.n_samples = record->sample_count;
    m->record.samples = (double *)record->samples;
    m->record.signature = binary(&record->signature);
}

static int make_room(struct session *s, size_t size)
{
    if (s->packed && s->packed_capacity >= size)
        return 0;
    free(s->packed); /* the arena's is not kept to here */
    s->packed = take(s, size);
    s->packed_capacity = s->packed ? size : 0;
    return s->packed ? 0 : -1;
}

static int encode(void *session, const struct gp_record *record, struct gp_encoded *encoded)
{
    struct session *s = session;
    if (!s->messages && !(s->messages = take(s, sizeof *s->messages)))
        return -1;
    tell(s->messages, record);
    size_t size = grpcperf__codec__record__get_packed_size(&s->messages->record);
    if (make_room(s, size) < 0)
        return -1;
    grpcperf__codec__record__pack(&s->messages->record, s->packed);
    *encoded = (struct gp_encoded){s->packed, size};
    return 0;
}

static struct gp_text text(const char *string)
{
    return (struct gp_text){string, strlen(string)};
}

static void read_address(const Grpcperf__Codec__Address *message, struct gp_address *address)
{
    address->street = text(message->street);
    address->city = text(message->city);
    address->postcode = text(message->postcode);
    address->country = text(message->country);
    address->latitude = message->latitude;
    address->longitude = message->longitude;
}

static void read_item(const Grpcperf__Codec__Item *message, struct gp_item *item)
{
    item->sku = text(message->sku);
    item->name = text(message->name);
    item->quantity = message->quantity;
    item->price = message->price;
}

static void read_parts(const Grpcperf__Codec__Record *message, struct gp_record *record)
{
    record->item_count = message->n_items;
    for (size_t i = 0; i < message->n_items; i++)
        read_item(message->items[i], &record->items[i]);
    record->tag_count = message->n_tags;
    for (size_t i = 0; i < message->n_tags; i++)
        record->tags[i] = text(message->tags[i]);
    record->sample_count = message->n_samples;
    for (size_t i = 0; i < message->n_samples; i++)
        record->samples[i] = message->samples[i];
}

static void read_record(const Grpcperf__Codec__Record *message, struct gp_record *record)
{
    record->id = message->id;
    record->created_us = message->created_us;
    record->customer = text(message->customer);
    record->email = text(message->email);
    record->paid = message->paid;
    record->state = message->state;
    record->total = message->total;
    record->signature = (struct gp_text){(const char *)message->signature.data, message->signature.len};
    read_address(message->address, &record->address);
    read_parts(message, record);
}

static int decode(void *session, const struct gp_encoded *encoded, struct gp_record *record)
{
    struct session *s = session;
    ProtobufCAllocator *allocator = s->memory == GP_CODEC_ARENA ? &s->allocator : NULL;
    const Grpcperf__Codec__Record *m = s->unpacked =
        grpcperf__codec__record__unpack(allocator, encoded->size, encoded->data);
    if (!m || !m->address || m->n_items > GP_RECORD_ITEMS || m->n_tags > GP_RECORD_TAGS ||
        m->n_samples > GP_RECORD_SAMPLES)
        return -1;
    read_record(m, record);
    return 0;
}

static void finish(void *session)
{
    struct session *s = session;
    if (s->memory == GP_CODEC_REUSE)
        return;
    if (s->memory == GP_CODEC_ARENA) {
        gp_arena_reset(&s->arena);
    } else {
        free(s->messages);
        free(s->packed);
        if (s->unpacked)
            grpcperf__codec__record__free_unpacked(s->unpacked, NULL);
    }
    s->messages = NULL;
    s->packed = NULL;
    s->unpacked = NULL;
}

static void close_session(void *session)
{
    struct session *s = session;
    if (!s)
        return;
    if (s->memory == GP_CODEC_REUSE) {
        free(s->messages);
        free(s->packed);
    }
    gp_arena_fini(&s->arena);
    free(s);
}

const struct gp_codec gp_codec_protobuf = {
    .name = "protobuf-c",
    .version = protobuf_c_version,
    .encodes = GP_CODEC_CAN(GP_CODEC_MALLOC) | GP_CODEC_CAN(GP_CODEC_ARENA) | GP_CODEC_CAN(GP_CODEC_REUSE),
    .decodes = GP_CODEC_CAN(GP_CODEC_MALLOC) | GP_CODEC_CAN(GP_CODEC_ARENA),
    .open = open_session,
    .encode = encode,
    .decode = decode,
    .finish = finish,
    .close = close_session,
};
