/* Waiting for many descriptors and for one moment, at microsecond precision: epoll, and a timer descriptor
 * that is set anew only when an earlier moment is wanted or the last one has passed (an epoll timeout is
 * rounded up to the kernel's slack, and setting a timer costs a system call). */
#ifndef GP_NET_POLLER_H
#define GP_NET_POLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

struct gp_error;

#define GP_POLLER_BATCH 256u

struct gp_ready {
    void *owner;
    bool readable, writable; /* both after an error, which the next call on the descriptor tells */
};

struct gp_poller {
    int epoll, timer;
    bool busy;                  /* never sleep: look again and again until the moment */
    uint64_t armed_ns;          /* when the timer will go off; UINT64_MAX: it will not */
    uint64_t looks, idle_looks; /* calls of the kernel, and those that brought nothing: with busy polling the
                                   only way to tell a client with time to spare from one without */
    struct gp_ready ready[GP_POLLER_BATCH];
    struct epoll_event events[GP_POLLER_BATCH];
};

int gp_poller_init(struct gp_poller *poller, bool busy, struct gp_error *err);
void gp_poller_fini(struct gp_poller *poller);

/* Level-triggered. `owner` comes back with what is ready, and must not be NULL. */
int gp_poller_add(struct gp_poller *poller, int fd, void *owner, bool write, struct gp_error *err);
void gp_poller_want(struct gp_poller *poller, int fd, void *owner, bool write); /* reading is always wanted */
void gp_poller_mute(struct gp_poller *poller, int fd,
                    void *owner); /* only writing is, until want is called */
void gp_poller_set(struct gp_poller *poller, int fd, void *owner, bool read, bool write); /* one or both */
void gp_poller_remove(struct gp_poller *poller, int fd); /* before it is closed */

/* Wait until something is ready or until_ns has come (gp_clock_now_ns; 0: only look). Returns the number of
 * entries in ready and the time after waking. May return 0 before until_ns. */
size_t gp_poller_wait(struct gp_poller *poller, uint64_t until_ns, uint64_t *now_ns);

#endif
