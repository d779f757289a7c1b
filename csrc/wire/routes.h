/* From the header block of a request to the method it is for: recognised by its bytes, or else inflated by
 * nghttp2. Of all fields only :path and grpc-encoding are looked at. */
#ifndef GP_WIRE_ROUTES_H
#define GP_WIRE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"

struct gp_error;
struct gp_routes;

struct gp_route {
    enum gp_kind kind; /* of BenchmarkService's method */
    bool known;        /* false: there is no such method */
    bool has_path;     /* false: no request */
    bool encoded;      /* grpc-encoding is there and not identity */
};

enum gp_routed {
    GP_ROUTED,
    GP_ROUTED_TOO_LARGE, /* above max_list_bytes; the table is in order, this request fails */
    GP_ROUTED_BROKEN,    /* COMPRESSION_ERROR: the connection is done for */
};

int gp_routes_create(struct gp_routes **routes, uint32_t max_list_bytes, struct gp_error *err);

/* One whole header block (HEADERS and its CONTINUATIONs together), also of trailers. */
enum gp_routed gp_routes_read(struct gp_routes *routes, const uint8_t *block, size_t size,
                              struct gp_route *route);

/* The same for a block that is known: a reading that changes nothing. NULL: read it. */
const struct gp_route *gp_routes_find(const struct gp_routes *routes, const uint8_t *block, size_t size);

void gp_routes_destroy(struct gp_routes *routes);

#endif
