/* inflate: the loop that nghttp2 asks for. A block goes through the inflater to its end even when it is too
 * large: the table needs it. */
#include "wire/inflate.h"

#include "wire/hpack.h"

enum gp_inflated gp_inflate(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size,
                            uint32_t max_list_bytes, void (*read)(void *context, const nghttp2_nv *field),
                            void *context)
{
    uint64_t list_bytes = 0;
    int flags = 0;

    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        flags = 0;
        ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, size, 1);
        if (taken < 0)
            return GP_INFLATED_BROKEN;
        block += taken;
        size -= (size_t)taken;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            list_bytes += field.namelen + field.valuelen + GP_HPACK_ENTRY_BYTES;
            if (list_bytes <= max_list_bytes)
                read(context, &field);
        } else if (!(flags & NGHTTP2_HD_INFLATE_FINAL) && size == 0) {
            return GP_INFLATED_BROKEN;
        }
    }
    nghttp2_hd_inflate_end_headers(inflater);
    return list_bytes > max_list_bytes ? GP_INFLATED_TOO_LARGE : GP_INFLATED;
}
