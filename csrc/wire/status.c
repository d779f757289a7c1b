/* status: gRPC's tables and text forms. Pure functions, nothing kept. */
#include "wire/status.h"

#include "wire/frame.h"

#define MAX_STATUS 16u
#define MAX_TIMEOUT UINT64_C(99999999) /* 8 digits */

enum gp_class gp_status_parse(const uint8_t *text, size_t size)
{
    uint32_t number = 0;

    if (size == 0)
        return GP_CLASS_UNKNOWN;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return GP_CLASS_UNKNOWN;
        number = number * 10 + (text[i] - '0');
        if (number > MAX_STATUS)
            return GP_CLASS_UNKNOWN;
    }
    return (enum gp_class)number;
}

enum gp_class gp_status_from_http(uint32_t http_status)
{
    switch (http_status) {
    case 400:
    case 431:
        return GP_CLASS_INTERNAL;
    case 401:
        return GP_CLASS_UNAUTHENTICATED;
    case 403:
        return GP_CLASS_PERMISSION_DENIED;
    case 404:
        return GP_CLASS_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GP_CLASS_UNAVAILABLE;
    default:
        return GP_CLASS_UNKNOWN;
    }
}

/* The spec maps STREAM_CLOSED to nothing and is silent on codes it does not know: INTERNAL, as C core has it
 * and as RFC 9113, 7 allows ("equivalent to INTERNAL_ERROR"). */
enum gp_class gp_status_from_reset(uint32_t h2_error)
{
    switch (h2_error) {
    case GP_H2_REFUSED_STREAM:
        return GP_CLASS_UNAVAILABLE;
    case GP_H2_CANCEL:
        return GP_CLASS_CANCELLED;
    case GP_H2_ENHANCE_YOUR_CALM:
        return GP_CLASS_RESOURCE_EXHAUSTED;
    case GP_H2_INADEQUATE_SECURITY:
        return GP_CLASS_PERMISSION_DENIED;
    default:
        return GP_CLASS_INTERNAL;
    }
}

static int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return -1;
}

size_t gp_status_message_decode(const uint8_t *text, size_t size, char *out)
{
    size_t written = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '%' && size - i > 2 && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            out[written++] = (char)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
            i += 2;
        } else {
            out[written++] = (char)text[i];
        }
    }
    return written;
}

static size_t write_decimal(uint64_t number, char *out)
{
    char reversed[20];
    size_t digits = 0;

    do {
        reversed[digits++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < digits; i++)
        out[i] = reversed[digits - 1 - i];
    return digits;
}

size_t gp_status_timeout_encode(uint64_t span_ns, char out[10])
{
    static const struct {
        char name;
        uint64_t ns;
    } units[] = {
        {'n', UINT64_C(1)},          {'u', UINT64_C(1000)},        {'m', UINT64_C(1000000)},
        {'S', UINT64_C(1000000000)}, {'M', UINT64_C(60000000000)}, {'H', UINT64_C(3600000000000)},
    };
    uint64_t count = span_ns ? span_ns : 1;
    size_t unit = 0;

    while (count > MAX_TIMEOUT) { /* ends: UINT64_MAX ns is 5.1 million hours */
        unit++;
        count = span_ns / units[unit].ns + (span_ns % units[unit].ns != 0);
    }
    size_t digits = write_decimal(count, out);
    out[digits] = units[unit].name;
    return digits + 1;
}
