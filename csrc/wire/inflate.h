/* A whole header block through nghttp2's inflater, field by field. */
#ifndef GP_WIRE_INFLATE_H
#define GP_WIRE_INFLATE_H

#include <stddef.h>
#include <stdint.h>
#include <nghttp2/nghttp2.h>

enum gp_inflated {
    GP_INFLATED,
    GP_INFLATED_TOO_LARGE, /* above max_list_bytes; the table is in order */
    GP_INFLATED_BROKEN,    /* not HPACK: COMPRESSION_ERROR, the inflater is of no more use */
};

/* `read` is called for each field, as long as they stay within max_list_bytes together. */
enum gp_inflated gp_inflate(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size,
                            uint32_t max_list_bytes, void (*read)(void *context, const nghttp2_nv *field),
                            void *context);

#endif
