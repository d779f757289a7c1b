/* routes: known blocks first, then inflating, with an eye on two fields. */
#include "wire/routes.h"

#include <stdlib.h>
#include <string.h>
#include <nghttp2/nghttp2.h>

#include "base/error.h"
#include "wire/hpack.h"
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

static void read_field(struct gp_route *route, const nghttp2_nv *field)
{
    if (equals(field->name, field->namelen, ":path"))
        read_path(route, field->value, field->valuelen);
    else if (equals(field->name, field->namelen, "grpc-encoding"))
        route->encoded = !equals(field->value, field->valuelen, "identity");
}

/* -1: not HPACK. The whole block goes through the inflater even when it is too large: the table needs it. */
static int inflate(struct gp_routes *routes, const uint8_t *block, size_t size, struct gp_route *route,
                   uint64_t *list_bytes)
{
    int flags = 0;

    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        flags = 0;
        ssize_t taken = nghttp2_hd_inflate_hd2(routes->inflater, &field, &flags, block, size, 1);
        if (taken < 0)
            return -1;
        block += taken;
        size -= (size_t)taken;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            *list_bytes += field.namelen + field.valuelen + GP_HPACK_ENTRY_BYTES;
            if (*list_bytes <= routes->max_list_bytes)
                read_field(route, &field);
        } else if (!(flags & NGHTTP2_HD_INFLATE_FINAL) && size == 0) {
            return -1;
        }
    }
    nghttp2_hd_inflate_end_headers(routes->inflater);
    return 0;
}

const struct gp_route *gp_routes_find(const struct gp_routes *routes, const uint8_t *block, size_t size)
{
    return gp_known_find(&routes->known, block, size);
}

enum gp_routed gp_routes_read(struct gp_routes *routes, const uint8_t *block, size_t size,
                              struct gp_route *route)
{
    const struct gp_route *known = routes->broken ? NULL : gp_routes_find(routes, block, size);
    bool leaves_table = known || gp_hpack_leaves_table(block, size);
    uint64_t list_bytes = 0;

    *route = known ? *known : (struct gp_route){0};
    if (known)
        return GP_ROUTED;
    if (!leaves_table)
        gp_known_forget(&routes->known);
    routes->broken = routes->broken || inflate(routes, block, size, route, &list_bytes) != 0;
    if (routes->broken)
        return GP_ROUTED_BROKEN;
    if (list_bytes > routes->max_list_bytes)
        return GP_ROUTED_TOO_LARGE;
    if (leaves_table)
        gp_known_add(&routes->known, block, size, route, sizeof *route);
    return GP_ROUTED;
}

void gp_routes_destroy(struct gp_routes *routes)
{
    if (!routes)
        return;
    nghttp2_hd_inflate_del(routes->inflater);
    gp_known_fini(&routes->known);
    free(routes);
}
