/* HPACK by hand: integers and strings against RFC 7541's examples and nghttp2, and the scan of blocks. */
#include <string.h>
#include <nghttp2/nghttp2.h>

#include "base/bytes.h"
#include "base/random.h"
#include "check.h"
#include "wire/hpack.h"

static void check_integer(enum gp_hpack_pattern pattern, uint32_t value, const char *wanted, size_t size)
{
    struct gp_bytes bytes;

    gp_bytes_init(&bytes);
    CHECK(gp_hpack_put_integer(&bytes, pattern, value) == 0);
    CHECK(gp_bytes_length(&bytes) == size && memcmp(gp_bytes_front(&bytes), wanted, size) == 0);
    gp_bytes_fini(&bytes);
}

/* RFC 7541, C.1, and the ends of each prefix. */
static void test_integers(void)
{
    check_integer(GP_HPACK_TABLE_SIZE, 10, "\x2a", 1);
    check_integer(GP_HPACK_TABLE_SIZE, 1337, "\x3f\x9a\x0a", 3);
    check_integer(GP_HPACK_TABLE_SIZE, 0, "\x20", 1);
    check_integer(GP_HPACK_TABLE_SIZE, 30, "\x3e", 1);
    check_integer(GP_HPACK_TABLE_SIZE, 31, "\x3f\x00", 2);
    check_integer(GP_HPACK_INDEXED, 126, "\xfe", 1);
    check_integer(GP_HPACK_INDEXED, 127, "\xff\x00", 2);
    check_integer(GP_HPACK_INDEXED, 254, "\xff\x7f", 2);
    check_integer(GP_HPACK_INDEXED, 255, "\xff\x80\x01", 3);
    check_integer(GP_HPACK_INDEXING, 62, "\x7e", 1);
    check_integer(GP_HPACK_INDEXING, 63, "\x7f\x00", 2);
    check_integer(GP_HPACK_LITERAL, 14, "\x0e", 1);
    check_integer(GP_HPACK_LITERAL, 15, "\x0f\x00", 2);
    check_integer(GP_HPACK_NEVER_INDEXED, 14, "\x1e", 1);
    check_integer(GP_HPACK_NEVER_INDEXED, UINT32_MAX, "\x1f\xf0\xff\xff\xff\x0f", 6);
}

/* A literal of any length, as nghttp2 reads it. */
static void test_strings(void)
{
    static const size_t sizes[] = {0, 1, 126, 127, 128, 254, 255, 3000};
    char text[3000];

    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct gp_bytes bytes;
        nghttp2_hd_inflater *inflater;
        nghttp2_nv field;
        int flags = 0;
        gp_bytes_init(&bytes);
        CHECK(gp_hpack_put_integer(&bytes, GP_HPACK_LITERAL, 0) == 0);
        CHECK(gp_hpack_put_string(&bytes, "name", 4) == 0 &&
              gp_hpack_put_string(&bytes, text, sizes[i]) == 0);
        CHECK(gp_hpack_leaves_table(gp_bytes_front(&bytes), gp_bytes_length(&bytes)));
        CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
        ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, gp_bytes_front(&bytes),
                                               gp_bytes_length(&bytes), 1);
        CHECK(taken == (ssize_t)gp_bytes_length(&bytes) && flags & NGHTTP2_HD_INFLATE_EMIT);
        CHECK(field.namelen == 4 && memcmp(field.name, "name", 4) == 0);
        CHECK(field.valuelen == sizes[i] && memcmp(field.value, text, sizes[i]) == 0);
        nghttp2_hd_inflate_del(inflater);
        gp_bytes_fini(&bytes);
    }
}

static bool leaves_table(const char *block, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* exactly sized, for the sanitizer */
    bool leaves;

    memcpy(copy, block, size);
    leaves = gp_hpack_leaves_table(copy, size);
    free(copy);
    return leaves;
}

#define LEAVES_TABLE(block) leaves_table(block, sizeof(block) - 1)

