/* Frames of HTTP/2 as bytes (RFC 9113, sections 4 and 6): headers, types, flags, error codes, SETTINGS. */
#ifndef GP_WIRE_FRAME_H
#define GP_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_FRAME_HEADER_BYTES 9u
#define GP_FRAME_MAX_ID 0x7fffffffu
#define GP_FRAME_MAX_WINDOW 0x7fffffff
#define GP_FRAME_DEFAULT_WINDOW 65535
#define GP_FRAME_DEFAULT_SIZE 16384u /* the least MAX_FRAME_SIZE, and what holds until told otherwise */

extern const char gp_frame_preface[]; /* what a client says first */
#define GP_FRAME_PREFACE_BYTES 24u

enum gp_frame_type {
    GP_FRAME_DATA = 0,
    GP_FRAME_HEADERS = 1,
    GP_FRAME_PRIORITY = 2,
    GP_FRAME_RST_STREAM = 3,
    GP_FRAME_SETTINGS = 4,
    GP_FRAME_PUSH_PROMISE = 5,
    GP_FRAME_PING = 6,
    GP_FRAME_GOAWAY = 7,
    GP_FRAME_WINDOW_UPDATE = 8,
    GP_FRAME_CONTINUATION = 9,
};

enum gp_frame_flag {
    GP_FLAG_END_STREAM = 0x1,
    GP_FLAG_ACK = 0x1,
    GP_FLAG_END_HEADERS = 0x4,
    GP_FLAG_PADDED = 0x8,
    GP_FLAG_PRIORITY = 0x20,
};

enum gp_h2_error {
    GP_H2_NO_ERROR = 0,
    GP_H2_PROTOCOL_ERROR = 1,
    GP_H2_INTERNAL_ERROR = 2,
    GP_H2_FLOW_CONTROL_ERROR = 3,
    GP_H2_SETTINGS_TIMEOUT = 4,
    GP_H2_STREAM_CLOSED = 5,
    GP_H2_FRAME_SIZE_ERROR = 6,
    GP_H2_REFUSED_STREAM = 7,
    GP_H2_CANCEL = 8,
    GP_H2_COMPRESSION_ERROR = 9,
    GP_H2_CONNECT_ERROR = 10,
    GP_H2_ENHANCE_YOUR_CALM = 11,
    GP_H2_INADEQUATE_SECURITY = 12,
    GP_H2_HTTP_1_1_REQUIRED = 13,
};

enum gp_setting {
    GP_SETTING_HEADER_TABLE_SIZE = 1,
    GP_SETTING_ENABLE_PUSH = 2,
    GP_SETTING_MAX_CONCURRENT_STREAMS = 3,
    GP_SETTING_INITIAL_WINDOW_SIZE = 4,
    GP_SETTING_MAX_FRAME_SIZE = 5,
    GP_SETTING_MAX_HEADER_LIST_SIZE = 6,
};

struct gp_frame {
    uint32_t length;
    uint32_t stream_id;
    uint8_t type, flags;
};

static inline uint32_t gp_get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline void gp_put_u32(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)(value >> 24);
    bytes[1] = (uint8_t)(value >> 16);
    bytes[2] = (uint8_t)(value >> 8);
    bytes[3] = (uint8_t)value;
}

/* The reserved bit of a stream id is ignored when read and never set (RFC 9113, 4.1). */
static inline struct gp_frame gp_frame_read(const uint8_t bytes[GP_FRAME_HEADER_BYTES])
{
    return (struct gp_frame){
        .length = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2],
        .type = bytes[3],
        .flags = bytes[4],
        .stream_id = gp_get_u32(bytes + 5) & GP_FRAME_MAX_ID,
    };
}

static inline void gp_frame_write(uint8_t bytes[GP_FRAME_HEADER_BYTES], struct gp_frame frame)
{
    gp_put_u32(bytes, frame.length << 8 | frame.type);
    bytes[4] = frame.flags;
    gp_put_u32(bytes + 5, frame.stream_id);
}

/* What a peer has set, or the protocol's defaults before it has (RFC 9113, 6.5.2). */
struct gp_settings {
    uint32_t header_table_size, max_concurrent_streams, initial_window_size, max_frame_size,
        max_header_list_size;
    bool enable_push;
};

void gp_settings_init(struct gp_settings *settings); /* the defaults; UINT32_MAX for what is unlimited */

/* Apply the payload of a SETTINGS frame. Unknown settings are ignored. GP_H2_NO_ERROR, or what to send in
 * GOAWAY. */
enum gp_h2_error gp_settings_apply(struct gp_settings *settings, const uint8_t *payload, size_t size);

/* The part of a DATA or HEADERS payload that is neither padding nor priority. GP_H2_NO_ERROR, or
 * PROTOCOL_ERROR or FRAME_SIZE_ERROR for a payload that is too short for what its flags promise. */
enum gp_h2_error gp_frame_body(struct gp_frame frame, const uint8_t *payload, const uint8_t **body,
                               size_t *size);

const char *gp_h2_error_name(uint32_t code); /* "REFUSED_STREAM"; "an unknown error" */

#endif
