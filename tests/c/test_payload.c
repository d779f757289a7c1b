/* payload: against protobuf-c's own encoding, byte by byte, and with broken requests. */
#include <stdlib.h>
#include <string.h>

#include "benchmark_service.pb-c.h"
#include "check.h"
#include "server/payload.h"

static void check_response(int32_t body_bytes)
{
    Grpc__Testing__SimpleResponse response = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    uint8_t head[GP_PAYLOAD_HEAD_BYTES], *body = calloc((size_t)body_bytes + 1, 1);
    size_t head_length = gp_payload_head(body_bytes, head);
    CHECK(body && head_length <= sizeof(head));
    payload.body = (ProtobufCBinaryData){.len = (size_t)body_bytes, .data = body};
    response.payload = body_bytes ? &payload : NULL;
    size_t length = grpc__testing__simple_response__get_packed_size(&response);
    CHECK(length == head_length + (size_t)body_bytes);
    uint8_t *packed = malloc(length + 1);
    CHECK(packed && grpc__testing__simple_response__pack(&response, packed) == length);
    CHECK(memcmp(packed, head, head_length) == 0);
    CHECK(memcmp(packed + head_length, body, (size_t)body_bytes) == 0);
    free(packed);
    free(body);
}

static void test_responses(void)
{
    /* Around each place where a length takes one byte more. */
    static const int32_t sizes[] = {0,     1,       16,      123,     124,     125,     126,
                                    127,   128,     16379,   16380,   16381,   16383,   16384,
                                    65536, 2097146, 2097147, 2097148, 2097151, 2097152, 4194304};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        check_response(sizes[i]);
    uint8_t head[GP_PAYLOAD_HEAD_BYTES];
    CHECK(gp_payload_head(GP_PAYLOAD_MAX_BYTES, head) == 12);
}

static void check_request(int32_t response_size, size_t body_bytes)
{
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    int32_t decoded = 77;
    payload.body = (ProtobufCBinaryData){.len = body_bytes, .data = calloc(body_bytes + 1, 1)};
    request.payload = &payload;
    request.response_size = response_size;
    size_t length = grpc__testing__simple_request__get_packed_size(&request);
    uint8_t *packed = malloc(length + 1);
    CHECK(packed && payload.body.data);
    grpc__testing__simple_request__pack(&request, packed);
    CHECK(gp_payload_decode(packed, length, &decoded) == 0 && decoded == response_size);
    if (body_bytes)
        CHECK(gp_payload_decode(packed, length - 1, &decoded) < 0); /* cut off */
    free(packed);
    free(payload.body.data);
}

static void test_requests(void)
{
    static const int32_t sizes[] = {0, 1, 16, 300, INT32_MAX, -1, INT32_MIN};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t body = 0; body <= 100000; body = body * 7 + 16) /* on the stack, and beyond it */
            check_request(sizes[i], body);
    int32_t decoded = 77;
    CHECK(gp_payload_decode((const uint8_t *)"", 0, &decoded) == 0 && decoded == 0);
    CHECK(gp_payload_decode((const uint8_t *)"\xff\xff\xff", 3, &decoded) < 0);
    CHECK(gp_payload_decode((const uint8_t *)"\x1a\x7f", 2, &decoded) < 0);
}

int main(void)
{
    test_responses();
    test_requests();
    return 0;
}
