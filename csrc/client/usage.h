/* CPU used by the clients of a transport that works in threads of its own and lets any polling thread do the
 * work of any connection (gRPC C core: all its pollers wait on one epoll set). What one client costs cannot
 * be told apart there; what all of them cost together can. So the CPU of the library's threads and of all
 * threads that poll its clients is one sum, and what was added to it is claimed by the client that asks: the
 * claims of the clients of one run add up to what the run cost, as long as no other run was at work.
 *
 *   begin (once per process)   join  ( claim | active | alone )*  leave
 *
 * Process-wide, as what it accounts for is. All functions may be called from any thread. */
#ifndef GP_CLIENT_USAGE_H
#define GP_CLIENT_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_usage { /* one client's part in it */
    struct gp_usage *next;
    const void *owner; /* clients of one owner belong together */
    pid_t tid;         /* the thread that polls; 0: not known yet */
    uint64_t claimed_ns;
    _Atomic uint64_t active_ns; /* when it was last at work: gp_clock_now_ns */
};

/* Before the library is started: threads that exist by now are not its own, whatever they are called. */
void gp_usage_begin(void);

void gp_usage_join(struct gp_usage *usage, const void *owner); /* owner NULL: the client stands for itself */
void gp_usage_leave(struct gp_usage *usage);
void gp_usage_poller(struct gp_usage *usage); /* the calling thread is the one that polls */

/* What this client has claimed so far, with all that was used since anybody's last claim. Never falls. */
uint64_t gp_usage_claim(struct gp_usage *usage);

/* Whether no client of another owner was at work since then. */
bool gp_usage_alone(const struct gp_usage *usage, uint64_t since_ns);

static inline void gp_usage_active(struct gp_usage *usage, uint64_t now_ns)
{
    atomic_store_explicit(&usage->active_ns, now_ns, memory_order_relaxed);
}

#endif
