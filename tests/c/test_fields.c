/* Response blocks: RFC 7541's examples, RFC 9113's rules, and the memory of blocks against a decoder that has
 * none. */
#include <string.h>
#include <nghttp2/nghttp2.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "plain_decoder.h"
#include "wire/fields.h"
#include "wire/hpack.h"

#define LIST_LIMIT 16384u

static struct gp_decoder *create(uint32_t max_list_bytes)
{
    struct gp_decoder *decoder;
    struct gp_error err;

    CHECK(gp_decoder_create(&decoder, max_list_bytes, &err) == 0);
    return decoder;
}

/* "name: value\n..." as literals that do not enter the table. */
static void literals(struct gp_bytes *block, const char *text)
{
    while (*text) {
        const char *colon = strchr(text + 1, ':'), *end = strchr(text, '\n');
        CHECK(gp_hpack_put_integer(block, GP_HPACK_LITERAL, 0) == 0);
        CHECK(gp_hpack_put_string(block, text, (size_t)(colon - text)) == 0);
        CHECK(gp_hpack_put_string(block, colon + 2, (size_t)(end - colon - 2)) == 0);
        text = end + 1;
    }
}

static enum gp_decoded read_text(struct gp_decoder *decoder, const char *text, struct gp_fields *fields)
{
    struct gp_bytes block;

    gp_bytes_init(&block);
    literals(&block, text);
    enum gp_decoded decoded =
        gp_decoder_read(decoder, gp_bytes_front(&block), gp_bytes_length(&block), fields);
    gp_bytes_fini(&block);
    return decoded;
}

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t size = 0;
    unsigned byte;

    for (; *hex; hex++)
        if (*hex != ' ' && sscanf(hex, "%2x", &byte) == 1) {
            out[size++] = (uint8_t)byte;
            hex++;
        }
    return size;
}

/* RFC 7541, C.5 and C.6: responses with a table of 256 bytes, so that entries are evicted; the update in
 * front sets that size. The limits are what the fields of each count by themselves, less one in the second
 * run. */
static void check_examples(const char *const hex[3])
{
    static const uint16_t statuses[] = {302, 307, 200};
    static const uint32_t list_bytes[] = {222, 222, 372};

    for (unsigned less = 0; less < 2; less++)
        for (unsigned limited = 0; limited < 3; limited++) {
            struct gp_decoder *decoder = create(list_bytes[limited] - less);
            for (unsigned i = 0; i <= limited; i++) {
                uint8_t block[256] = {0x3f, 0xe1, 0x01};
                struct gp_fields fields;
                size_t size = from_hex(hex[i], block + (i == 0 ? 3 : 0)) + (i == 0 ? 3 : 0);
                enum gp_decoded decoded = gp_decoder_read(decoder, block, size, &fields);
                CHECK(decoded ==
                      (list_bytes[i] <= list_bytes[limited] - less ? GP_DECODED : GP_DECODED_TOO_LARGE));
                if (decoded == GP_DECODED)
                    CHECK(fields.http_status == statuses[i] && !fields.malformed && fields.grpc_status == -1);
            }
            gp_decoder_destroy(decoder);
        }
}

static void test_examples(void)
{
    static const char *const plain[] = {"4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 "
                                        "7420 3230 3133 2032 303a 3133 3a32 3120 474d"
                                        "546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                                        "4803 3330 37c1 c0bf",
                                        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 "
                                        "3a32 3220 474d 54c0 5a04 677a 6970 7738 666f"
                                        "6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 "
                                        "4f49 553b 206d 6178 2d61 6765 3d33 3630 303b"
                                        "2076 6572 7369 6f6e 3d31"};
    static const char *const huffman[] = {
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad "
        "1718 63c7"
        "8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 "
        "e6c7 b335"
        "dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07"};

    check_examples(plain);
    check_examples(huffman);
}

