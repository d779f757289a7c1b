/* What this process holds, as design.md's MemStats for a glibc server says. */
#ifndef GP_SERVER_MEMSTATS_H
#define GP_SERVER_MEMSTATS_H

#include <stdbool.h>

#include "control.pb-c.h"

struct gp_error;
struct gp_server;

/* Wait about 20 ms; true: stop settling and say what there is. */
typedef bool (*gp_memstats_pause)(void *context);

/* Fill `memstats`. With `settle` the heap is trimmed first and read again and again until it has come to
 * rest, and no call that has ended is left: at most 2 s. */
int gp_memstats_read(struct gp_server *server, bool settle, gp_memstats_pause pause, void *context,
                     Grpcperf__Control__MemStats *memstats, struct gp_error *err);

#endif
