/* Tests of process/procfs: this process and forked children, alive, stopped, dead and strange, each number
 * against a second source. */
#include "process/procfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"

#define MIB (UINT64_C(1) << 20)

/* A child that does not outlive a test that fails. */
static pid_t fork_child(void)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

static struct gp_procfs_sample sample_of(pid_t pid, unsigned parts)
{
    struct gp_procfs_sample sample;
    struct gp_error err = {0};

    memset(&sample, 0xee, sizeof sample);
    if (gp_procfs_sample(pid, parts, &sample, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    CHECK(err.code == GP_ERROR_NONE);
    return sample;
}

static void fails(pid_t pid, enum gp_error_code code, const char *words)
{
    struct gp_procfs_sample sample;
    struct gp_error err = {0};

    CHECK(gp_procfs_sample(pid, GP_PROCFS_MAPS, &sample, NULL) == -1);
    CHECK(gp_procfs_sample(pid, GP_PROCFS_MAPS, &sample, &err) == -1);
    CHECK(err.code == code && strstr(err.message, words));
}

static void only_what_is_asked_is_filled(void)
{
    uint64_t before_ns = gp_clock_now_ns();
    struct gp_procfs_sample sample = sample_of(getpid(), 0);

    CHECK(sample.time_ns >= before_ns && sample.time_ns <= gp_clock_now_ns());
    CHECK(sample.threads == 1);
    CHECK(sample.rss_bytes > MIB && sample.rss_anon_bytes > 0 && sample.rss_anon_bytes < sample.rss_bytes);
    CHECK(sample.peak_rss_bytes >= sample.rss_bytes);
    CHECK(sample.pss_bytes == 0 && sample.writable_bytes == 0 && sample.mappings == 0);
    CHECK(sample.fds == 0 && sample.sockets == 0 && sample.context_switches == 0);
}

/* 64 MiB mapped: writable at once, resident when touched, and the peak stays when it is gone. */
static void memory_is_seen(void)
{
    struct gp_procfs_sample before = sample_of(getpid(), GP_PROCFS_MAPS | GP_PROCFS_PSS);
    size_t size = 64 * MIB;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    struct gp_procfs_sample mapped = sample_of(getpid(), GP_PROCFS_MAPS);
    CHECK(mapped.writable_bytes - before.writable_bytes == size);
    CHECK(mapped.rss_bytes < before.rss_bytes + 8 * MIB);
    memset(memory, 1, size);
    struct gp_procfs_sample touched = sample_of(getpid(), GP_PROCFS_PSS);
    CHECK(touched.rss_bytes >= before.rss_bytes + 60 * MIB);
    CHECK(touched.rss_anon_bytes >= before.rss_anon_bytes + 60 * MIB);
    CHECK(touched.pss_bytes >= before.pss_bytes + 60 * MIB && touched.pss_bytes <= touched.rss_bytes + MIB);
    munmap(memory, size);
    struct gp_procfs_sample after = sample_of(getpid(), GP_PROCFS_MAPS);
    CHECK(after.rss_bytes < before.rss_bytes + 8 * MIB);
    CHECK(after.peak_rss_bytes >= touched.rss_bytes - MIB);
    CHECK(after.writable_bytes == before.writable_bytes && after.mappings == before.mappings);
}

/* The same by other means: whole lines with stdio, their flags by sscanf. */
static void count_maps(uint32_t *mappings, uint64_t *writable)
{
    FILE *file = fopen("/proc/self/maps", "r");
    static char line[8192];
    unsigned long low, high;
    char flags[5];

    *mappings = 0;
    *writable = 0;
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        CHECK(sscanf(line, "%lx-%lx %4s", &low, &high, flags) == 3);
        ++*mappings;
        if (flags[1] == 'w' && flags[3] == 'p')
            *writable += high - low;
    }
    fclose(file);
}

static void *map(size_t pages, int protection, int flags, int fd)
{
    void *memory = mmap(NULL, pages * 4096, protection, flags, fd, 0);

    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Hundreds of mappings, among them of a file whose name is longer than a line's room, read-only and shared
 * ones. */
static void mappings_are_counted_as_they_are(void)
{
    char path[700] = "/tmp/gp-procfs-XXXXXX";
    uint32_t mappings;
    uint64_t writable;
    void *many[300];

    CHECK(mkdtemp(path));
    size_t length = strlen(path);
    memset(path + length, 'w', 250);
    strcpy(path + length + 250, " (rw-p");
    path[length] = '/';
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    for (int i = 0; i < 300; i++)
        many[i] = i % 3 == 0   ? map(2, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd)
                  : i % 3 == 1 ? map(2, PROT_READ | PROT_WRITE, MAP_SHARED, fd)
                               : map(2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    count_maps(&mappings, &writable); /* the first time its buffer is allocated */
    count_maps(&mappings, &writable);
    struct gp_procfs_sample sample = sample_of(getpid(), GP_PROCFS_MAPS);
    CHECK(sample.mappings > 200 && sample.writable_bytes >= 100 * 8192);
    CHECK(sample.mappings == mappings);
    CHECK(sample.writable_bytes == writable);
    for (int i = 0; i < 300; i++)
        munmap(many[i], 8192);
    close(fd);
    unlink(path);
    path[length] = '\0';
    rmdir(path);
}

static void descriptors_are_counted(void)
{
    unsigned parts = GP_PROCFS_FDS | GP_PROCFS_SOCKETS;
    struct gp_procfs_sample before = sample_of(getpid(), parts);
    int pair[2], files[500];

    CHECK(before.fds >= 3);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (int i = 0; i < 500; i++)
        CHECK((files[i] = open("/dev/null", O_RDONLY)) >= 0);
    struct gp_procfs_sample more = sample_of(getpid(), parts);
    CHECK(more.fds == before.fds + 502 && more.sockets == before.sockets + 2);
    more = sample_of(getpid(), GP_PROCFS_FDS);
    CHECK(more.fds == before.fds + 502 && more.sockets == 0);
    more = sample_of(getpid(), GP_PROCFS_SOCKETS);
    CHECK(more.fds == 0 && more.sockets == before.sockets + 2);

    pid_t child = fork_child();
    if (child == 0) {
        pause();
        _exit(0);
    }
    more = sample_of(child, parts); /* another process: nothing to leave out */
    CHECK(more.fds == before.fds + 502 && more.sockets == before.sockets + 2);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 500; i++)
        close(files[i]);
    CHECK(sample_of(getpid(), parts).fds == before.fds);
}

static void cpu_time_is_split(void)
{
    struct rusage usage;
    uint64_t end_ns = gp_clock_process_cpu_ns() + 200 * GP_NS_PER_MS;

    while (gp_clock_process_cpu_ns() < end_ns)
        ;
    struct gp_procfs_sample sample = sample_of(getpid(), 0);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    double user_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
    double system_s = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    CHECK(sample.cpu_user_s + sample.cpu_system_s >= 0.18);
    CHECK(sample.cpu_user_s <= user_s + 0.011 && sample.cpu_user_s >= user_s - 0.03);
    CHECK(sample.cpu_system_s <= system_s + 0.011 && sample.cpu_system_s >= system_s - 0.03);
}

static void *nap_often(void *leave)
{
    while (!*(atomic_bool *)leave)
        usleep(1000);
    return NULL;
}

/* The switches are those of another thread: the main thread alone would show almost none. */
static void switches_of_all_threads_are_summed(void)
{
    atomic_bool leave = false;
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, nap_often, &leave) == 0);
    struct gp_procfs_sample before = sample_of(getpid(), GP_PROCFS_SWITCHES);
    usleep(100000);
    struct gp_procfs_sample after = sample_of(getpid(), GP_PROCFS_SWITCHES);
    leave = true;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(before.threads == 4);
    CHECK(after.context_switches - before.context_switches > 60);
}