static void test_meaning(void)
{
    struct gp_decoder *decoder = create(LIST_LIMIT);
    struct gp_fields fields;

    CHECK(read_text(decoder, ":status: 200\ncontent-type: application/grpc\ngrpc-encoding: identity\n",
                    &fields) == GP_DECODED);
    CHECK(fields.http_status == 200 && fields.grpc_status == -1 && !fields.malformed);
    CHECK(fields.has_content_type && fields.grpc_content_type && !fields.gzip && !fields.unknown_encoding);
    CHECK(strcmp(gp_decoder_message(decoder), "") == 0);
    CHECK(read_text(decoder, "grpc-status: 0\n", &fields) == GP_DECODED);
    CHECK(fields.http_status == 0 && fields.grpc_status == GP_CLASS_OK && !fields.has_content_type);
    CHECK(read_text(decoder, "grpc-status: 8\ngrpc-message: too%20much%E2%82%AC \n", &fields) == GP_DECODED);
    CHECK(fields.grpc_status == GP_CLASS_RESOURCE_EXHAUSTED && !fields.malformed);
    CHECK(strcmp(gp_decoder_message(decoder), "too much\xe2\x82\xac ") == 0);
    CHECK(read_text(decoder, ":status: 503\ncontent-type: text/html\n", &fields) == GP_DECODED);
    CHECK(fields.http_status == 503 && fields.has_content_type && !fields.grpc_content_type);
    CHECK(strcmp(gp_decoder_message(decoder), "too much\xe2\x82\xac ") == 0);
    CHECK(read_text(decoder, ":status: 200\ngrpc-encoding: gzip\n", &fields) == GP_DECODED && fields.gzip);
    CHECK(!fields.unknown_encoding);
    CHECK(read_text(decoder, ":status: 200\ngrpc-encoding: br\n", &fields) == GP_DECODED &&
          fields.unknown_encoding);
    CHECK(!fields.gzip);
    CHECK(read_text(decoder, "", &fields) == GP_DECODED && fields.http_status == 0 &&
          fields.grpc_status == -1);
    gp_decoder_destroy(decoder);
    gp_decoder_destroy(NULL);
}

static void test_content_types(void)
{
    static const struct {
        const char *text;
        bool grpc;
    } cases[] = {
        {"application/grpc", true}, {"application/grpc+proto", true},    {"application/grpc;a=b", true},
        {"Application/GRPC", true}, {"application/grpc-web", false},     {"application/grpcx", false},
        {"application/grp", false}, {"text/html; charset=utf-8", false}, {"", false}};
    struct gp_decoder *decoder = create(LIST_LIMIT);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_fields fields;
        char text[100];
        snprintf(text, sizeof text, ":status: 200\ncontent-type: %s\n", cases[i].text);
        CHECK(read_text(decoder, text, &fields) == GP_DECODED && fields.has_content_type);
        CHECK(fields.grpc_content_type == cases[i].grpc && !fields.malformed);
    }
    gp_decoder_destroy(decoder);
}

