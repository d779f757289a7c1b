/* What a response's fields say about how the call ended: gRPC over HTTP/2, "Responses", and its table that
 * maps HTTP status codes. */
#ifndef GP_WIRE_STATUS_H
#define GP_WIRE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/call.h"

/* The value of grpc-status: 0 to 16, any other number and anything that is no number is UNKNOWN. */
enum gp_class gp_status_parse(const uint8_t *text, size_t size);

/* The status of a response that has no grpc-status (http-grpc-status-mapping.md): 400 and 431
 * INTERNAL, 401 UNAUTHENTICATED, 403 PERMISSION_DENIED, 404 UNIMPLEMENTED, 429, 502, 503, 504 UNAVAILABLE,
 * all others UNKNOWN. */
enum gp_class gp_status_from_http(uint32_t http_status);

/* The status of a stream that was reset (gRPC over HTTP/2, "Errors"). */
enum gp_class gp_status_from_reset(uint32_t h2_error);

/* Undo the percent-encoding of grpc-message into `out` (at least `size` bytes; not terminated); returns the
 * number of bytes written. What is not a valid escape stays as it is. */
size_t gp_status_message_decode(const uint8_t *text, size_t size, char *out);

/* A span as grpc-timeout has it: at most 8 digits and a unit, rounded up, at least "1n". Returns the length;
 * `out` has room for 10 bytes. */
size_t gp_status_timeout_encode(uint64_t span_ns, char out[10]);

#endif
