/* The request's header block, read back by nghttp2's inflater, over the table sizes a peer may set. */
#include <string.h>
#include <nghttp2/nghttp2.h>

#include "base/call.h"
#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "wire/block.h"

static const struct gp_metadata metadata[] = {{"grpcperf-hold", "1"},
                                              {"authorization", "Bearer abc"},
                                              {"x", ""},
                                              {"trace-bin", "\x01\xff~", 3},
                                              {"x", "again"}};

static const struct gp_request plain = {.method = "/grpc.testing.BenchmarkService/UnaryCall"};
static const struct gp_request full = {.method = "/grpc.testing.BenchmarkService/UnaryCall",
                                       .metadata = metadata,
                                       .metadata_count = sizeof metadata / sizeof metadata[0],
                                       .deadline_ns = 1500000000};

static const char plain_fields[] = ":method: POST\n"
                                   ":scheme: http\n"
                                   ":path: /grpc.testing.BenchmarkService/UnaryCall\n"
                                   ":authority: localhost:50051\n"
                                   "te: trailers\n"
                                   "content-type: application/grpc\n"
                                   "grpc-accept-encoding: identity,gzip\n"
                                   "user-agent: grpcperf/" GP_VERSION "\n";
static const char full_fields[] = ":method: POST\n"
                                  ":scheme: https\n"
                                  ":path: /grpc.testing.BenchmarkService/UnaryCall\n"
                                  ":authority: localhost:50051\n"
                                  "grpc-timeout: 1500000u\n"
                                  "te: trailers\n"
                                  "content-type: application/grpc\n"
                                  "grpc-encoding: gzip\n"
                                  "grpc-accept-encoding: identity,gzip\n"
                                  "user-agent: grpcperf/" GP_VERSION "\n"
                                  "grpcperf-hold: 1\n"
                                  "authorization: Bearer abc\n"
                                  "x: \n"
                                  "trace-bin: Af9+\n"
                                  "x: again\n";

static struct gp_block *create(const struct gp_request *request, const char *scheme, const char *encoding)
{
    struct gp_block_opts opts = {
        .request = request, .scheme = scheme, .authority = "localhost:50051", .encoding = encoding};
    struct gp_block *block;
    struct gp_error err;

    CHECK(gp_block_create(&block, &opts, &err) == 0);
    return block;
}

static nghttp2_hd_inflater *create_inflater(void)
{
    nghttp2_hd_inflater *inflater;

    CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
    return inflater;
}

/* Reads one block; returns what its fields count by RFC 9113, 10.5.1's measure. */
static uint32_t read_back(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size, char *text)
{
    uint32_t list_bytes = 0;
    int flags = 0;

    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        flags = 0;
        ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, size, 1);
        CHECK(taken >= 0);
        block += taken;
        size -= (size_t)taken;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            text += sprintf(text, "%.*s: %.*s\n", (int)field.namelen, field.name, (int)field.valuelen,
                            field.value);
            list_bytes += (uint32_t)(field.namelen + field.valuelen + 32);
        }
    }
    *text = '\0';
    CHECK(nghttp2_hd_inflate_end_headers(inflater) == 0);
    return list_bytes;
}

static size_t check_next(struct gp_block *block, nghttp2_hd_inflater *inflater, const char *wanted)
{
    char text[8192];
    size_t size;
    const uint8_t *bytes = gp_block_next(block, &size);

    CHECK(bytes);
    CHECK(read_back(inflater, bytes, size, text) == gp_block_list_bytes(block));
    CHECK(strcmp(text, wanted) == 0);
    return size;
}

/* Two blocks, and then one byte for each field. */
static void test_rest(const struct gp_request *request, const char *scheme, const char *encoding,
                      const char *wanted, size_t fields)
{
    struct gp_block *block = create(request, scheme, encoding);
    nghttp2_hd_inflater *inflater = create_inflater();

    CHECK(!gp_block_at_rest(block));
    CHECK(check_next(block, inflater, wanted) > fields);
    CHECK(!gp_block_at_rest(block));
    for (int i = 0; i < 5; i++) {
        CHECK(check_next(block, inflater, wanted) == fields);
        CHECK(gp_block_at_rest(block));
    }
    nghttp2_hd_inflate_del(inflater);
    gp_block_destroy(block);
}

/* Changes at the start, in the middle and twice between two blocks, among the sizes that matter. nghttp2
 * demands the update where RFC 7541, 4.2 does. */
static void test_table_sizes(void)
{
    static const uint32_t sizes[] = {0, 31, 64, 100, 256, 300, 1000, 4095, 4096, 4097, 65536, UINT32_MAX};
    struct gp_random random;

    gp_random_init(&random, 6);
    for (int round = 0; round < 2000; round++) {
        bool rich = gp_random_below(&random, 2);
        struct gp_block *block = create(rich ? &full : &plain, rich ? "https" : "http", rich ? "gzip" : NULL);
        nghttp2_hd_inflater *inflater = create_inflater();
        for (int step = 0; step < 12; step++) {
            for (uint64_t changes = gp_random_below(&random, 4); changes > 1; changes--) {
                uint32_t size = sizes[gp_random_below(&random, sizeof sizes / sizeof sizes[0])];
                gp_block_table_size(block, size);
                CHECK(nghttp2_hd_inflate_change_table_size(inflater, size) == 0);
            }
            check_next(block, inflater, rich ? full_fields : plain_fields);
        }
        nghttp2_hd_inflate_del(inflater);
        gp_block_destroy(block);
    }
}

/* The steady block for each table: what does not fit is sent in full, and nothing
 * is evicted over and over. */