/* RFC 9113, 8.2 and 8.3, one case for each clause; and what looks like a violation and is none. */
static void test_malformed(void)
{
    static const char *const bad[] = {"Content-Type: application/grpc\n",
                                      "x-\x7f: v\n",
                                      "x y: v\n",
                                      "x\xc3\xa9: v\n",
                                      "x\x01: v\n",
                                      "x\t: v\n",
                                      "x: a\rb\n",
                                      "x:  v\n",
                                      "x: v \n",
                                      "x: \tv\n",
                                      "x: v\t\n",
                                      "x:  \n",
                                      "connection: close\n",
                                      "keep-alive: 1\n",
                                      "proxy-connection: x\n",
                                      "transfer-encoding: chunked\n",
                                      "upgrade: h2c\n",
                                      "te: gzip\n",
                                      "te: \n",
                                      ":path: /\n",
                                      ":method: POST\n",
                                      ":x: y\n",
                                      ":Status: 200\n",
                                      ":: 200\n",
                                      ":status: 200\n:status: 200\n",
                                      "x: y\n:status: 200\n",
                                      "grpc-status: 0\n:status: 200\n",
                                      ":status: \n",
                                      ":status: 20\n",
                                      ":status: 2000\n",
                                      ":status: abc\n",
                                      ":status: 2x0\n",
                                      ":status: 099\n",
                                      ":status: +20\n",
                                      ":status: 200 \n"};
    static const char *const good[] = {"te: trailers\n",
                                       "x: \n",
                                       "x: a b\n",
                                       "x: a\tb\n",
                                       "x: \x80\xff\n",
                                       "x-!#$%&'*+.^_`|~9: v\n",
                                       "content-length: 5\n",
                                       ":status: 999\n",
                                       ":status: 100\n",
                                       "grpc-message:  spaced \n",
                                       "grpc-message: \n",
                                       "x: y\nx: y\n"};
    struct gp_decoder *decoder = create(LIST_LIMIT);

    for (int again = 0; again < 2; again++) { /* also when it is remembered */
        struct gp_fields fields;
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
            CHECK(read_text(decoder, bad[i], &fields) == GP_DECODED && fields.malformed);
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
            CHECK(read_text(decoder, good[i], &fields) == GP_DECODED && !fields.malformed);
    }
    gp_decoder_destroy(decoder);
}

/* What no text can say: a NUL, a line feed, no name at all. */
static void test_malformed_bytes(void)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {{"\0\x01x\x03"
                  "a\0b",
                  7},
                 {"\0\x01x\x03"
                  "a\nb",
                  7},
                 {"\0\x03"
                  "x\0y\x01"
                  "b",
                  7},
                 {"\0\0\x01"
                  "b",
                  4},
                 {"\0\x03"
                  "x:y\x01"
                  "b",
                  7},
                 {"\x08\0", 2}};
    struct gp_decoder *decoder = create(LIST_LIMIT);
    struct gp_fields fields;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(gp_decoder_read(decoder, (const uint8_t *)cases[i].bytes, cases[i].size, &fields) ==
                  GP_DECODED &&
              fields.malformed);
    gp_decoder_destroy(decoder);
}

/* A server's two blocks: the first pair fills the table, the second is inflated, from then on nothing is. */
static void test_recognised(void)
{
    static const uint8_t opening[] = {0x88, 0x5f, 0x10, 'a', 'p', 'p', 'l', 'i', 'c', 'a',
                                      't',  'i',  'o',  'n', '/', 'g', 'r', 'p', 'c'};
    static const uint8_t closing[] = {0x40, 0x0b, 'g', 'r', 'p', 'c', '-', 's',
                                      't',  'a',  't', 'u', 's', 1,   '0'};
    static const uint8_t headers[] = {0x88, 0xbf}, trailers[] = {0xbe};
    struct gp_decoder *decoder = create(LIST_LIMIT);
    struct gp_fields fields;

    CHECK(gp_decoder_read(decoder, opening, sizeof opening, &fields) == GP_DECODED &&
          fields.grpc_content_type);
    CHECK(gp_decoder_read(decoder, closing, sizeof closing, &fields) == GP_DECODED &&
          fields.grpc_status == 0);
    CHECK(gp_decoder_inflated(decoder) == 2);
    for (int i = 0; i < 100; i++) {
        CHECK(gp_decoder_read(decoder, headers, sizeof headers, &fields) == GP_DECODED);
        CHECK(fields.http_status == 200 && fields.grpc_content_type && fields.grpc_status == -1);
        CHECK(gp_decoder_read(decoder, trailers, sizeof trailers, &fields) == GP_DECODED);
        CHECK(fields.http_status == 0 && fields.grpc_status == 0 && !fields.has_content_type);
    }
    CHECK(gp_decoder_inflated(decoder) == 4);
    CHECK(gp_decoder_read(decoder, opening, sizeof opening, &fields) == GP_DECODED); /* shifts all indices */
    CHECK(gp_decoder_read(decoder, trailers, sizeof trailers, &fields) == GP_DECODED);
    CHECK(fields.grpc_status == -1 && fields.grpc_content_type);
    CHECK(gp_decoder_inflated(decoder) == 6);
    gp_decoder_destroy(decoder);
}

