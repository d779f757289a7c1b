/* What goes on to the next server. */
#include "server/forward_rules.h"

#include <string.h>

#include "server/behaviour.h"

static bool starts_with(const char *key, size_t length, const char *start)
{
    return length >= strlen(start) && memcmp(key, start, strlen(start)) == 0;
}

bool gp_forward_passes(const char *key, size_t length)
{
    static const char *const own[] = {
        "user-agent",      "content-type",     "te", "host", "connection", "transfer-encoding", "upgrade",
        "accept-encoding", "content-encoding",
    };
    if (length == 0 || gp_behaviour_is_key(key, length) || starts_with(key, length, ":") ||
        starts_with(key, length, "grpc-"))
        return false;
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (strlen(own[i]) == length && memcmp(own[i], key, length) == 0)
            return false;
    return true;
}