static void test_steady_sizes(void)
{
    static const struct {
        uint32_t table, most;
    } cases[] = {{0, 200}, {64, 150}, {256, 80}, {4096, 8}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_block *block = create(&plain, "http", NULL);
        nghttp2_hd_inflater *inflater = create_inflater();
        gp_block_table_size(block, cases[i].table);
        CHECK(nghttp2_hd_inflate_change_table_size(inflater, cases[i].table) == 0);
        check_next(block, inflater, plain_fields);
        size_t entries = nghttp2_hd_inflate_get_num_table_entries(inflater);
        CHECK(check_next(block, inflater, plain_fields) <= cases[i].most);
        CHECK(gp_block_at_rest(block) && nghttp2_hd_inflate_get_num_table_entries(inflater) == entries);
        nghttp2_hd_inflate_del(inflater);
        gp_block_destroy(block);
    }
}

/* A table as large as before says nothing; one that changed and changed back empties the peer's table. */
static void test_unchanged_size(void)
{
    struct gp_block *block = create(&plain, "http", NULL);
    nghttp2_hd_inflater *inflater = create_inflater();

    gp_block_table_size(block, 4096);
    check_next(block, inflater, plain_fields);
    check_next(block, inflater, plain_fields);
    gp_block_table_size(block, 4096);
    gp_block_table_size(block, 1 << 20);
    CHECK(gp_block_at_rest(block) && check_next(block, inflater, plain_fields) == 8);
    gp_block_table_size(block, 0);
    gp_block_table_size(block, 4096);
    CHECK(!gp_block_at_rest(block));
    CHECK(nghttp2_hd_inflate_change_table_size(inflater, 0) == 0);
    CHECK(nghttp2_hd_inflate_change_table_size(inflater, 4096) == 0);
    CHECK(check_next(block, inflater, plain_fields) > 100);
    CHECK(check_next(block, inflater, plain_fields) == 8 && gp_block_at_rest(block));
    nghttp2_hd_inflate_del(inflater);
    gp_block_destroy(block);
}

/* More metadata than the table holds, and more entries than a one-byte index reaches. */
static void test_much_metadata(void)
{
    static struct gp_metadata many[200];
    struct gp_request request = {.method = "/a/b", .metadata = many, .metadata_count = 200};
    char names[200][8], *wanted = malloc(16384);
    int size = sprintf(wanted, ":method: POST\n:scheme: http\n:path: /a/b\n:authority: localhost:50051\n"
                               "te: trailers\ncontent-type: application/grpc\n"
                               "grpc-accept-encoding: identity,gzip\nuser-agent: grpcperf/" GP_VERSION "\n");

    for (int i = 0; i < 200; i++) {
        sprintf(names[i], "k%d", i);
        many[i] = (struct gp_metadata){names[i], ""};
        size += sprintf(wanted + size, "k%d: \n", i);
    }
    struct gp_block *block = create(&request, "http", NULL);
    nghttp2_hd_inflater *inflater = create_inflater();
    check_next(block, inflater, wanted);
    CHECK(nghttp2_hd_inflate_get_num_table_entries(inflater) > 66); /* indices above 126 */
    check_next(block, inflater, wanted);
    check_next(block, inflater, wanted);
    nghttp2_hd_inflate_del(inflater);
    gp_block_destroy(block);
    free(wanted);
}

/* RFC 4648, 10, without the padding. */
static void test_base64(void)
{
    static const char *const cases[][2] = {
        {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xfe", "+//+"},
        {"\0\n\0", "AAoA"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_metadata one = {"v-bin", cases[i][0], strlen(cases[i][1]) * 3 / 4};
        struct gp_request request = {.method = "/a/b", .metadata = &one, .metadata_count = 1};
        struct gp_block *block = create(&request, "http", NULL);
        nghttp2_hd_inflater *inflater = create_inflater();
        char text[1024], wanted[64];
        size_t size;
        const uint8_t *bytes = gp_block_next(block, &size);
        read_back(inflater, bytes, size, text);
        sprintf(wanted, "\nv-bin: %s\n", cases[i][1]);
        CHECK(strstr(text, wanted));
        nghttp2_hd_inflate_del(inflater);
        gp_block_destroy(block);
    }
}

static void test_refused(void)
{
    static const struct gp_metadata cases[] = {
        {"", "v"},           {"Upper", "v"},        {":path", "v"},      {"a b", "v"},
        {"a:b", "v"},        {"te", "trailers"},    {"connection", "x"}, {"grpc-timeout", "1S"},
        {"user-agent", "x"}, {"content-type", "x"}, {"k", "a\r\nb: c"},  {"k", " v"},
        {"k", "v "},         {"k", "\x7f"},         {"k", "\xc3\xa9"},   {"k\xc3\xa9", "v"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_request request = {.method = "/a/b", .metadata = &cases[i], .metadata_count = 1};
        struct gp_block_opts opts = {.request = &request, .scheme = "http", .authority = "localhost"};
        struct gp_block *block;
        struct gp_error err = {0};
        CHECK(gp_block_create(&block, &opts, &err) == -1 && !block);
        CHECK(err.code == GP_ERROR_INVALID && strstr(err.message, cases[i].key));
    }
    gp_block_destroy(NULL);
}

int main(void)
{
    test_rest(&plain, "http", NULL, plain_fields, 8);
    test_rest(&full, "https", "gzip", full_fields, 15);
    test_table_sizes();
    test_steady_sizes();
    test_unchanged_size();
    test_much_metadata();
    test_base64();
    test_refused();
    return 0;
}
