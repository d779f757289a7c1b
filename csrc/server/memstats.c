/* What this process holds.
 *
 * heap_alloc counts chunk headers and what glibc caches per thread as live. stack_inuse and stack_sys are of
 * the server's own threads but for the main one (stacks.h); C core's threads are constant and part of the
 * baseline.
 *
 * Reading takes 20 ms once thousands of threads have freed in many arenas, and under 1 ms after settling. The
 * number of arenas is left as it is: a server with fewer is another server, in memory and in speed. Who wants
 * one sets MALLOC_ARENA_MAX in its environment. */
#include "server/memstats.h"

#include <malloc.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/heap.h"
#include "process/procfs.h"
#include "server/models.h"
#include "server/server.h"

#define SETTLE_READINGS 5
#define SETTLE_MAX_NS (2 * GP_NS_PER_S)

/* Whether the live bytes stay within 0.5 % over the last readings. */
static bool at_rest(const uint64_t *readings)
{
    uint64_t low = readings[0], high = readings[0];
    for (unsigned i = 1; i < SETTLE_READINGS; i++) {
        low = readings[i] < low ? readings[i] : low;
        high = readings[i] > high ? readings[i] : high;
    }
    return (high - low) * 200 <= high;
}

/* Calls whose handler has ended, and whose memory C core still has. On a busy machine its threads may stand
 * still for longer than the readings take. */
static bool any_leaving(const struct gp_server *server)
{
    struct gp_counts counts;
    gp_server_counts(server, &counts);
    return counts.streams > counts.running + counts.queued;
}

static bool come_to_rest(const struct gp_server *server, gp_memstats_pause pause, void *context)
{
    uint64_t readings[SETTLE_READINGS], until_ns = gp_clock_now_ns() + SETTLE_MAX_NS;
    malloc_trim(0);
    for (unsigned count = 0;; count++) {
        readings[count % SETTLE_READINGS] = gp_heap_read().alloc;
        if (count + 1 >= SETTLE_READINGS && at_rest(readings) && !any_leaving(server)) {
            malloc_trim(0); /* what was freed meanwhile */
            return true;
        }
        if (gp_clock_now_ns() >= until_ns || pause(context))
            return false;
    }
}

int gp_memstats_read(struct gp_server *server, bool settle, gp_memstats_pause pause, void *context,
                     Grpcperf__Control__MemStats *memstats, struct gp_error *err)
{
    struct gp_procfs_sample process;
    struct gp_counts counts;
    memstats->settled = !settle || come_to_rest(server, pause, context);
    struct gp_heap heap = gp_heap_read();
    memstats->heap_alloc = heap.alloc;
    memstats->heap_sys = heap.sys;
    memstats->heap_idle = heap.idle;
    gp_stacks_measure(&server->stacks, &memstats->stack_inuse, &memstats->stack_sys);
    if (gp_procfs_sample(getpid(), GP_PROCFS_MAPS, &process, err) < 0)
        return -1;
    memstats->sys = process.writable_bytes;
    memstats->threads = process.threads;
    memstats->own_threads = gp_stacks_count(&server->stacks) + 1; /* and the main one */
    gp_server_counts(server, &counts);
    memstats->running = counts.running;
    memstats->streams = counts.streams;
    memstats->threadless = server->model->owns_threads ? 0 : counts.running;
    return 0;
}
