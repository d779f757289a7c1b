/* frame: what SETTINGS, padding and error codes mean. Plain functions over bytes; no connection is known
 * here. */
#include "wire/frame.h"

#define SETTING_BYTES 6u
#define PRIORITY_BYTES 5u
#define MAX_FRAME_SIZE 0xffffffu

const char gp_frame_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

_Static_assert(sizeof gp_frame_preface - 1 == GP_FRAME_PREFACE_BYTES, "RFC 9113, 3.4");

void gp_settings_init(struct gp_settings *settings)
{
    *settings = (struct gp_settings){
        .header_table_size = 4096,
        .max_concurrent_streams = UINT32_MAX,
        .initial_window_size = GP_FRAME_DEFAULT_WINDOW,
        .max_frame_size = GP_FRAME_DEFAULT_SIZE,
        .max_header_list_size = UINT32_MAX,
        .enable_push = true,
    };
}

static enum gp_h2_error apply_one(struct gp_settings *settings, uint16_t id, uint32_t value)
{
    switch (id) {
    case GP_SETTING_HEADER_TABLE_SIZE:
        settings->header_table_size = value;
        break;
    case GP_SETTING_ENABLE_PUSH:
        if (value > 1)
            return GP_H2_PROTOCOL_ERROR;
        settings->enable_push = value;
        break;
    case GP_SETTING_MAX_CONCURRENT_STREAMS:
        settings->max_concurrent_streams = value;
        break;
    case GP_SETTING_INITIAL_WINDOW_SIZE:
        if (value > GP_FRAME_MAX_WINDOW)
            return GP_H2_FLOW_CONTROL_ERROR;
        settings->initial_window_size = value;
        break;
    case GP_SETTING_MAX_FRAME_SIZE:
        if (value < GP_FRAME_DEFAULT_SIZE || value > MAX_FRAME_SIZE)
            return GP_H2_PROTOCOL_ERROR;
        settings->max_frame_size = value;
        break;
    case GP_SETTING_MAX_HEADER_LIST_SIZE:
        settings->max_header_list_size = value;
        break;
    }
    return GP_H2_NO_ERROR;
}

enum gp_h2_error gp_settings_apply(struct gp_settings *settings, const uint8_t *payload, size_t size)
{
    struct gp_settings changed = *settings;

    if (size % SETTING_BYTES != 0)
        return GP_H2_FRAME_SIZE_ERROR;
    for (size_t at = 0; at < size; at += SETTING_BYTES) {
        uint16_t id = (uint16_t)(payload[at] << 8 | payload[at + 1]);
        enum gp_h2_error error = apply_one(&changed, id, gp_get_u32(payload + at + 2));
        if (error != GP_H2_NO_ERROR)
            return error;
    }
    *settings = changed;
    return GP_H2_NO_ERROR;
}

enum gp_h2_error gp_frame_body(struct gp_frame frame, const uint8_t *payload, const uint8_t **body,
                               size_t *size)
{
    bool priority = frame.type == GP_FRAME_HEADERS && frame.flags & GP_FLAG_PRIORITY;
    bool padded = frame.flags & GP_FLAG_PADDED;
    size_t front = (padded ? 1u : 0u) + (priority ? PRIORITY_BYTES : 0u);

    if (frame.length < front)
        return GP_H2_FRAME_SIZE_ERROR;
    size_t padding = padded ? payload[0] : 0;
    if (padding > frame.length - front)
        return GP_H2_PROTOCOL_ERROR;
    *body = payload + front;
    *size = frame.length - front - padding;
    return GP_H2_NO_ERROR;
}

const char *gp_h2_error_name(uint32_t code)
{
    static const char *const names[] = {
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    };

    return code < sizeof names / sizeof names[0] ? names[code] : "an unknown error";
}