/* Refused calls come by the thousand, each with the same words: they too are recognised, words included. */
static void test_recognised_message(void)
{
    struct gp_decoder *decoder = create(LIST_LIMIT);
    struct gp_fields fields;

    for (int i = 0; i < 10; i++) {
        CHECK(read_text(decoder, "grpc-status: 8\ngrpc-message: queue%20full\n", &fields) == GP_DECODED);
        CHECK(strcmp(gp_decoder_message(decoder), "queue full") == 0 && fields.grpc_status == 8);
        CHECK(read_text(decoder, "grpc-status: 14\ngrpc-message: gone\n", &fields) == GP_DECODED);
        CHECK(strcmp(gp_decoder_message(decoder), "gone") == 0 && fields.grpc_status == 14);
    }
    CHECK(gp_decoder_inflated(decoder) == 2);
    CHECK(read_text(decoder, "grpc-message: \n", &fields) == GP_DECODED);
    CHECK(strcmp(gp_decoder_message(decoder), "") == 0);
    gp_decoder_destroy(decoder);
}

/* More kinds of blocks than are remembered: right all the same. */
static void test_many_blocks(void)
{
    struct gp_decoder *decoder = create(LIST_LIMIT);

    for (int i = 0; i < 400; i++) {
        struct gp_fields fields;
        char text[700], wanted[32];
        int kind = i * 7 % 13;
        snprintf(wanted, sizeof wanted, "kind %d", kind);
        snprintf(text, sizeof text, "grpc-status: %d\ngrpc-message: kind %d\nfill: %0*d\n", kind, kind,
                 kind == 12 ? 600 : 20 * kind + 1, 7);
        CHECK(read_text(decoder, text, &fields) == GP_DECODED && fields.grpc_status == kind);
        CHECK(strcmp(gp_decoder_message(decoder), wanted) == 0);
    }
    gp_decoder_destroy(decoder);
}

/* A long message is cut, never overrun. */
static void test_long_message(void)
{
    struct gp_decoder *decoder = create(1 << 20);
    struct gp_fields fields;
    char text[4000];

    for (int size = 240; size < 3000; size += 5) {
        int prefix = snprintf(text, sizeof text, "grpc-message: ");
        memset(text + prefix, 'm', (size_t)size);
        memcpy(text + prefix + size, "\n", 2);
        CHECK(read_text(decoder, text, &fields) == GP_DECODED);
        size_t length = strlen(gp_decoder_message(decoder));
        CHECK(length == (size < 255 ? (size_t)size : 255) &&
              strspn(gp_decoder_message(decoder), "m") == length);
    }
    gp_decoder_destroy(decoder);
}

/* A block over the limit fails alone: the entries it made are there for the next one. */
static void test_too_large(void)
{
    static const uint8_t indexed[] = {0xbe};
    uint8_t block[400] = {0x40, 0x0b, 'g', 'r', 'p', 'c', '-', 's', 't',  'a',
                          't',  'u',  's', 1,   '5', 0,   1,   'x', 0x7f, 0};
    struct gp_decoder *decoder = create(100);
    struct gp_fields fields;

    memset(block + 20, 'v', 127);
    CHECK(gp_decoder_read(decoder, block, 20 + 127, &fields) == GP_DECODED_TOO_LARGE);
    CHECK(gp_decoder_read(decoder, indexed, sizeof indexed, &fields) == GP_DECODED &&
          fields.grpc_status == 5);
    CHECK(read_text(decoder, "0123456789: 01234567890123456789012345678901234567890123456789012345678\n",
                    &fields) == GP_DECODED_TOO_LARGE); /* 10 + 59 + 32 = 101 */
    CHECK(read_text(decoder, "0123456789: 0123456789012345678901234567890123456789012345678901234567\n",
                    &fields) == GP_DECODED);
    gp_decoder_destroy(decoder);
}

