/* The names of how calls end. */
#include "base/call.h"

#include <assert.h>

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
