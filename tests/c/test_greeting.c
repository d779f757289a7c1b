/* Tests of net/greeting: each kind of peer by its first bytes, whole, cut anywhere, and damaged. */
#include "net/greeting.h"

#include <string.h>

#include "base/random.h"
#include "check.h"
#include "net/probe.h"

static struct gp_greeting greeting;
static struct gp_probe probe;

/* From the heap, so that ASan sees a read beyond the end. */
static enum gp_greeting_kind judge(const void *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    memcpy(copy, data, size);
    gp_greeting_read(copy, size, &greeting, &probe);
    free(copy);
    CHECK(memchr(greeting.words, '\0', sizeof greeting.words));
    return greeting.kind;
}

#define JUDGE(literal) judge(literal, sizeof literal - 1)

static void settings_are_read(void)
{
    static const char frame[] = "\0\0\52\4\0\0\0\0\0"
                                "\0\3\0\0\0\144"       /* MAX_CONCURRENT_STREAMS 100 */
                                "\0\4\0\77\377\377"    /* INITIAL_WINDOW_SIZE 4194303 */
                                "\0\5\0\0\100\0"       /* MAX_FRAME_SIZE 16384 */
                                "\376\3\0\0\0\1"       /* gRPC's own, to be ignored */
                                "\0\6\0\0\40\0"        /* MAX_HEADER_LIST_SIZE 8192 */
                                "\0\3\0\0\0\145"       /* the last of a kind counts */
                                "\0\1\377\377\377\377" /* HEADER_TABLE_SIZE */
                                "rest of the stream";
    size_t whole = 9 + 42;

    CHECK(JUDGE(frame) == GP_GREETING_HTTP2);
    CHECK(probe.max_concurrent_streams == 101 && probe.initial_window_size == 4194303);
    CHECK(probe.max_frame_size == 16384 && probe.max_header_list_size == 8192);
    CHECK(probe.header_table_size == UINT32_MAX);
    for (size_t size = 0; size < whole; size++)
        CHECK(judge(frame, size) == GP_GREETING_UNFINISHED);
    CHECK(judge(frame, whole) == GP_GREETING_HTTP2);
}

static void what_was_not_sent_is_unknown(void)
{
    memset(&probe, 0, sizeof probe);
    CHECK(JUDGE("\0\0\0\4\0\0\0\0\0") == GP_GREETING_HTTP2);
    CHECK(probe.max_concurrent_streams == UINT64_MAX && probe.initial_window_size == UINT64_MAX);
    CHECK(probe.max_frame_size == UINT64_MAX && probe.max_header_list_size == UINT64_MAX);
    CHECK(probe.header_table_size == UINT64_MAX);
}

static void unlawful_frames_are_not_http2(void)
{
    CHECK(JUDGE("\0\0\5\4\0\0\0\0\0\0\3\0\0\0") == GP_GREETING_BINARY); /* not in sixes */
    CHECK(strcmp(greeting.words, "00 00 05 04 00 00 00 00 00 00 03 00 ...") == 0);
    CHECK(JUDGE("\0\0\0\4\1\0\0\0\0") == GP_GREETING_BINARY);          /* an acknowledgement */
    CHECK(JUDGE("\0\0\0\4\0\0\0\0\1") == GP_GREETING_BINARY);          /* on a stream */
    CHECK(JUDGE("\0\100\2\4\0\0\0\0\0") == GP_GREETING_BINARY);        /* 16,386: above the limit */
    CHECK(JUDGE("\0\0\0\1\0\0\0\0\0") == GP_GREETING_BINARY);          /* HEADERS first */
    CHECK(JUDGE("\0\0\10\6\0\0\0\0\0........") == GP_GREETING_BINARY); /* PING first */
    CHECK(JUDGE("\0\0\4\7\0\0\0\0\0\0\0\0\0") == GP_GREETING_BINARY);  /* GOAWAY without an error */
}

/* The values of RFC 9113, 6.5.2: HTTP/2 it is, and no client would keep the connection. */
static void forbidden_settings_are_named(void)
{
    CHECK(JUDGE("\0\0\6\4\0\0\0\0\0\0\5\0\0\77\377") == GP_GREETING_FORBIDDEN);
    CHECK(strcmp(greeting.words, "setting 5 is 16383") == 0);
    CHECK(JUDGE("\0\0\6\4\0\0\0\0\0\0\4\200\0\0\0") == GP_GREETING_FORBIDDEN); /* window 2^31 */
    CHECK(JUDGE("\0\0\6\4\0\0\0\0\0\0\2\0\0\0\1") == GP_GREETING_FORBIDDEN);   /* push, from a server */
}

/* Up to the 16,384 bytes that a frame may have before anything is agreed; the largest multiple of six. */
static void large_settings_are_read(void)
{
    static const uint32_t lengths[] = {16200, 16380};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t length = lengths[i];
        uint8_t *frame = calloc(1, GP_GREETING_MOST);

        frame[1] = (uint8_t)(length >> 8);
        frame[2] = (uint8_t)length;
        frame[3] = 4;
        for (uint32_t at = 9; at < 9 + length; at += 6)
            frame[at] = 0xf0; /* unknown ones, to be ignored */
        memcpy(frame + 9 + length - 6, "\0\3\0\0\0\144", 6);
        CHECK(judge(frame, 9 + length - 1) == GP_GREETING_UNFINISHED);
        CHECK(judge(frame, 9 + length) == GP_GREETING_HTTP2 && probe.max_concurrent_streams == 100);
        free(frame);
    }
}

