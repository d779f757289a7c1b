/* memory_file: see the header. */
#include "process/memory_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

void gp_memory_file_trim(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 > GP_MEMORY_FILE_MOST)
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size - GP_MEMORY_FILE_KEPT);
}

/* Drop what is left of a line that began before the text. */
static size_t without_torn_line(char *text, size_t length)
{
    const char *end = memchr(text, '\n', length - 1);
    if (!end)
        return length;
    length -= (size_t)(end + 1 - text);
    memmove(text, end + 1, length);
    return length;
}

size_t gp_memory_file_tail(int fd, char *text, size_t size)
{
    struct stat st;
    assert(size > 0);
    text[0] = '\0';
    if (fstat(fd, &st) < 0)
        return 0;
    off_t room = (off_t)size - 1, start = st.st_size > room ? st.st_size - room : 0;
    ssize_t got = pread(fd, text, (size_t)(st.st_size - start), start);
    if (got <= 0)
        return 0;
    size_t length = start > 0 ? without_torn_line(text, (size_t)got) : (size_t)got;
    text[length] = '\0';
    return length;
}
