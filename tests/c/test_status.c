/* Statuses in every form they come in: text, HTTP, reset streams; grpc-message and grpc-timeout. */
#include <string.h>

#include "base/random.h"
#include "check.h"
#include "wire/frame.h"
#include "wire/status.h"

static enum gp_class parse(const char *text)
{
    return gp_status_parse((const uint8_t *)text, strlen(text));
}

static void test_parse(void)
{
    char text[16];

    for (unsigned code = 0; code <= 16; code++) {
        snprintf(text, sizeof text, "%u", code);
        CHECK(parse(text) == (enum gp_class)code);
        snprintf(text, sizeof text, "%03u", code);
        CHECK(parse(text) == (enum gp_class)code);
    }
    static const char *const unknown[] = {
        "",    "17", "18",  "99", "256", "4294967296", "18446744073709551616", "-1", "+0", " 0", "0 ",
        "0x0", "OK", "1.0", "\t", "0\n", "0,0"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        CHECK(parse(unknown[i]) == GP_CLASS_UNKNOWN);
    CHECK(gp_status_parse((const uint8_t *)"0\0", 2) == GP_CLASS_UNKNOWN);
}

/* Every HTTP status there is, against http-grpc-status-mapping.md. */
static void test_http(void)
{
    for (uint32_t status = 0; status < 1000; status++) {
        enum gp_class wanted = GP_CLASS_UNKNOWN;
        if (status == 400 || status == 431)
            wanted = GP_CLASS_INTERNAL;
        else if (status == 401)
            wanted = GP_CLASS_UNAUTHENTICATED;
        else if (status == 403)
            wanted = GP_CLASS_PERMISSION_DENIED;
        else if (status == 404)
            wanted = GP_CLASS_UNIMPLEMENTED;
        else if (status == 429 || (status >= 502 && status <= 504))
            wanted = GP_CLASS_UNAVAILABLE;
        CHECK(gp_status_from_http(status) == wanted);
    }
}

static void test_reset(void)
{
    static const enum gp_class wanted[] = {
        [GP_H2_NO_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_PROTOCOL_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_INTERNAL_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_FLOW_CONTROL_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_SETTINGS_TIMEOUT] = GP_CLASS_INTERNAL,
        [GP_H2_STREAM_CLOSED] = GP_CLASS_INTERNAL,
        [GP_H2_FRAME_SIZE_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_REFUSED_STREAM] = GP_CLASS_UNAVAILABLE,
        [GP_H2_CANCEL] = GP_CLASS_CANCELLED,
        [GP_H2_COMPRESSION_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_CONNECT_ERROR] = GP_CLASS_INTERNAL,
        [GP_H2_ENHANCE_YOUR_CALM] = GP_CLASS_RESOURCE_EXHAUSTED,
        [GP_H2_INADEQUATE_SECURITY] = GP_CLASS_PERMISSION_DENIED,
        [GP_H2_HTTP_1_1_REQUIRED] = GP_CLASS_INTERNAL,
    };

    for (uint32_t code = 0; code < sizeof wanted / sizeof wanted[0]; code++)
        CHECK(gp_status_from_reset(code) == wanted[code]);
    CHECK(gp_status_from_reset(14) == GP_CLASS_INTERNAL);
    CHECK(gp_status_from_reset(UINT32_MAX) == GP_CLASS_INTERNAL);
}

static void check_message(const char *text, const char *wanted)
{
    size_t size = strlen(text);
    char *out = malloc(size ? size : 1); /* exactly sized, for the sanitizer */
    uint8_t *copy = malloc(size ? size : 1);

    memcpy(copy, text, size);
    size_t written = gp_status_message_decode(copy, size, out);
    CHECK(written == strlen(wanted) && memcmp(out, wanted, written) == 0);
    free(out);
    free(copy);
}

static void test_message(void)
{
    check_message("", "");
    check_message("plain text", "plain text");
    check_message("a%20b", "a b");
    check_message("%E2%82%AC%e2%82%ac", "\xe2\x82\xac\xe2\x82\xac");
    check_message("100%", "100%");
    check_message("100%2", "100%2");
    check_message("100%25", "100%");
    check_message("%2525", "%25"); /* once only */
    check_message("%zz%2x%x2%%41", "%zz%2x%x2%A");
    check_message("%41%", "A%");
    check_message("%4", "%4");
}

/* Encoding as the spec demands it, then decoding, gives any bytes back. */
static void test_message_round_trip(void)
{
    struct gp_random random;

    gp_random_init(&random, 3);
    for (int round = 0; round < 2000; round++) {
        size_t size = gp_random_below(&random, 100);
        char bytes[100], encoded[301], decoded[301];
        size_t length = 0;
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (char)gp_random_u64(&random);
            if (bytes[i] >= 0x20 && bytes[i] <= 0x7e && bytes[i] != '%')
                encoded[length++] = bytes[i];
            else
                length +=
                    (size_t)sprintf(encoded + length, round % 2 ? "%%%02X" : "%%%02x", (uint8_t)bytes[i]);
        }
        CHECK(gp_status_message_decode((const uint8_t *)encoded, length, decoded) == size);
        CHECK(memcmp(decoded, bytes, size) == 0);
    }
}