static void goaway_is_named(void)
{
    CHECK(JUDGE("\0\0\12\7\0\0\0\0\0\0\0\0\0\0\0\0\13hi") == GP_GREETING_GOAWAY);
    CHECK(strcmp(greeting.words, "11") == 0);
    CHECK(JUDGE("\0\0\12\7\0\0\0\0\0\0\0\0\0\0\0\0\13h") == GP_GREETING_UNFINISHED);
}

static void http1_is_named_by_its_first_line(void)
{
    CHECK(JUDGE("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n") == GP_GREETING_HTTP1);
    CHECK(strcmp(greeting.words, "HTTP/1.1 400 Bad Request") == 0);
    CHECK(JUDGE("HTTP/1.0 505") == GP_GREETING_HTTP1);
    CHECK(JUDGE("<!DOCTYPE HTML>\n<html lang=\"en\">") == GP_GREETING_HTTP1);
    CHECK(JUDGE("<html><head>") == GP_GREETING_HTTP1);
    CHECK(JUDGE("<!DOCTYPE svg>") == GP_GREETING_TEXT);
    CHECK(JUDGE("HTTP/2.0 200 OK\r\n") == GP_GREETING_TEXT);
}

static void https_is_known_by_its_complaint(void)
{
    CHECK(JUDGE("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n") ==
          GP_GREETING_HTTPS);
    CHECK(JUDGE("HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n<html>\r\n<head><title>400 The plain HTTP "
                "request "
                "was sent to HTTPS port</title>") == GP_GREETING_HTTPS);
    CHECK(
        JUDGE("HTTP/1.1 400 Bad Request\r\n\r\nYou're speaking plain HTTP to an SSL-enabled server port.") ==
        GP_GREETING_HTTPS);
}

static void tls_is_known_by_its_record(void)
{
    CHECK(JUDGE("\25\3\1\0\2\2\106") == GP_GREETING_TLS); /* an alert */
    CHECK(JUDGE("\26\3\3\0\172\2") == GP_GREETING_TLS);   /* a handshake */
    CHECK(JUDGE("\25\3") == GP_GREETING_TLS);
    CHECK(JUDGE("\25") == GP_GREETING_UNFINISHED);
    CHECK(JUDGE("\25\4") == GP_GREETING_BINARY);
}

static void other_peers_are_quoted(void)
{
    CHECK(JUDGE("SSH-2.0-OpenSSH_9.2\r\n") == GP_GREETING_TEXT);
    CHECK(strcmp(greeting.words, "SSH-2.0-OpenSSH_9.2") == 0);
    CHECK(JUDGE("-ERR unknown command\r\n") == GP_GREETING_TEXT);
    CHECK(JUDGE("gr\303\274\303\237 dich\n") == GP_GREETING_TEXT);
    CHECK(strcmp(greeting.words, "gr???? dich") == 0);
    CHECK(JUDGE("\r\n") == GP_GREETING_BINARY);
    CHECK(JUDGE("\377\373\1") == GP_GREETING_BINARY); /* telnet */
    CHECK(JUDGE("J\0\0\0\n8.0.36\0") == GP_GREETING_BINARY);
    CHECK(strcmp(greeting.words, "4a 00 00 00 0a 38 2e 30 2e 33 36 00") == 0);

    char line[5000];
    memset(line, 'y', sizeof line);
    CHECK(judge(line, sizeof line) == GP_GREETING_TEXT);
    CHECK(strlen(greeting.words) == 80);
}

/* Whatever comes, nothing is read beyond the end, and a whole greeting stays whole when more follows. */
static void garbage_never_breaks_it(void)
{
    struct gp_random random;
    uint8_t data[64];

    gp_random_init(&random, 77);
    for (int round = 0; round < 100000; round++) {
        size_t size = gp_random_below(&random, sizeof data + 1);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)gp_random_u64(&random);
        if (round % 2 == 0 && size >= 5) { /* half of them with a frame's header */
            data[0] = data[1] = 0;
            data[2] = (uint8_t)(6 * gp_random_below(&random, 10));
            data[3] = round % 4 ? 4 : 7;
            data[4] = 0;
        }
        enum gp_greeting_kind kind = judge(data, size);
        if (kind == GP_GREETING_HTTP2 && size < sizeof data) {
            data[size] = 0xff;
            CHECK(judge(data, size + 1) == GP_GREETING_HTTP2);
        }
    }
}

int main(void)
{
    settings_are_read();
    what_was_not_sent_is_unknown();
    unlawful_frames_are_not_http2();
    forbidden_settings_are_named();
    large_settings_are_read();
    goaway_is_named();
    http1_is_named_by_its_first_line();
    https_is_known_by_its_complaint();
    tls_is_known_by_its_record();
    other_peers_are_quoted();
    garbage_never_breaks_it();
    return 0;
}