static void wait_until_zombie(pid_t child)
{
    siginfo_t info;

    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
}

/* Its name is made to mislead whoever takes the first parenthesis or counts spaces. */
static void a_child_is_read_until_it_dies(void)
{
    static const char *names[] = {"a) Z 0 (b", "a b c", ")", "(((", "x) R 1 2 3"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pid_t child = fork_child();
        if (child == 0) {
            prctl(PR_SET_NAME, names[i]);
            raise(SIGSTOP);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        struct gp_procfs_sample sample = sample_of(child, 31); /* stopped: everything is still readable */
        CHECK(sample.threads == 1 && sample.cpu_user_s < 1 && sample.rss_bytes > 0);
        CHECK(sample.fds >= 3 && sample.mappings > 10 && sample.pss_bytes > 0 && sample.context_switches > 0);

        kill(child, SIGKILL);
        wait_until_zombie(child);
        fails(child, GP_ERROR_DIED, "has ended");
        CHECK(waitpid(child, NULL, 0) == child);
        fails(child, GP_ERROR_DIED, "is gone");
    }
}

/* However the death falls between the files, it is a reading with memory in it or an honest end. */
static void dying_while_read_is_no_reading_of_zero(void)
{
    for (int round = 0; round < 60; round++) {
        pid_t child = fork_child();
        if (child == 0) {
            usleep(500 + (useconds_t)round * 20);
            _exit(0);
        }
        struct gp_procfs_sample sample;
        struct gp_error err = {0};
        while (gp_procfs_sample(child, 0, &sample, &err) == 0)
            CHECK(sample.rss_bytes > 0);
        CHECK(err.code == GP_ERROR_DIED);
        CHECK(waitpid(child, NULL, 0) == child);
    }
}

static void *outlive(void *unused)
{
    pause();
    return unused;
}

static void a_process_without_its_main_thread_is_not_dead(void)
{
    pid_t child = fork_child();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, outlive, NULL);
        pthread_exit(NULL);
    }
    struct gp_error err = {0};
    struct gp_procfs_sample sample;
    for (int tries = 0; gp_procfs_sample(child, 0, &sample, &err) == 0; tries++) {
        CHECK(tries < 2000);
        usleep(1000);
    }
    CHECK(err.code == GP_ERROR_ENGINE && strstr(err.message, "main thread"));
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void nonsense_is_refused(void)
{
    fails(0, GP_ERROR_INVALID, "positive");
    fails(-5, GP_ERROR_INVALID, "-5");
    fails(0x7ffffff0, GP_ERROR_DIED, "is gone");
}

