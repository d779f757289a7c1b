/* greeting: telling HTTP/2, TLS, HTTP/1, other text and garbage apart by their first bytes. */
#include "net/greeting.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "net/probe.h"

#define FRAME_HEADER 9u
#define FRAME_SETTINGS 4u
#define FRAME_GOAWAY 7u
#define SETTING_BYTES 6u

struct frame {
    uint32_t length, stream;
    uint8_t type, flags;
};

static uint32_t big_endian(const uint8_t *data, int bytes)
{
    uint32_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | data[i];
    return value;
}

static struct frame frame_at(const uint8_t *data)
{
    return (struct frame){
        .length = big_endian(data, 3),
        .type = data[3],
        .flags = data[4],
        .stream = big_endian(data + 5, 4) & 0x7fffffffu,
    };
}

/* RFC 9113, 3.4: a server's first frame is SETTINGS, which is no acknowledgement; 6.5: on stream 0, in sixes.
 * Some send GOAWAY before it when they are leaving. */
static bool may_be_first(const struct frame *frame)
{
    if (frame->stream != 0 || frame->length > GP_GREETING_MOST - FRAME_HEADER)
        return false;
    if (frame->type == FRAME_GOAWAY)
        return frame->length >= 8;
    return frame->type == FRAME_SETTINGS && frame->flags == 0 && frame->length % SETTING_BYTES == 0;
}

/* One setting; the last of a kind counts. False when its value is forbidden (RFC 9113, 6.5.2). */
static bool apply_setting(struct gp_probe *probe, uint32_t id, uint32_t value)
{
    switch (id) {
    case 1:
        probe->header_table_size = value;
        return true;
    case 2:
        return value == 0; /* ENABLE_PUSH: a server may send nothing else */
    case 3:
        probe->max_concurrent_streams = value;
        return true;
    case 4:
        probe->initial_window_size = value;
        return value <= 0x7fffffffu;
    case 5:
        probe->max_frame_size = value;
        return value >= 16384 && value <= 0xffffffu;
    case 6:
        probe->max_header_list_size = value;
        return true;
    default:
        return true; /* unknown ones are to be ignored: gRPC C core sends 0xfe03 */
    }
}

static void read_settings(const uint8_t *payload, uint32_t length, struct gp_greeting *greeting,
                          struct gp_probe *probe)
{
    probe->header_table_size = probe->max_concurrent_streams = probe->initial_window_size = UINT64_MAX;
    probe->max_frame_size = probe->max_header_list_size = UINT64_MAX;
    greeting->kind = GP_GREETING_HTTP2;
    for (uint32_t at = 0; at < length; at += SETTING_BYTES) {
        uint32_t id = big_endian(payload + at, 2), value = big_endian(payload + at + 2, 4);
        if (apply_setting(probe, id, value))
            continue;
        greeting->kind = GP_GREETING_FORBIDDEN;
        snprintf(greeting->words, sizeof greeting->words, "setting %u is %u", id, value);
        return;
    }
}

static void show_bytes(const uint8_t *data, size_t size, struct gp_greeting *greeting)
{
    size_t used = 0;

    for (size_t i = 0; i < size && i < 12; i++)
        used += (size_t)snprintf(greeting->words + used, sizeof greeting->words - used, "%s%02x",
                                 i ? " " : "", data[i]);
    if (size > 12)
        snprintf(greeting->words + used, sizeof greeting->words - used, " ...");
    greeting->kind = GP_GREETING_BINARY;
}

static void read_frame(const uint8_t *data, size_t size, struct gp_greeting *greeting, struct gp_probe *probe)
{
    if (size < FRAME_HEADER)
        return;
    struct frame frame = frame_at(data);
    if (!may_be_first(&frame)) {
        show_bytes(data, size, greeting);
    } else if (size < FRAME_HEADER + frame.length) {
        return;
    } else if (frame.type == FRAME_GOAWAY) {
        greeting->kind = GP_GREETING_GOAWAY;
        snprintf(greeting->words, sizeof greeting->words, "%u", big_endian(data + FRAME_HEADER + 4, 4));
    } else {
        read_settings(data + FRAME_HEADER, frame.length, greeting, probe);
    }
}

