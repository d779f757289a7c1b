/* The preload object in processes of their own, read from here: to the last block. */
#include "process/allocations.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "check.h"
#include "preload/slots.h"

#define THREADS_AT_ONCE 50 /* in allocating.c */
#define WAIT_NS (60 * GP_NS_PER_S)

struct process {
    pid_t pid;
    FILE *says;
};

static struct gp_allocations *allocations(void)
{
    struct gp_allocations *a;
    struct gp_error err = {0};
    CHECK(gp_allocations_create(&a, &err) == 0);
    return a;
}

/* The program `allocating`, which counts in the file at `path`. */
static struct process start(const char *path, const char *libraries, const char *const *arguments)
{
    const char *argv[] = {getenv("GP_ALLOCATING"), arguments[0], arguments[0] ? arguments[1] : NULL, NULL};
    char preload[1024], file[128];
    char *env[] = {preload, file, NULL};
    posix_spawn_file_actions_t actions;
    struct process process;
    int ends[2];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", libraries);
    snprintf(file, sizeof file, "%s=%s", gp_allocations_variable(), path);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    CHECK(posix_spawn(&process.pid, argv[0], &actions, NULL, (char **)argv, env) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    process.says = fdopen(ends[0], "r");
    return process;
}

static struct process start_one(const struct gp_allocations *a, const char *what)
{
    return start(gp_allocations_path(a), getenv("GP_PRELOAD"), (const char *[]){what, NULL});
}

/* Wait for its next line; gives the pid in it. */
static pid_t told(const struct process *process, struct gp_allocation_counts *counts)
{
    int pid;
    CHECK(fscanf(process->says, "%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &pid, &counts->mallocs,
                 &counts->frees, &counts->allocated_bytes, &counts->freed_bytes) == 5);
    return pid;
}

static void end(struct process *process)
{
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    fclose(process->says);
}

static bool equal(const struct gp_allocation_counts *a, const struct gp_allocation_counts *b)
{
    bool same = memcmp(a, b, sizeof *a) == 0;
    if (!same)
        fprintf(stderr, "%lu %lu %lu %lu, but %lu %lu %lu %lu expected\n", a->mallocs, a->frees,
                a->allocated_bytes, a->freed_bytes, b->mallocs, b->frees, b->allocated_bytes, b->freed_bytes);
    return same;
}

static void check_exact(const struct gp_allocations *a, const struct process *process)
{
    struct gp_allocation_counts expected, counts;
    pid_t pid = told(process, &expected);
    CHECK(gp_allocations_read(a, pid, &counts) && equal(&counts, &expected));
}

static void test_each_function_is_counted(void)
{
    struct gp_allocations *a = allocations();
    struct process process = start_one(a, "known");
    check_exact(a, &process);
    end(&process);
    gp_allocations_destroy(a);
}

static void test_a_program_without_any_is_known(void)
{
    struct gp_allocations *a = allocations();
    struct process process = start_one(a, "nothing");
    check_exact(a, &process);
    end(&process);
    gp_allocations_destroy(a);
}

static void test_an_executed_program_begins_anew(void)
{
    struct gp_allocations *a = allocations();
    struct process process = start_one(a, "exec");
    check_exact(a, &process);
    end(&process);
    gp_allocations_destroy(a);
}

static uint32_t used_slots(const struct gp_allocations *a)
{
    uint32_t used = 0;
    int fd = open(gp_allocations_path(a), O_RDONLY | O_CLOEXEC);
    CHECK(pread(fd, &used, sizeof used, offsetof(struct gp_slots, used)) == sizeof used);
    close(fd);
    return used;
}

/* While threads come and go what is read is in order; when they have, it is exact, in the forked child as
 * well. */
static void test_thousands_of_threads_and_a_fork(void)
{
    struct gp_allocations *a = allocations();
    struct gp_allocation_counts before = {0}, counts;
    char both[1024];
    siginfo_t info = {0};
    snprintf(both, sizeof both, "%s:%s", getenv("GP_PRELOAD"), getenv("GP_ORACLE"));
    struct process process = start(gp_allocations_path(a), both, (const char *[]){"threads", "2000"});
    uint64_t begin = gp_clock_now_ns();
    while (waitid(P_PID, (id_t)process.pid, &info, WSTOPPED | WEXITED | WNOHANG) == 0 && info.si_pid == 0) {
        CHECK(gp_clock_now_ns() - begin < WAIT_NS);
        if (!gp_allocations_read(a, process.pid, &counts))
            continue;
        CHECK(counts.mallocs >= counts.frees && counts.allocated_bytes >= counts.freed_bytes);
        CHECK(counts.mallocs >= before.mallocs && counts.frees >= before.frees);
        before = counts;
    }
    CHECK(info.si_code == CLD_STOPPED && before.mallocs > 10000);
    check_exact(a, &process);
    check_exact(a, &process);
    CHECK(used_slots(a) <= 2 * (THREADS_AT_ONCE + 2)); /* a slot is given on */
    end(&process);
    gp_allocations_destroy(a);
}

static void test_counts_outlive_the_process(void)
{
    struct gp_allocations *a = allocations();
    struct gp_allocation_counts expected, counts;
    struct process process = start_one(a, "known");
    told(&process, &expected);
    end(&process);
    CHECK(gp_allocations_read(a, process.pid, &counts) && equal(&counts, &expected));
    gp_allocations_destroy(a);
}

static void test_processes_are_told_apart(void)
{
    struct gp_allocations *a = allocations();
    struct gp_allocation_counts counts;
    struct process one = start_one(a, "known"), other = start_one(a, "known");
    check_exact(a, &one);
    check_exact(a, &other);
    CHECK(!gp_allocations_read(a, getpid(), &counts) && counts.mallocs == 0);
    CHECK(!gp_allocations_read(a, 0, &counts) && !gp_allocations_read(a, -1, &counts));
    end(&one);
    end(&other);
    gp_allocations_destroy(a);
}

/* A program runs on uncounted when there is no file, or another's. */
static void check_runs_uncounted(const char *path)
{
    struct gp_allocation_counts counts;
    struct process process = start(path, getenv("GP_PRELOAD"), (const char *[]){"known", NULL});
    CHECK(told(&process, &counts) == process.pid);
    end(&process);
}

static void test_what_is_not_the_file_is_left_alone(void)
{
    char template[] = "/tmp/grpcperf-allocations-XXXXXX", path[64];
    uint32_t written = 0;
    int file = mkstemp(template), memory = memfd_create("grpcperf-allocations", 0);
    check_runs_uncounted("");
    check_runs_uncounted("/proc/self/fd/999");
    CHECK(ftruncate(file, sizeof(struct gp_slots)) == 0); /* of the right size */
    check_runs_uncounted(template);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), memory); /* of the right name alone */
    check_runs_uncounted(path);
    CHECK(pread(file, &written, sizeof written, 0) == sizeof written && written == 0);
    unlink(template);
    close(file);
    close(memory);
}

static void test_no_process_can_cut_the_file(void)
{
    struct gp_allocations *a = allocations();
    int fd = open(gp_allocations_path(a), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 0) < 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
    close(fd);
    gp_allocations_destroy(a);
    gp_allocations_destroy(NULL);
}

int main(void)
{
    CHECK(getenv("GP_PRELOAD") && getenv("GP_ALLOCATING") && getenv("GP_ORACLE"));
    test_each_function_is_counted();
    test_a_program_without_any_is_known();
    test_an_executed_program_begins_anew();
    test_thousands_of_threads_and_a_fork();
    test_counts_outlive_the_process();
    test_processes_are_told_apart();
    test_what_is_not_the_file_is_left_alone();
    test_no_process_can_cut_the_file();
    return 0;
}
