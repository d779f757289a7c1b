/* procfs: /proc/<pid> read into a struct. Nothing is allocated (but for sockets' memory), so that looking
 * does not disturb a heap that is being measured. All files are opened through one descriptor of the process'
 * folder: should the pid be given to another process meanwhile, what is left of the old one answers ESRCH. */
#include "process/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "process/sockets.h"

/* A text file of /proc by lines. */
struct lines {
    int fd;
    size_t start, end;
    char buffer[4096];
};

static int lines_open(struct lines *lines, int directory, const char *name)
{
    lines->fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    lines->start = lines->end = 0;
    return lines->fd < 0 ? -1 : 0;
}

static bool lines_refill(struct lines *lines)
{
    ssize_t got = read(lines->fd, lines->buffer, sizeof lines->buffer);

    lines->start = 0;
    lines->end = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* The next line, without its newline and cut to fit; false after the last, or when the process is gone. */
static bool lines_next(struct lines *lines, char *line, size_t size)
{
    size_t length = 0;
    char *newline = NULL;
    bool any = false;

    while (!newline && (lines->start < lines->end || lines_refill(lines))) {
        const char *from = lines->buffer + lines->start;
        newline = memchr(from, '\n', lines->end - lines->start);
        size_t piece = newline ? (size_t)(newline - from) : lines->end - lines->start;
        size_t kept = piece < size - 1 - length ? piece : size - 1 - length;
        memcpy(line + length, from, kept);
        length += kept;
        lines->start += piece + (newline ? 1 : 0);
        any = true;
    }
    line[length] = '\0';
    return any;
}

/* "VmRSS:     1740 kB": the number, when the line has this name. */
static bool is_field(const char *line, const char *name, uint64_t *value)
{
    size_t length = strlen(name);

    if (strncmp(line, name, length) != 0)
        return false;
    *value = strtoull(line + length, NULL, 10);
    return true;
}

enum reading {
    ALIVE,
    ENDED,    /* a zombie, or about to be one */
    HEADLESS, /* the main thread has ended before others: /proc/<pid> then tells nothing of the memory */
    FAILED,   /* see errno */
};

/* An exiting process has no memory a moment before it is a zombie: that is its end, and no reading of 0
 * bytes. */
static enum reading read_status(int directory, struct gp_procfs_sample *sample)
{
    struct lines lines;
    char line[128];
    uint64_t value;
    enum reading reading = ENDED;

    if (lines_open(&lines, directory, "status"))
        return FAILED;
    while (lines_next(&lines, line, sizeof line)) {
        if (is_field(line, "VmRSS:", &value))
            sample->rss_bytes = value * 1024, reading = ALIVE;
        else if (is_field(line, "RssAnon:", &value))
            sample->rss_anon_bytes = value * 1024;
        else if (is_field(line, "VmHWM:", &value))
            sample->peak_rss_bytes = value * 1024;
    }
    close(lines.fd);
    return reading;
}

/* The name in parentheses may itself hold parentheses and spaces; the fields after the last one do not. */
static enum reading parse_stat(const char *text, struct gp_procfs_sample *sample)
{
    const char *after = strrchr(text, ')');
    const char *format = " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %*s %*s %*s %*s %u";
    unsigned long user, system;
    double tick = (double)sysconf(_SC_CLK_TCK);
    char state;

    if (!after || sscanf(after + 1, format, &state, &user, &system, &sample->threads) != 4) {
        errno = EPROTO;
        return FAILED;
    }
    sample->cpu_user_s = (double)user / tick;
    sample->cpu_system_s = (double)system / tick;
    if (state == 'Z' && sample->threads > 1)
        return HEADLESS;
    return state == 'Z' || state == 'X' ? ENDED : ALIVE;
}

static enum reading read_stat(int directory, struct gp_procfs_sample *sample)
{
    char text[1024];
    int fd = openat(directory, "stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return FAILED;
    ssize_t got = read(fd, text, sizeof text - 1);
    int saved = errno;
    close(fd);
    errno = saved;
    if (got < 0)
        return FAILED;
    text[got] = '\0';
    return parse_stat(text, sample);
}

/* "7ffc1000-7ffc3000 rw-p ...": private and writable is what a process has for itself. [vvar] and [vsyscall]
 * are the kernel's, whatever their flags. */
static uint64_t writable_bytes(const char *line)
{
    char *rest;
    uint64_t low = strtoull(line, &rest, 16);

    if (*rest != '-')
        return 0;
    uint64_t high = strtoull(rest + 1, &rest, 16);
    bool writable = strlen(rest) >= 5 && rest[2] == 'w' && rest[4] == 'p';
    return writable && !strstr(rest, "[vvar") && !strstr(rest, "[vsyscall]") ? high - low : 0;
}

static void read_maps(int directory, struct gp_procfs_sample *sample)
{
    struct lines lines;
    char line[256];

    if (lines_open(&lines, directory, "maps"))
        return;
    sample->known |= GP_PROCFS_MAPS;
    while (lines_next(&lines, line, sizeof line)) {
        sample->mappings++;
        sample->writable_bytes += writable_bytes(line);
    }
    close(lines.fd);
}

static void read_pss(int directory, struct gp_procfs_sample *sample)
{
    struct lines lines;
    char line[128];
    uint64_t kib;

    if (lines_open(&lines, directory, "smaps_rollup"))
        return;
    while (lines_next(&lines, line, sizeof line))
        if (is_field(line, "Pss:", &kib))
            sample->pss_bytes = kib * 1024, sample->known |= GP_PROCFS_PSS;
    close(lines.fd);
}

/* Call `visit` with each name in a folder but "." and "..". opendir would allocate. */
static int each_entry(int directory, const char *folder, void (*visit)(int, const char *, void *),
                      void *context)
{
    _Alignas(struct dirent64) char buffer[8192];
    int fd = openat(directory, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return -1;
    while ((got = getdents64(fd, buffer, sizeof buffer)) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            if (entry->d_name[0] != '.')
                visit(fd, entry->d_name, context);
            at += entry->d_reclen;
        }
    }
    close(fd);
    return 0;
}

static void count_descriptor(int fd, const char *name, void *context)
{
    struct gp_procfs_sample *sample = context;

    sample->fds++;
}

static void count_socket(int fd, const char *name, void *context)
{
    struct gp_procfs_sample *sample = context;
    char target[16];

    sample->fds++;
    ssize_t size = readlinkat(fd, name, target, sizeof target);
    if (size >= 7 && memcmp(target, "socket:", 7) == 0)
        sample->sockets++;
}

static void read_descriptors(int directory, pid_t pid, unsigned parts, struct gp_procfs_sample *sample)
{
    if (each_entry(directory, "fd", parts & GP_PROCFS_SOCKETS ? count_socket : count_descriptor, sample))
        return;
    sample->known |= parts & (GP_PROCFS_FDS | GP_PROCFS_SOCKETS);
    if (pid == getpid())
        sample->fds -= 2; /* the folder of the process and the folder "fd" are ours for this moment only */
    if (!(parts & GP_PROCFS_FDS))
        sample->fds = 0;
}

static void count_switches(int fd, const char *name, void *context)
{
    struct gp_procfs_sample *sample = context;
    struct lines lines;
    char path[32], line[128];
    uint64_t value;

    snprintf(path, sizeof path, "%.16s/status", name);
    if (lines_open(&lines, fd, path))
        return; /* it has ended since its name was read */
    while (lines_next(&lines, line, sizeof line))
        if (is_field(line, "voluntary_ctxt_switches:", &value) ||
            is_field(line, "nonvoluntary_ctxt_switches:", &value))
            sample->context_switches += value;
    close(lines.fd);
}

static enum reading read_parts(int directory, pid_t pid, unsigned parts, struct gp_procfs_sample *sample)
{
    enum reading reading = read_stat(directory, sample);

    if (reading == ALIVE)
        reading = read_status(directory, sample);
    if (reading != ALIVE)
        return reading;
    if (parts & GP_PROCFS_MAPS)
        read_maps(directory, sample);
    if (parts & GP_PROCFS_PSS)
        read_pss(directory, sample);
    if (parts & (GP_PROCFS_FDS | GP_PROCFS_SOCKETS))
        read_descriptors(directory, pid, parts, sample);
    if (parts & GP_PROCFS_SWITCHES && each_entry(directory, "task", count_switches, sample) == 0)
        sample->known |= GP_PROCFS_SWITCHES;
    if (parts & GP_PROCFS_SOCKET_MEMORY && gp_sockets_memory(pid, &sample->socket_bytes) == 0)
        sample->known |= GP_PROCFS_SOCKET_MEMORY;
    return ALIVE;
}

static bool is_gone(int os_errno)
{
    return os_errno == ENOENT || os_errno == ESRCH;
}

static int open_process(pid_t pid, struct gp_error *err)
{
    char path[32];

    if (pid <= 0)
        return gp_error_set(err, GP_ERROR_INVALID, "pid %d: a pid is positive", (int)pid);
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        return directory;
    int saved = errno;
    if (is_gone(saved) && kill(pid, 0) != 0 && errno == ESRCH)
        return gp_error_set(err, GP_ERROR_DIED, "process %d is gone", (int)pid);
    errno = saved; /* it lives and /proc hides it (hidepid, or not mounted), or the trouble is ours */
    return gp_error_errno(err, "cannot open %s", path);
}

int gp_procfs_sample(pid_t pid, unsigned parts, struct gp_procfs_sample *sample, struct gp_error *err)
{
    int directory = open_process(pid, err);

    if (directory < 0)
        return -1;
    *sample = (struct gp_procfs_sample){.time_ns = gp_clock_now_ns()};
    enum reading reading = read_parts(directory, pid, parts, sample);
    int saved = errno;
    close(directory);
    if (reading == ALIVE)
        return 0;
    if (reading == ENDED || (reading == FAILED && is_gone(saved)))
        return gp_error_set(err, GP_ERROR_DIED, "process %d has ended", (int)pid);
    if (reading == HEADLESS)
        return gp_error_set(err, GP_ERROR_ENGINE,
                            "process %d lives without its main thread, so /proc/%d does not show its memory",
                            (int)pid, (int)pid);
    errno = saved;
    return gp_error_errno(err, "cannot read /proc/%d", (int)pid);
}

static uint64_t limit_value(const char *text, char **rest)
{
    text += strspn(text, " ");
    if (strncmp(text, "unlimited", 9) == 0) {
        *rest = (char *)text + 9;
        return UINT64_MAX;
    }
    return strtoull(text, rest, 10);
}

/* "Max open files            1024                 524288               files": readable where prlimit is not
 * allowed */
static int read_limits(pid_t pid, uint64_t *soft, uint64_t *hard)
{
    static const char name[] = "Max open files";
    struct lines lines;
    char path[32], line[128], *rest;
    int status = -1;

    snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    if (lines_open(&lines, AT_FDCWD, path))
        return -1;
    while (status && lines_next(&lines, line, sizeof line)) {
        if (strncmp(line, name, sizeof name - 1) != 0)
            continue;
        *soft = limit_value(line + sizeof name - 1, &rest);
        *hard = limit_value(rest, &rest);
        status = 0;
    }
    close(lines.fd);
    return status;
}

int gp_procfs_fd_limit(pid_t pid, uint64_t *soft, uint64_t *hard)
{
    struct rlimit limit;

    if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) != 0)
        return read_limits(pid, soft, hard);
    *soft = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
    *hard = limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
    return 0;
}