static bool contains(const uint8_t *data, size_t size, const char *text)
{
    /* The null check is for gcc, which warns when UBSan has added one of its own. */
    return data && memmem(data, size, text, strlen(text)) != NULL;
}

/* The words of Go, nginx and Apache to a plain-text request on a TLS port. */
static bool wants_tls(const uint8_t *data, size_t size)
{
    return contains(data, size, "HTTP request to an HTTPS server") ||
           contains(data, size, "plain HTTP request was sent to HTTPS port") ||
           contains(data, size, "speaking plain HTTP to an SSL-enabled");
}

static size_t first_line(const uint8_t *data, size_t size)
{
    size_t length = 0;

    while (length < size && data[length] != '\r' && data[length] != '\n')
        length++;
    return length;
}

static bool is_text(const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((data[i] < 0x20 && data[i] != '\t') || data[i] == 0x7f)
            return false;
    return true;
}

static void read_text(const uint8_t *data, size_t size, size_t line, struct gp_greeting *greeting)
{
    for (size_t i = 0; i < line && i < 80; i++)
        greeting->words[i] = data[i] < 0x80 ? (char)data[i] : '?';
    greeting->kind = GP_GREETING_TEXT;
    if (line >= 7 && memcmp(data, "HTTP/1.", 7) == 0) {
        greeting->kind = wants_tls(data, size) ? GP_GREETING_HTTPS : GP_GREETING_HTTP1;
    } else if (line >= 5 && (!strncasecmp(greeting->words, "<html", 5) ||
                             !strncasecmp(greeting->words, "<!doctype html", 14))) {
        /* Python's http.server answers "HTTP/2.0" as HTTP/0.9 would, without a status line. */
        greeting->kind = GP_GREETING_HTTP1;
        snprintf(greeting->words, sizeof greeting->words, "a web page without a status line");
    }
}

void gp_greeting_read(const uint8_t *data, size_t size, struct gp_greeting *greeting, struct gp_probe *probe)
{
    *greeting = (struct gp_greeting){.kind = GP_GREETING_UNFINISHED};
    if (size == 0)
        return;
    /* No HTTP/2 frame of lawful length begins with anything but 0, so the first byte parts the ways; a TLS
     * record is an alert (0x15) or a handshake (0x16), then the major version 3. */
    if (data[0] == 0) {
        read_frame(data, size, greeting, probe);
        return;
    }
    if (data[0] == 0x15 || data[0] == 0x16) {
        if (size == 1)
            return;
        if (data[1] == 3) {
            greeting->kind = GP_GREETING_TLS;
            return;
        }
    }
    size_t line = first_line(data, size);
    if (line > 0 && is_text(data, line))
        read_text(data, size, line, greeting);
    else
        show_bytes(data, size, greeting);
}

int gp_greeting_verdict(const struct gp_greeting *greeting, const char *name, struct gp_error *err)
{
    const char *words = greeting->words;

    switch (greeting->kind) {
    case GP_GREETING_HTTP2:
        return 0;
    case GP_GREETING_GOAWAY:
        return gp_error_set(err, GP_ERROR_CONNECT,
                            "%s answers HTTP/2 but turns the connection away (GOAWAY, error %s)", name,
                            words);
    case GP_GREETING_FORBIDDEN:
        return gp_error_set(err, GP_ERROR_CONNECT,
                            "%s answers HTTP/2 with SETTINGS of a forbidden value (%s; RFC 9113, 6.5.2)",
                            name, words);
    case GP_GREETING_HTTP1:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers HTTP/1 (%s), not gRPC", name, words);
    case GP_GREETING_HTTPS:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers TLS; plaintext was asked for (it says: %s)",
                            name, words);
    case GP_GREETING_TLS:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers TLS; plaintext was asked for", name);
    case GP_GREETING_TEXT:
        return gp_error_set(err, GP_ERROR_CONNECT, "%s answers \"%s\", not gRPC", name, words);
    case GP_GREETING_BINARY:
        return gp_error_set(err, GP_ERROR_CONNECT,
                            "%s answers the bytes %s, which do not begin HTTP/2: not gRPC", name, words);
    case GP_GREETING_UNFINISHED:
        break;
    }
    return gp_error_set(err, GP_ERROR_CONNECT, "%s is not gRPC", name);
}
