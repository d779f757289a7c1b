/* How calls get threads. */
#include "server/models.h"

const struct gp_model *gp_model(enum gp_model_kind kind)
{
    static const struct gp_model *const models[] = {
        [GP_MODEL_ASYNC] = &gp_model_async,
        [GP_MODEL_THREAD] = &gp_model_thread,
        [GP_MODEL_STREAM_WORKERS] = &gp_model_stream_workers,
        [GP_MODEL_POOL] = &gp_model_pool,
    };
    return models[kind];
}
