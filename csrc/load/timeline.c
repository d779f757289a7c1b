/* timeline: the few words load threads exchange. None of them is on the path of a call but the cease flag,
 * which is read once per batch. */
#include "load/timeline.h"

#include "base/clock.h"

void gp_timeline_init(struct gp_timeline *timeline)
{
    *timeline = (struct gp_timeline){0};
}

uint64_t gp_timeline_begin(struct gp_timeline *timeline)
{
    uint64_t begin_ns = 0;
    uint64_t now_ns = gp_clock_now_ns();

    if (atomic_compare_exchange_strong(&timeline->begin_ns, &begin_ns, now_ns))
        return now_ns;
    return begin_ns;
}

uint64_t gp_timeline_start_ns(const struct gp_timeline *timeline, uint64_t begin_ns)
{
    return begin_ns + timeline->warmup_ns;
}

uint64_t gp_timeline_end_ns(const struct gp_timeline *timeline, uint64_t begin_ns)
{
    if (timeline->duration_ns == 0)
        return UINT64_MAX;
    return gp_timeline_start_ns(timeline, begin_ns) + timeline->duration_ns;
}

static void read_server(struct gp_timeline *timeline, int end)
{
    if (timeline->server_pid > 0)
        timeline->server_cpu_known[end] =
            gp_clock_pid_cpu_ns(timeline->server_pid, &timeline->server_cpu_ns[end]) == 0;
}

void gp_timeline_enter(struct gp_timeline *timeline)
{
    if (atomic_fetch_add(&timeline->entered, 1) == 0)
        read_server(timeline, 0);
}

void gp_timeline_leave(struct gp_timeline *timeline)
{
    if (atomic_fetch_add(&timeline->left, 1) + 1 == timeline->threads)
        read_server(timeline, 1);
}

void gp_timeline_cease(struct gp_timeline *timeline, enum gp_cease why)
{
    int was = atomic_load(&timeline->cease);

    while (was < (int)why && !atomic_compare_exchange_weak(&timeline->cease, &was, (int)why))
        ;
}

enum gp_cease gp_timeline_ceasing(const struct gp_timeline *timeline)
{
    return (enum gp_cease)atomic_load_explicit(&timeline->cease, memory_order_relaxed);
}