/* RFC 7541, C.2, and what is cut off or is no integer. */
static void test_scan(void)
{
    CHECK(LEAVES_TABLE(""));
    CHECK(!LEAVES_TABLE("\x40\x0a"
                        "custom-key"
                        "\x0d"
                        "custom-header"));
    CHECK(LEAVES_TABLE("\x04\x0c"
                       "/sample/path"));
    CHECK(LEAVES_TABLE("\x10\x08"
                       "password"
                       "\x06"
                       "secret"));
    CHECK(LEAVES_TABLE("\x82"));
    CHECK(LEAVES_TABLE("\x88\xbe\xff\x00\x1f\x09\x01"
                       "0"));
    CHECK(!LEAVES_TABLE("\x20"));
    CHECK(!LEAVES_TABLE("\x88\x3f\xe1\x1f"));
    CHECK(!LEAVES_TABLE("\x88\x48\x01"
                        "1"));
    CHECK(LEAVES_TABLE("\x08\x82\x10\x01")); /* a Huffman string is passed over like any other */
    CHECK(!LEAVES_TABLE("\x04\x0c"
                        "/sample/pat"));
    CHECK(!LEAVES_TABLE("\x04"));
    CHECK(!LEAVES_TABLE("\x00\x01"
                        "a"));
    CHECK(!LEAVES_TABLE("\xff"));
    CHECK(!LEAVES_TABLE("\xff\x80"));
    CHECK(!LEAVES_TABLE("\xff\x80\x80\x80\x80\x80\x01"));
    CHECK(!LEAVES_TABLE("\xff\xff\xff\xff\xff\x7f"));
    CHECK(!LEAVES_TABLE("\xff\x80\x80\x80\x80\x80\x00"));
    CHECK(!LEAVES_TABLE("\x0f\xf0\xff\xff\xff\x0f\x7f\xff\xff\xff\xff\x0f"));
}

static size_t table_bytes(nghttp2_hd_inflater *inflater)
{
    return nghttp2_hd_inflate_get_dynamic_table_size(inflater) +
           1000000 * nghttp2_hd_inflate_get_num_table_entries(inflater) +
           nghttp2_hd_inflate_get_max_dynamic_table_size(inflater) * 10000000;
}

/* Any bytes that nghttp2 takes for a block and that the scan lets pass leave nghttp2's table as it was. */
static void test_scan_against_inflater(void)
{
    static const uint8_t starts[] = {0x82, 0x88, 0xbe, 0xbf, 0x40, 0x48, 0x00,
                                     0x10, 0x08, 0x20, 0x3f, 0x01, 0x61};
    struct gp_random random;
    unsigned passed = 0, taken_blocks = 0;

    gp_random_init(&random, 5);
    for (int round = 0; round < 50000; round++) {
        uint8_t block[12];
        size_t size = 1 + gp_random_below(&random, sizeof block);
        nghttp2_hd_inflater *inflater;
        bool sound = true;
        CHECK(nghttp2_hd_inflate_new(&inflater) == 0);
        for (size_t i = 0; i < size; i++)
            block[i] = gp_random_below(&random, 2) ? starts[gp_random_below(&random, sizeof starts)]
                                                   : (uint8_t)gp_random_below(&random, 4);
        size_t before = table_bytes(inflater), left = size;
        const uint8_t *at = block;
        for (int flags = 0; sound && !(flags & NGHTTP2_HD_INFLATE_FINAL);) {
            nghttp2_nv field;
            flags = 0;
            ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, at, left, 1);
            sound = taken >= 0;
            at += sound ? taken : 0;
            left -= sound ? (size_t)taken : 0;
        }
        bool leaves = gp_hpack_leaves_table(block, size);
        taken_blocks += sound;
        passed += sound && leaves;
        if (sound && leaves)
            CHECK(table_bytes(inflater) == before);
        nghttp2_hd_inflate_del(inflater);
    }
    CHECK(passed > 1000 && taken_blocks > passed + 1000); /* both kinds were met */
}

int main(void)
{
    test_integers();
    test_strings();
    test_scan();
    test_scan_against_inflater();
    return 0;
}
