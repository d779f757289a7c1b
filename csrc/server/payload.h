/* The benchmark's messages as bytes: what a request asks for, and the response of a given size. Pure but for
 * allocation; no gRPC. */
#ifndef GP_SERVER_PAYLOAD_H
#define GP_SERVER_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#define GP_PAYLOAD_MAX_BYTES (INT32_C(1) << 30)
#define GP_PAYLOAD_HEAD_BYTES 16 /* room for a head */

/* The response_size of a serialized SimpleRequest; -1 when it is none. */
int gp_payload_decode(const uint8_t *message, size_t length, int32_t *response_size);

/* All of a serialized SimpleResponse but its `body_bytes` zero bytes of body, which follow; returns its
 * length. A body of 0 bytes is an empty message. */
size_t gp_payload_head(int32_t body_bytes, uint8_t head[GP_PAYLOAD_HEAD_BYTES]);

#endif
