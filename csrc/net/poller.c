/* poller: epoll and the one timer. Whose descriptors they are is nobody's business here. */
#include "net/poller.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* Edge-triggered: each going off is told once, and needs no read to be over. The owner NULL marks it. */
static int add_timer(struct gp_poller *poller)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};

    return epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->timer, &event);
}

int gp_poller_init(struct gp_poller *poller, bool busy, struct gp_error *err)
{
    poller->epoll = epoll_create1(EPOLL_CLOEXEC);
    poller->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    poller->busy = busy;
    poller->armed_ns = UINT64_MAX;
    poller->looks = poller->idle_looks = 0;
    if (poller->epoll >= 0 && poller->timer >= 0 && add_timer(poller) == 0)
        return 0;
    gp_error_errno(err, "cannot make the descriptors to wait with");
    gp_poller_fini(poller);
    return -1;
}

void gp_poller_fini(struct gp_poller *poller)
{
    if (poller->timer >= 0)
        close(poller->timer);
    if (poller->epoll >= 0)
        close(poller->epoll);
    poller->timer = poller->epoll = -1;
}

static struct epoll_event interest(void *owner, bool read, bool write)
{
    return (struct epoll_event){.events = (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u), .data.ptr = owner};
}

int gp_poller_add(struct gp_poller *poller, int fd, void *owner, bool write, struct gp_error *err)
{
    struct epoll_event event = interest(owner, true, write);

    if (epoll_ctl(poller->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return gp_error_errno(err, "cannot wait for a connection");
    return 0;
}

void gp_poller_set(struct gp_poller *poller, int fd, void *owner, bool read, bool write)
{
    struct epoll_event event = interest(owner, read, write);

    epoll_ctl(poller->epoll, EPOLL_CTL_MOD, fd, &event);
}

void gp_poller_want(struct gp_poller *poller, int fd, void *owner, bool write)
{
    gp_poller_set(poller, fd, owner, true, write);
}

void gp_poller_mute(struct gp_poller *poller, int fd, void *owner)
{
    gp_poller_set(poller, fd, owner, false, true);
}

void gp_poller_remove(struct gp_poller *poller, int fd)
{
    epoll_ctl(poller->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* A timer that goes off too early costs one needless waking; one set for each wait would cost a system call
 * each. */
static void arm(struct gp_poller *poller, uint64_t until_ns)
{
    const struct itimerspec spec = {.it_value = gp_clock_timespec(until_ns)};

    if (until_ns >= poller->armed_ns)
        return;
    timerfd_settime(poller->timer, TFD_TIMER_ABSTIME, &spec, NULL);
    poller->armed_ns = until_ns;
}

static size_t look(struct gp_poller *poller, int timeout_ms)
{
    int count = epoll_wait(poller->epoll, poller->events, GP_POLLER_BATCH, timeout_ms);
    size_t ready = 0;

    for (int i = 0; i < count; i++) {
        const struct epoll_event *event = &poller->events[i];
        bool failed = event->events & (EPOLLERR | EPOLLHUP);

        if (event->data.ptr == NULL)
            poller->armed_ns = UINT64_MAX;
        else
            poller->ready[ready++] = (struct gp_ready){
                .owner = event->data.ptr,
                .readable = failed || event->events & EPOLLIN,
                .writable = failed || event->events & EPOLLOUT,
            };
    }
    poller->looks++;
    poller->idle_looks += ready == 0;
    return ready;
}

size_t gp_poller_wait(struct gp_poller *poller, uint64_t until_ns, uint64_t *now_ns)
{
    size_t ready;

    if (poller->busy || until_ns == 0) {
        do {
            ready = look(poller, 0);
            *now_ns = gp_clock_now_ns();
        } while (ready == 0 && *now_ns < until_ns);
        return ready;
    }
    if (until_ns != UINT64_MAX)
        arm(poller, until_ns);
    ready = look(poller, -1);
    *now_ns = gp_clock_now_ns();
    return ready;
}
