/* deaf: a socket filter that lets nothing through. Any process may set one on its own sockets. */
#include "relay/deaf.h"

#include <linux/filter.h>
#include <sys/socket.h>

void gp_deaf_set(int fd)
{
    struct sock_filter nothing = {.code = BPF_RET | BPF_K, .k = 0};
    const struct sock_fprog program = {.len = 1, .filter = &nothing};

    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

void gp_deaf_clear(int fd)
{
    int none = 0;

    setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none);
}
