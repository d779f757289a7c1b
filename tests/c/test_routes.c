/* Requests' header blocks from nghttp2's deflater, and what they are for. */
#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "wire/routes.h"

#define SERVICE "/grpc.testing.BenchmarkService/"

struct pair {
    struct gp_routes *routes;
    nghttp2_hd_deflater *deflater;
    uint8_t block[8192];
    size_t size;
};

static void begin(struct pair *pair, uint32_t max_list_bytes)
{
    struct gp_error err;

    CHECK(gp_routes_create(&pair->routes, max_list_bytes, &err) == 0);
    CHECK(nghttp2_hd_deflate_new(&pair->deflater, 4096) == 0);
}

static void end(struct pair *pair)
{
    gp_routes_destroy(pair->routes);
    nghttp2_hd_deflate_del(pair->deflater);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        0};
}

static enum gp_routed read_request(struct pair *pair, const char *path, const char *name, const char *value,
                                   struct gp_route *route)
{
    nghttp2_nv fields[] = {field(":method", "POST"), field(":path", path), field(name, value)};
    ssize_t size = nghttp2_hd_deflate_hd(pair->deflater, pair->block, sizeof pair->block, fields, 3);

    CHECK(size > 0);
    pair->size = (size_t)size;
    return gp_routes_read(pair->routes, pair->block, pair->size, route);
}

static void the_methods(void)
{
    static const struct {
        const char *path;
        enum gp_kind kind;
        bool known;
    } cases[] = {
        {SERVICE "UnaryCall", GP_KIND_UNARY, true},
        {SERVICE "StreamingCall", GP_KIND_BIDI, true},
        {SERVICE "StreamingFromClient", GP_KIND_CLIENT_STREAM, true},
        {SERVICE "StreamingFromServer", GP_KIND_SERVER_STREAM, true},
        {SERVICE "StreamingBothWays", GP_KIND_BIDI_FREE, true},
        {SERVICE "UnaryCal", 0, false},
        {SERVICE "UnaryCalls", 0, false},
        {"/", 0, false},
    };
    struct pair pair;
    struct gp_route route;

    begin(&pair, 65536);
    for (unsigned i = 0; i < 40; i++) {
        CHECK(read_request(&pair, cases[i % 8].path, "te", "trailers", &route) == GP_ROUTED);
        CHECK(route.has_path && route.known == cases[i % 8].known && route.kind == cases[i % 8].kind &&
              !route.encoded);
    }
    end(&pair);
}

/* Known only when the table stayed as it was, and only as long as it stays. */
static void what_is_known(void)
{
    struct pair pair;
    struct gp_route route;

    begin(&pair, 65536);
    read_request(&pair, SERVICE "UnaryCall", "user-agent", "x", &route);
    CHECK(!gp_routes_find(pair.routes, pair.block, pair.size)); /* it entered the table */
    read_request(&pair, SERVICE "UnaryCall", "user-agent", "x", &route);
    const struct gp_route *known = gp_routes_find(pair.routes, pair.block, pair.size);
    CHECK(known && known->known && known->kind == GP_KIND_UNARY);
    uint8_t block[200];
    size_t size = pair.size;
    memcpy(block, pair.block, size);
    CHECK(!gp_routes_find(pair.routes, block, size - 1));
    read_request(&pair, SERVICE "UnaryCall", "user-agent", "y", &route);
    CHECK(!gp_routes_find(pair.routes, block, size)); /* its indices mean something else now */
    end(&pair);
}

static void encodings(void)
{
    struct pair pair;
    struct gp_route route;

    begin(&pair, 65536);
    CHECK(read_request(&pair, SERVICE "UnaryCall", "grpc-encoding", "gzip", &route) == GP_ROUTED &&
          route.encoded);
    CHECK(read_request(&pair, SERVICE "UnaryCall", "grpc-encoding", "identity", &route) == GP_ROUTED &&
          !route.encoded);
    end(&pair);
}

static void large_and_broken(void)
{
    static char value[3000];
    struct pair pair;
    struct gp_route route;

    memset(value, 'x', sizeof value - 1);
    begin(&pair, 1000);
    CHECK(read_request(&pair, SERVICE "UnaryCall", "a", value, &route) == GP_ROUTED_TOO_LARGE);
    CHECK(read_request(&pair, SERVICE "UnaryCall", "a", value, &route) ==
          GP_ROUTED_TOO_LARGE); /* and not known */
    CHECK(read_request(&pair, SERVICE "UnaryCall", "a", "b", &route) == GP_ROUTED && route.known);
    CHECK(gp_routes_read(pair.routes, (const uint8_t *)"\xff\x20", 2, &route) == GP_ROUTED_BROKEN);
    CHECK(gp_routes_read(pair.routes, (const uint8_t *)"\x83", 1, &route) == GP_ROUTED_BROKEN); /* for ever */
    end(&pair);
    begin(&pair, 1000);
    CHECK(gp_routes_read(pair.routes, (const uint8_t *)"\x83", 1, &route) == GP_ROUTED && !route.has_path);
    CHECK(gp_routes_read(pair.routes, (const uint8_t *)"", 0, &route) == GP_ROUTED && !route.has_path);
    end(&pair);
}

int main(void)
{
    the_methods();
    what_is_known();
    encodings();
    large_and_broken();
    return 0;
}