/* After what is no HPACK nothing is decoded any more, known blocks neither. */
static void test_broken(void)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {{"\x80", 1},      {"\xff\xff\xff\xff\xff\x7f", 6}, {"\xc0", 1},         {"\x40", 1},
                 {"\x00\x05x", 3}, {"\x08\x83\xff\xff\xff", 5},     {"\x3f\xe2\x1f", 3}, {"\x88\x20", 2}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gp_decoder *decoder = create(LIST_LIMIT);
        struct gp_fields fields;
        CHECK(gp_decoder_read(decoder, (const uint8_t *)"\x88", 1, &fields) == GP_DECODED);
        CHECK(gp_decoder_read(decoder, (const uint8_t *)cases[i].bytes, cases[i].size, &fields) ==
              GP_DECODED_BROKEN);
        CHECK(gp_decoder_read(decoder, (const uint8_t *)"\x88", 1, &fields) == GP_DECODED_BROKEN);
        gp_decoder_destroy(decoder);
    }
}

/* Fields of all kinds, so that nghttp2 uses its static table, its dynamic one, and literals. */
static const char *const names[] = {
    ":status",    "content-type", "grpc-status", "grpc-message", "grpc-encoding",
    "server",     "date",         "x-a",         "x-b",          "Upper",
    "set-cookie", "location",     "connection",  ":other",       "grpc-accept-encoding"};
static const char *const values[] = {
    "200",
    "302",
    "0",
    "8",
    "13",
    "application/grpc",
    "text/html",
    "gzip",
    "identity",
    "br",
    "",
    "no%20room",
    " spaced ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void append_deflated(struct gp_random *random, nghttp2_hd_deflater *deflater, struct gp_bytes *block)
{
    nghttp2_nv list[6];
    size_t count = gp_random_below(random, COUNT(list) + 1);

    for (size_t i = 0; i < count; i++) {
        const char *name = names[gp_random_below(random, COUNT(names))];
        const char *value = values[gp_random_below(random, COUNT(values))];
        list[i] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                               .value = (uint8_t *)(uintptr_t)value,
                               .namelen = strlen(name),
                               .valuelen = strlen(value),
                               .flags = gp_random_below(random, 3) ? NGHTTP2_NV_FLAG_NONE
                                                                   : NGHTTP2_NV_FLAG_NO_INDEX};
    }
    CHECK(gp_bytes_reserve(block, 2048) == 0);
    ssize_t size = nghttp2_hd_deflate_hd(deflater, block->data + block->end, 2048, list, count);
    CHECK(size >= 0);
    block->end += (size_t)size;
}

/* Representations nghttp2's deflater does not make: dynamic names in literals, odd integers, updates. */
static void append_by_hand(struct gp_random *random, struct gp_bytes *block)
{
    static const enum gp_hpack_pattern patterns[] = {GP_HPACK_INDEXED, GP_HPACK_INDEXED, GP_HPACK_INDEXING,
                                                     GP_HPACK_NEVER_INDEXED, GP_HPACK_LITERAL};

    if (gp_random_below(random, 10) == 0)
        CHECK(gp_hpack_put_integer(block, GP_HPACK_TABLE_SIZE, (uint32_t)gp_random_below(random, 4097)) == 0);
    for (uint64_t count = 1 + gp_random_below(random, 3); count > 0; count--) {
        enum gp_hpack_pattern pattern = patterns[gp_random_below(random, COUNT(patterns))];
        uint32_t index = (uint32_t)(gp_random_below(random, 3) ? 62 + gp_random_below(random, 5)
                                                               : gp_random_below(random, 62));
        const char *name = names[gp_random_below(random, COUNT(names))];
        const char *value = values[gp_random_below(random, COUNT(values))];
        CHECK(gp_hpack_put_integer(block, pattern, index) == 0);
        if (pattern == GP_HPACK_INDEXED)
            continue;
        if (index == 0)
            CHECK(gp_hpack_put_string(block, name, strlen(name)) == 0);
        CHECK(gp_hpack_put_string(block, value, strlen(value)) == 0);
    }
}

