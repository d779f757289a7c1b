/* SimpleRequests read as they pass by, against protobuf's rules, and heads of SimpleResponses. */
#include <string.h>

#include "check.h"
#include "wire/benchmark.h"

#define BYTES(text) (const uint8_t *)text, sizeof(text) - 1

/* Read all of it in pieces of `cut`; the number of messages, and how it ended. */
static unsigned read_all(struct gp_ask *ask, const uint8_t *data, size_t size, size_t cut,
                         enum gp_asked *last)
{
    unsigned messages = 0;

    *last = GP_ASKED_MORE;
    for (size_t at = 0; at < size && *last <= GP_ASKED_MESSAGE;) {
        const uint8_t *from = data + at, *to = data + (size - at < cut ? size : at + cut);
        do {
            *last = gp_ask_read(ask, &from, to);
            messages += *last == GP_ASKED_MESSAGE;
        } while (*last == GP_ASKED_MESSAGE);
        at = (size_t)(from - data);
    }
    return messages;
}

static void asks(int32_t size, unsigned messages, const uint8_t *data, size_t length)
{
    for (size_t cut = 1; cut <= length; cut++) {
        struct gp_ask ask = {0};
        enum gp_asked last;
        CHECK(read_all(&ask, data, length, cut, &last) == messages && last == GP_ASKED_MORE);
        CHECK(ask.response_size == size && gp_ask_between(&ask));
    }
}

static void fails(enum gp_asked how, const uint8_t *data, size_t length)
{
    for (size_t cut = 1; cut <= length; cut++) {
        struct gp_ask ask = {0};
        enum gp_asked last;
        read_all(&ask, data, length, cut, &last);
        CHECK(last == how);
    }
}

static void what_requests_ask_for(void)
{
    asks(0, 1, BYTES("\0\0\0\0\0"));
    asks(1, 1, BYTES("\0\0\0\0\2\x10\1"));
    asks(300, 1, BYTES("\0\0\0\0\3\x10\xac\2"));
    asks(7, 1, BYTES("\0\0\0\0\x08\x10\5\x1a\2\x10\x09\x10\7")); /* the last one counts; nested ones do not */
    asks(9, 1, BYTES("\0\0\0\0\x10\x08\2\x12\0\x15\1\2\3\4\x10\x09\x1a\3abc"));
    asks(4, 1,
         BYTES("\0\0\0\0\x0d\x21"
               "12345678"
               "\x10\x04\x1a\0"));
    asks(4, 1, BYTES("\0\0\0\0\4\x90\x80\0\4")); /* a tag longer than it need be */
    asks(-1, 1, BYTES("\0\0\0\0\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"));
    asks(0, 3, BYTES("\0\0\0\0\2\x10\1\0\0\0\0\2\x10\2\0\0\0\0\0")); /* each message for itself */
    asks(2, 2, BYTES("\0\0\0\0\2\x08\1\0\0\0\0\2\x10\2"));
    asks(1, 1, BYTES("\0\0\0\0\5\x10\1\x9a\1\0")); /* field 19 */
}

static void what_are_no_requests(void)
{
    fails(GP_ASKED_COMPRESSED, BYTES("\1\0\0\0\2\x10\1"));
    fails(GP_ASKED_MALFORMED, BYTES("\2\0\0\0\2\x10\1"));
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\1\x10"));     /* no value */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\2\x10\x80")); /* half of one */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\2\x1a\1"));   /* no bytes */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\4\x1a\3xx"));
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\2\0\1"));     /* field 0 */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\2\x13\x14")); /* groups */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\2\x16\0"));   /* no such wire type */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\3\x15\1\2")); /* four bytes wanted */
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\x0c\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"));
    fails(GP_ASKED_MALFORMED, BYTES("\0\0\0\0\6\xff\xff\xff\xff\x7f\0"));
}

static void where_a_stream_may_end(void)
{
    static const uint8_t message[] = "\0\0\0\0\2\x10\1";

    for (size_t size = 0; size < sizeof message - 1; size++) {
        struct gp_ask ask = {0};
        enum gp_asked last;
        read_all(&ask, message, size, size ? size : 1, &last);
        CHECK(gp_ask_between(&ask) == (size == 0));
    }
}

static void head_is(int32_t body, const uint8_t *expected, size_t size)
{
    uint8_t head[GP_BENCHMARK_HEAD_BYTES];

    CHECK(gp_benchmark_head(body, head) == size && memcmp(head, expected, size) == 0);
}

int main(void)
{
    what_requests_ask_for();
    what_are_no_requests();
    where_a_stream_may_end();
    head_is(0, BYTES("\0\0\0\0\0"));
    head_is(1, BYTES("\0\0\0\0\5\x0a\3\x12\1"));
    head_is(16, BYTES("\0\0\0\0\x14\x0a\x12\x12\x10"));
    head_is(126, BYTES("\0\0\0\0\x83\x0a\x80\1\x12\x7e"));
    head_is(1 << 30, BYTES("\0\x40\0\0\x0c\x0a\x86\x80\x80\x80\4\x12\x80\x80\x80\x80\4"));
    return 0;
}
