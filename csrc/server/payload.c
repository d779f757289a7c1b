/* The benchmark's messages as bytes. */
#include "server/payload.h"

#include <stdlib.h>
#include <string.h>

#include "benchmark_service.pb-c.h"
#include "wire/benchmark.h"
#include "wire/message.h"

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

size_t gp_payload_head(int32_t body_bytes, uint8_t head[GP_PAYLOAD_HEAD_BYTES])
{
    uint8_t framed[GP_BENCHMARK_HEAD_BYTES];
    size_t length = gp_benchmark_head(body_bytes, framed) - GP_MESSAGE_PREFIX_BYTES;
    memcpy(head, framed + GP_MESSAGE_PREFIX_BYTES, length); /* C core writes the prefix */
    return length;
}