#define OLD_BLOCKS 12

/* One connection's blocks: new ones, old ones again (they may mean something else by then, or nothing), and
 * some with a byte changed. Returns how many blocks both decoders took. */
static unsigned run_connection(struct gp_random *random, struct plain_decoder *plain, uint64_t *recognised)
{
    static const uint32_t tables[] = {0, 64, 256, 4096};
    struct gp_bytes old[OLD_BLOCKS], *last = old;
    uint32_t max_list_bytes = gp_random_below(random, 4) ? LIST_LIMIT : 300;
    struct gp_decoder *decoder = create(max_list_bytes);
    nghttp2_hd_deflater *deflater;
    unsigned blocks = 0;
    bool hand_made = gp_random_below(random, 2), alive = true;

    plain_create(plain, max_list_bytes);
    CHECK(nghttp2_hd_deflate_new(&deflater, tables[gp_random_below(random, COUNT(tables))]) == 0);
    for (size_t i = 0; i < OLD_BLOCKS; i++)
        gp_bytes_init(&old[i]);
    for (int step = 0; step < 60 && alive; step++) {
        struct gp_bytes *block =
            gp_random_below(random, 2) ? last : &old[gp_random_below(random, OLD_BLOCKS)];
        struct gp_fields fields, wanted_fields;
        if (gp_bytes_length(block) == 0 || gp_random_below(random, 4) == 0) {
            gp_bytes_clear(block);
            if (gp_random_below(random, 20) == 0)
                CHECK(nghttp2_hd_deflate_change_table_size(
                          deflater, tables[gp_random_below(random, COUNT(tables))]) == 0);
            if (hand_made && gp_random_below(random, 2))
                append_by_hand(random, block);
            else
                append_deflated(random, deflater, block);
        }
        uint8_t *copy = malloc(gp_bytes_length(block) + 1);
        memcpy(copy, gp_bytes_length(block) ? gp_bytes_front(block) : copy, gp_bytes_length(block));
        enum gp_decoded wanted = plain_read(plain, copy, gp_bytes_length(block), &wanted_fields);
        enum gp_decoded decoded = gp_decoder_read(decoder, copy, gp_bytes_length(block), &fields);
        free(copy);
        CHECK(plain_agrees(decoded, &fields, wanted, &wanted_fields));
        if (decoded == GP_DECODED && !fields.malformed)
            CHECK(strcmp(gp_decoder_message(decoder), plain->message) == 0);
        else
            strcpy(plain->message, gp_decoder_message(decoder)); /* of malformed blocks, either is right */
        alive = decoded != GP_DECODED_BROKEN;
        last = block;
        blocks++;
    }
    *recognised += blocks - gp_decoder_inflated(decoder);
    for (size_t i = 0; i < OLD_BLOCKS; i++)
        gp_bytes_fini(&old[i]);
    nghttp2_hd_deflate_del(deflater);
    gp_decoder_destroy(decoder);
    plain_destroy(plain);
    return blocks;
}

static void test_against_plain_decoder(void)
{
    struct plain_decoder *plain = malloc(sizeof *plain);
    struct gp_random random;
    uint64_t blocks = 0, recognised = 0;

    gp_random_init(&random, 11);
    for (int round = 0; round < 3000; round++)
        blocks += run_connection(&random, plain, &recognised);
    CHECK(recognised > blocks / 10 && recognised < blocks * 9 / 10); /* both ways were taken often */
    free(plain);
}

int main(void)
{
    test_examples();
    test_meaning();
    test_content_types();
    test_malformed();
    test_malformed_bytes();
    test_recognised();
    test_recognised_message();
    test_many_blocks();
    test_long_message();
    test_too_large();
    test_broken();
    test_against_plain_decoder();
    return 0;
}