/* A process that gave its rights away may look at another's CPU and memory, but not into its descriptors. */
static void the_forbidden_is_not_known(void)
{
    if (geteuid() != 0)
        return; /* needs a user to become */
    pid_t parent = getpid(), child = fork_child();
    if (child == 0) {
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        struct gp_procfs_sample sample = sample_of(parent, 31);
        CHECK(sample.fds == 0 && sample.sockets == 0 && sample.mappings == 0 && sample.pss_bytes == 0);
        CHECK(sample.known == GP_PROCFS_SWITCHES);
        CHECK(sample_of(getpid(), 31).known == 31);
        CHECK(sample.rss_bytes > MIB && sample.threads == 1 && sample.cpu_user_s > 0);
        uint64_t soft, hard;
        struct rlimit limit;
        CHECK(gp_procfs_fd_limit(parent, &soft, &hard) == 0); /* by /proc/<pid>/limits */
        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && soft == limit.rlim_cur && hard == limit.rlim_max);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void descriptor_limits_are_known(void)
{
    struct rlimit limit;
    uint64_t soft, hard;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(gp_procfs_fd_limit(0, &soft, &hard) == 0 && soft == limit.rlim_cur && hard == limit.rlim_max);
    pid_t child = fork_child();
    if (child == 0) {
        limit.rlim_cur = 77;
        setrlimit(RLIMIT_NOFILE, &limit);
        raise(SIGSTOP);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, WUNTRACED) == child);
    CHECK(gp_procfs_fd_limit(child, &soft, &hard) == 0 && soft == 77 && hard == limit.rlim_max);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(gp_procfs_fd_limit(child, &soft, &hard) == -1);
}

int main(void)
{
    only_what_is_asked_is_filled();
    memory_is_seen();
    mappings_are_counted_as_they_are();
    descriptors_are_counted();
    cpu_time_is_split();
    switches_of_all_threads_are_summed();
    a_child_is_read_until_it_dies();
    dying_while_read_is_no_reading_of_zero();
    a_process_without_its_main_thread_is_not_dead();
    nonsense_is_refused();
    the_forbidden_is_not_known();
    descriptor_limits_are_known();
    return 0;
}
