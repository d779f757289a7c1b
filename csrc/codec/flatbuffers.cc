/* flatbuffers: by FlatBuffers, a C++ library of headers; this is all the C++ there is. It decodes in place:
 * from the bytes where they are, whether they are looked over first or not, and takes no memory for it. */
#include <new>
#include <optional>

#include "codec/record_generated.h"

extern "C" {
#include "codec/arena.h"
}
#include "codec/codec.h"

namespace
{
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Vector;
namespace made = grpcperf::codec;

constexpr size_t arena_bytes = 65536;
constexpr size_t first_bytes = 1024; // the library's own first size of a builder's buffer

/* The library leaves it to an allocator to have memory, as operator new does. */
class ArenaAllocator final : public flatbuffers::Allocator
{
  public:
    gp_arena arena = {};

    uint8_t *allocate(size_t size) override { return static_cast<uint8_t *>(gp_arena_take(&arena, size)); }
    void deallocate(uint8_t *, size_t) override {} // until the arena is reset
};

struct Session {
    gp_codec_memory memory;
    ArenaAllocator allocator;
    std::optional<FlatBufferBuilder> builder;
};

const char *version()
{
    return FLATBUFFERS_STRING(FLATBUFFERS_VERSION_MAJOR) "." FLATBUFFERS_STRING(
        FLATBUFFERS_VERSION_MINOR) "." FLATBUFFERS_STRING(FLATBUFFERS_VERSION_REVISION);
}

int open(gp_codec_memory memory, void **session)
{
    Session *s = new (std::nothrow) Session{memory, {}, {}};
    if (s && memory == GP_CODEC_ARENA && gp_arena_init(&s->allocator.arena, arena_bytes) < 0) {
        delete s;
        s = nullptr;
    }
    *session = s;
    return s ? 0 : -1;
}

Offset<String> put(FlatBufferBuilder &builder, const gp_text &text)
{
    return builder.CreateString(text.data, text.size);
}

Offset<made::Address> put(FlatBufferBuilder &builder, const gp_address &address)
{
    auto street = put(builder, address.street), city = put(builder, address.city);
    auto postcode = put(builder, address.postcode), country = put(builder, address.country);
    return made::CreateAddress(builder, street, city, postcode, country, address.latitude, address.longitude);
}

Offset<made::Item> put(FlatBufferBuilder &builder, const gp_item &item)
{
    auto sku = put(builder, item.sku), name = put(builder, item.name);
    return made::CreateItem(builder, sku, name, item.quantity, item.price);
}

Offset<Vector<Offset<made::Item>>> put_items(FlatBufferBuilder &builder, const gp_record &record)
{
    Offset<made::Item> items[GP_RECORD_ITEMS];
    for (size_t i = 0; i < record.item_count; i++)
        items[i] = put(builder, record.items[i]);
    return builder.CreateVector(items, record.item_count);
}

Offset<Vector<Offset<String>>> put_tags(FlatBufferBuilder &builder, const gp_record &record)
{
    Offset<String> tags[GP_RECORD_TAGS];
    for (size_t i = 0; i < record.tag_count; i++)
        tags[i] = put(builder, record.tags[i]);
    return builder.CreateVector(tags, record.tag_count);
}

Offset<Vector<uint8_t>> put_bytes(FlatBufferBuilder &builder, const gp_text &bytes)
{
    return builder.CreateVector(reinterpret_cast<const uint8_t *>(bytes.data), bytes.size);
}

int encode(void *session, const gp_record *record, gp_encoded *encoded)
{
    Session *s = static_cast<Session *>(session);
    if (!s->builder)
        s->builder.emplace(first_bytes, s->memory == GP_CODEC_ARENA ? &s->allocator : nullptr);
    FlatBufferBuilder &builder = *s->builder;
    auto customer = put(builder, record->customer), email = put(builder, record->email);
    auto address = put(builder, record->address);
    auto items = put_items(builder, *record);
    auto tags = put_tags(builder, *record);
    auto samples = builder.CreateVector(record->samples, record->sample_count);
    auto signature = put_bytes(builder, record->signature);
    builder.Finish(made::CreateRecord(builder, record->id, record->created_us, customer, email, record->paid,
                                      record->state, record->total, address, items, tags, samples,
                                      signature));
    *encoded = {builder.GetBufferPointer(), builder.GetSize()};
    return 0;
}

gp_text text(const String *string)
{
    return {string->c_str(), string->size()};
}

void read(const made::Address &from, gp_address *address)
{
    *address = {text(from.street()),  text(from.city()), text(from.postcode()),
                text(from.country()), from.latitude(),   from.longitude()};
}

void read_parts(const made::Record &from, gp_record *record)
{
    record->item_count = from.items()->size();
    for (unsigned i = 0; i < record->item_count; i++) {
        const made::Item &item = *from.items()->Get(i);
        record->items[i] = {text(item.sku()), text(item.name()), item.quantity(), item.price()};
    }
    record->tag_count = from.tags()->size();
    for (unsigned i = 0; i < record->tag_count; i++)
        record->tags[i] = text(from.tags()->Get(i));
    record->sample_count = from.samples()->size();
    for (unsigned i = 0; i < record->sample_count; i++)
        record->samples[i] = from.samples()->Get(i);
}

int decode_trusted(void *, const gp_encoded *encoded, gp_record *record)
{
    const made::Record &from = *made::GetRecord(encoded->data);
    if (from.items()->size() > GP_RECORD_ITEMS || from.tags()->size() > GP_RECORD_TAGS ||
        from.samples()->size() > GP_RECORD_SAMPLES)
        return -1;
    record->id = from.id();
    record->created_us = from.created_us();
    record->customer = text(from.customer());
    record->email = text(from.email());
    record->paid = from.paid();
    record->state = from.state();
    record->total = from.total();
    read(*from.address(), &record->address);
    read_parts(from, record);
    record->signature = {reinterpret_cast<const char *>(from.signature()->data()), from.signature()->size()};
    return 0;
}

int decode(void *session, const gp_encoded *encoded, gp_record *record)
{
    flatbuffers::Verifier verifier(encoded->data, encoded->size);
    return made::VerifyRecordBuffer(verifier) ? decode_trusted(session, encoded, record) : -1;
}

void finish(void *session)
{
    Session *s = static_cast<Session *>(session);
    if (s->memory != GP_CODEC_REUSE)
        s->builder.reset();
    else if (s->builder)
        s->builder->Clear();
    gp_arena_reset(&s->allocator.arena);
}

void close(void *session)
{
    Session *s = static_cast<Session *>(session);
    if (!s)
        return;
    s->builder.reset();
    gp_arena_fini(&s->allocator.arena);
    delete s;
}
} // namespace

const struct gp_codec gp_codec_flatbuffers = {
    "flatbuffers",
    version,
    GP_CODEC_CAN(GP_CODEC_MALLOC) | GP_CODEC_CAN(GP_CODEC_ARENA) | GP_CODEC_CAN(GP_CODEC_REUSE),
    GP_CODEC_CAN(GP_CODEC_REUSE),
    open,
    encode,
    decode,
    decode_trusted,
    finish,
    close,
};
