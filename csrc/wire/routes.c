/* routes: known blocks first, then inflating, with an eye on two fields. */
#include "wire/routes.h"

#include <stdlib.h>
#include <string.h>
#include <nghttp2/nghttp2.h>

#include "base/error.h"
#include "wire/hpack.h"
#include "wire/inflate.h"
#include "wire/known.h"

#define SERVICE "/grpc.testing.BenchmarkService/"

struct gp_routes {
    nghttp2_hd_inflater *inflater;
    uint32_t max_list_bytes;
    bool broken;
    struct gp_known known;
};

static const char *const paths[] = {
    [GP_KIND_UNARY] = SERVICE "UnaryCall",
    [GP_KIND_SERVER_STREAM] = SERVICE "StreamingFromServer",
    [GP_KIND_CLIENT_STREAM] = SERVICE "StreamingFromClient",
    [GP_KIND_BIDI] = SERVICE "StreamingCall",
    [GP_KIND_BIDI_FREE] = SERVICE "StreamingBothWays",
};

int gp_routes_create(struct gp_routes **routes, uint32_t max_list_bytes, struct gp_error *err)
{
    struct gp_routes *made = calloc(1, sizeof *made);

    *routes = NULL;
    if (!made || nghttp2_hd_inflate_new(&made->inflater) != 0) {
        free(made);
        return gp_error_set(err, GP_ERROR_ENGINE, "out of memory for a header decoder");
    }
    made->max_list_bytes = max_list_bytes;
    *routes = made;
    return 0;
}

static bool equals(const uint8_t *text, size_t size, const char *literal)
{
    return size == strlen(literal) && memcmp(text, literal, size) == 0;
}

static void read_path(struct gp_route *route, const uint8_t *path, size_t size)
{
    route->has_path = true;
    for (unsigned kind = 0; kind < sizeof paths / sizeof paths[0]; kind++) {
        if (equals(path, size, paths[kind])) {
            route->kind = (enum gp_kind)kind;
            route->known = true;
        }
    }
}

static void read_field(void *context, const nghttp2_nv *field)
{
    struct gp_route *route = context;

    if (equals(field->name, field->namelen, ":path"))
        read_path(route, field->value, field->valuelen);
    else if (equals(field->name, field->namelen, "grpc-encoding"))
        route->encoded = !equals(field->value, field->valuelen, "identity");
}

const struct gp_route *gp_routes_find(const struct gp_routes *routes, const uint8_t *block, size_t size)
{
    return gp_known_find(&routes->known, block, size);
}

static enum gp_routed read_unknown(struct gp_routes *routes, const uint8_t *block, size_t size,
                                   struct gp_route *route)
{
    bool leaves_table = gp_hpack_leaves_table(block, size);

    if (!leaves_table)
        gp_known_forget(&routes->known);
    switch (gp_inflate(routes->inflater, block, size, routes->max_list_bytes, read_field, route)) {
    case GP_INFLATED_BROKEN:
        routes->broken = true;
        return GP_ROUTED_BROKEN;
    case GP_INFLATED_TOO_LARGE:
        return GP_ROUTED_TOO_LARGE;
    case GP_INFLATED:
        break;
    }
    if (leaves_table)
        gp_known_add(&routes->known, block, size, route, sizeof *route);
    return GP_ROUTED;
}

enum gp_routed gp_routes_read(struct gp_routes *routes, const uint8_t *block, size_t size,
                              struct gp_route *route)
{
    const struct gp_route *known = routes->broken ? NULL : gp_routes_find(routes, block, size);

    *route = known ? *known : (struct gp_route){0};
    if (routes->broken)
        return GP_ROUTED_BROKEN;
    return known ? GP_ROUTED : read_unknown(routes, block, size, route);
}

void gp_routes_destroy(struct gp_routes *routes)
{
    if (!routes)
        return;
    nghttp2_hd_inflate_del(routes->inflater);
    gp_known_fini(&routes->known);
    free(routes);
}
