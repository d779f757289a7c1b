/* What of a call's metadata goes on to the next server. Pure. */
#ifndef GP_SERVER_FORWARD_RULES_H
#define GP_SERVER_FORWARD_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* A user's own does. What asks for a behaviour was meant for the server that was called, and has been done
 * there; what belongs to the one connection, or is gRPC's own, is made anew for the next. */
bool gp_forward_passes(const char *key, size_t length);

#endif
