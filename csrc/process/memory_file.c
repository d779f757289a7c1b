/* memory_file: see the header. */
#include "process/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static int close_failed(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int gp_lift_fd(int fd, int low)
{
    if (fd < 0 || fd >= low)
        return fd;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, low);
    close_failed(fd);
    return lifted;
}

int gp_memory_file(const char *name, const void *data, size_t size, int low)
{
    int fd = gp_lift_fd(memfd_create(name, MFD_CLOEXEC), low);
    size_t written = 0;
    while (fd >= 0 && written < size) {
        ssize_t count = pwrite(fd, (const char *)data + written, size - written, (off_t)written);
        if (count < 0 && errno != EINTR)
            return close_failed(fd);
        written += count > 0 ? (size_t)count : 0;
    }
    return fd;
}

int gp_memory_files(const char *name, const struct gp_memory *contents, size_t count, int low, int *fds)
{
    for (size_t i = 0; i < count; i++) {
        fds[i] = gp_memory_file(name, contents[i].data, contents[i].size, low);
        if (fds[i] >= 0)
            continue;
        while (i > 0)
            close_failed(fds[--i]);
        return -1;
    }
    return 0;
}
