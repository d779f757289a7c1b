/* How calls end: the names, and when OK is OK; which metadata is binary. */
#include "base/call.h"

#include <assert.h>
#include <string.h>

const char *gp_class_name(enum gp_class class)
{
    static const char *const names[GP_CLASS_COUNT] = {
        "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED", "in_flight_at_end",  "transport",
    };

    assert((unsigned)class < GP_CLASS_COUNT);
    return names[class];
}

bool gp_metadata_is_binary(const char *key)
{
    size_t size = strlen(key);

    return size > 4 && strcmp(key + size - 4, "-bin") == 0;
}

size_t gp_metadata_value_bytes(const struct gp_metadata *metadata)
{
    return gp_metadata_is_binary(metadata->key) ? metadata->value_bytes : strlen(metadata->value);
}

bool gp_call_is_said(enum gp_kind kind, bool parked, uint32_t messages, bool ending, uint32_t sent)
{
    return kind == GP_KIND_CLIENT_STREAM && !parked && messages == 0 && ending && sent > 0;
}

bool gp_call_is_complete(enum gp_kind kind, bool parked, uint32_t messages, uint32_t sent, uint32_t received)
{
    switch (kind) {
    case GP_KIND_UNARY:
    case GP_KIND_CLIENT_STREAM:
        return received == 1;
    case GP_KIND_SERVER_STREAM:
        return parked || received > 0;
    case GP_KIND_BIDI:
        return parked || (received == sent && sent >= messages);
    case GP_KIND_BIDI_FREE:
        return parked || (received > 0 && received >= messages && sent >= messages);
    }
    return false;
}

enum gp_class gp_call_judge_ok(enum gp_kind kind, bool parked, uint32_t messages, uint32_t sent,
                               uint32_t received)
{
    if (gp_call_is_complete(kind, parked, messages, sent, received))
        return GP_CLASS_OK;
    return kind == GP_KIND_UNARY || kind == GP_KIND_CLIENT_STREAM ? GP_CLASS_UNIMPLEMENTED : GP_CLASS_UNKNOWN;
}
