/* TCP's keepalive on the connections of a server. gRPC does not tell its sockets, so they are looked for
 * among the process's descriptors. */
#include "server/keepalive.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"
#include "net/socket.h"
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

int gp_keepalive_start(const struct gp_options *options, struct gp_error *err)
{
    unsigned found = 0;
    if (!options->tcp_keepalive.on)
        return 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return gp_error_errno(err, "cannot look for the sockets to set TCP's keepalive on");
    for (struct dirent *entry; (entry = readdir(folder));) {
        int fd = atoi(entry->d_name); /* of "." and "..": 0, which listens to nothing */
        if (!listens(fd))
            continue;
        found++;
        if (gp_socket_keepalive(fd, &options->tcp_keepalive) < 0) {
            closedir(folder);
            return gp_error_errno(err, "cannot set TCP's keepalive on socket %d", fd);
        }
    }
    closedir(folder);
    if (found == 0)
        return gp_error_set(err, GP_ERROR_INVALID, "--tcp-keepalive: no TCP socket is listened on");
    return 0;
}