static void check_timeout(uint64_t span_ns, const char *wanted)
{
    char out[10];
    size_t size = gp_status_timeout_encode(span_ns, out);

    CHECK(size == strlen(wanted) && memcmp(out, wanted, size) == 0);
}

static void test_timeout(void)
{
    check_timeout(0, "1n");
    check_timeout(1, "1n");
    check_timeout(99999999, "99999999n");
    check_timeout(100000000, "100000u");
    check_timeout(100000001, "100001u");
    check_timeout(UINT64_C(1000000000), "1000000u");
    check_timeout(UINT64_C(99999999000), "99999999u");
    check_timeout(UINT64_C(99999999001), "100000m");
    check_timeout(UINT64_C(99999999000000), "99999999m");
    check_timeout(UINT64_C(99999999000001), "100000S");
    check_timeout(UINT64_C(99999999000000000), "99999999S");
    check_timeout(UINT64_C(99999999000000001), "1666667M");
    check_timeout(UINT64_C(5999999940000000000), "99999999M");
    check_timeout(UINT64_C(5999999940000000001), "1666667H");
    check_timeout(UINT64_MAX, "5124096H");
}

static uint64_t unit_ns(char unit)
{
    switch (unit) {
    case 'n':
        return 1;
    case 'u':
        return 1000;
    case 'm':
        return 1000000;
    case 'S':
        return UINT64_C(1000000000);
    case 'M':
        return UINT64_C(60000000000);
    default:
        return UINT64_C(3600000000000);
    }
}

/* Never less than what was asked, and more by less than a part in 100,000: a unit is changed for one at most
 * 1,000 times larger. */
static void test_timeout_bounds(void)
{
    struct gp_random random;

    gp_random_init(&random, 4);
    for (int i = 0; i < 20000; i++) {
        uint64_t span = gp_random_u64(&random) >> gp_random_below(&random, 64);
        char out[11] = "";
        size_t size = gp_status_timeout_encode(span, out);
        CHECK(size >= 2 && size <= 9 && strspn(out, "0123456789") == size - 1);
        CHECK(strchr("numSMH", out[size - 1]));
        __extension__ unsigned __int128 said =
            (unsigned __int128)strtoull(out, NULL, 10) * unit_ns(out[size - 1]);
        CHECK(said >= span && said - (span ? span : 1) <= span / 99999);
    }
}

int main(void)
{
    test_parse();
    test_http();
    test_reset();
    test_message();
    test_message_round_trip();
    test_timeout();
    test_timeout_bounds();
    return 0;
}
