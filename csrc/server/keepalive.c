/* TCP's keepalive on the connections of a server. gRPC does not tell its sockets, so they are looked for
 * among the process's descriptors. */
#include "server/keepalive.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"
#include "server/options.h"

static bool listens(int fd)
{
    int listening = 0, family = 0;
    socklen_t size = sizeof(listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || !listening)
        return false;
    size = sizeof(family);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
           (family == AF_INET || family == AF_INET6);
}

static int set(int fd, const struct gp_options *options)
{
    const struct {
        int level, name, value;
    } wanted[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, options->tcp_idle_s},
        {IPPROTO_TCP, TCP_KEEPINTVL, options->tcp_interval_s},
        {IPPROTO_TCP, TCP_KEEPCNT, options->tcp_probes},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        if (wanted[i].value &&
            setsockopt(fd, wanted[i].level, wanted[i].name, &wanted[i].value, sizeof(int)) < 0)
            return -1;
    return 0;
}

int gp_keepalive_start(const struct gp_options *options, struct gp_error *err)
{
    unsigned found = 0;
    if (!options->tcp_keepalive)
        return 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return gp_error_errno(err, "cannot look for the sockets to set TCP's keepalive on");
    for (struct dirent *entry; (entry = readdir(folder));) {
        int fd = atoi(entry->d_name); /* of "." and "..": 0, which listens to nothing */
        if (!listens(fd))
            continue;
        found++;
        if (set(fd, options) < 0) {
            closedir(folder);
            return gp_error_errno(err, "cannot set TCP's keepalive on socket %d", fd);
        }
    }
    closedir(folder);
    if (found == 0)
        return gp_error_set(err, GP_ERROR_INVALID, "--tcp-keepalive: no TCP socket is listened on");
    return 0;
}
