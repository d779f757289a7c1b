/* codec: those that were built. */
#include "codec/codec.h"

static const struct gp_codec *const codecs[] = {
#ifdef GP_CODEC_PROTOBUF
    &gp_codec_protobuf,
#endif
#ifdef GP_CODEC_MSGPACK
    &gp_codec_msgpack,
#endif
#ifdef GP_CODEC_FLATBUFFERS
    &gp_codec_flatbuffers,
#endif
    NULL,
};

const struct gp_codec *gp_codec_at(size_t index)
{
    return index < sizeof codecs / sizeof *codecs ? codecs[index] : NULL;
}
