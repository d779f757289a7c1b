/* The benchmark's messages as bytes. */
#include "server/payload.h"

#include <stdlib.h>

#include "benchmark_service.pb-c.h"

/* A small request is decoded without malloc: protobuf-c's objects go into this, on the caller's stack. */
struct scratch {
    size_t used;
    _Alignas(16) uint8_t bytes[512];
};

static void *scratch_alloc(void *data, size_t size)
{
    struct scratch *scratch = data;
    size_t rounded = (size + 15) & ~(size_t)15;
    if (size > sizeof(scratch->bytes) || rounded > sizeof(scratch->bytes) - scratch->used)
        return malloc(size);
    void *place = scratch->bytes + scratch->used;
    scratch->used += rounded;
    return place;
}

static void scratch_free(void *data, void *place)
{
    struct scratch *scratch = data;
    if ((uintptr_t)place - (uintptr_t)scratch->bytes >= sizeof(scratch->bytes))
        free(place);
}

int gp_payload_decode(const uint8_t *message, size_t length, int32_t *response_size)
{
    struct scratch scratch;
    scratch.used = 0;
    ProtobufCAllocator allocator = {.alloc = scratch_alloc, .free = scratch_free, .allocator_data = &scratch};
    Grpc__Testing__SimpleRequest *request =
        grpc__testing__simple_request__unpack(&allocator, length, message);
    if (!request)
        return -1;
    *response_size = request->response_size;
    grpc__testing__simple_request__free_unpacked(request, &allocator);
    return 0;
}

static size_t put_varint(uint8_t *out, uint32_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        out[length++] = (uint8_t)(value | 0x80);
    out[length++] = (uint8_t)value;
    return length;
}

size_t gp_payload_head(int32_t body_bytes, uint8_t head[GP_PAYLOAD_HEAD_BYTES])
{
    uint8_t inner[8];
    size_t length = 0;
    if (body_bytes == 0)
        return 0;
    inner[0] = 2 << 3 | 2; /* Payload.body, length-delimited */
    size_t inner_length = 1 + put_varint(inner + 1, (uint32_t)body_bytes);
    head[length++] = 1 << 3 | 2; /* SimpleResponse.payload */
    length += put_varint(head + length, (uint32_t)inner_length + (uint32_t)body_bytes);
    for (size_t i = 0; i < inner_length; i++)
        head[length++] = inner[i];
    return length;
}
