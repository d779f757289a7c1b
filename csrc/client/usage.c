/* usage: the one sum of CPU that clients of a library with hidden threads draw from. Reads the kernel's
 * clocks and /proc/self/task; knows nothing of calls or connections. The state below is the process's, for so
 * are the threads it accounts for. */
#include "client/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

struct thread {
    pid_t tid;
    unsigned polls;   /* the clients it polls; 0: one of the library's own */
    uint64_t seen_ns; /* of its CPU, so much is in the sum */
};

struct departed {
    const void *owner;
    uint64_t active_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gp_usage *users;
static pid_t *foreign; /* threads older than the library */
static size_t foreign_count;
static struct thread *threads;
static size_t thread_count, thread_capacity;
static uint64_t unclaimed_ns;
/* Clients that have left: the one last at work, and the one last at work among those of other owners. */
static struct departed latest, latest_other;

/* How gRPC names its threads, cut to the 15 bytes that the kernel keeps: 1.51 has the first three (there may
 * be many executors; timer threads come and go), later versions the others. */
static bool name_is_library(const char *name)
{
    static const char *const names[] = {"default-executo", "resolver-execut", "grpc_global_tim",
                                        "event_engine",    "timer_manager",   "backup_poller"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool is_library(pid_t tid)
{
    char path[64], name[32];
    ssize_t length;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = read(fd, name, sizeof name - 1);
    close(fd);
    name[length > 0 ? length : 0] = 0;
    return name_is_library(name);
}

static bool is_foreign(pid_t tid)
{
    for (size_t i = 0; i < foreign_count; i++)
        if (foreign[i] == tid)
            return true;
    return false;
}

static struct thread *find_thread(pid_t tid)
{
    for (size_t i = 0; i < thread_count; i++)
        if (threads[i].tid == tid)
            return &threads[i];
    return NULL;
}

/* NULL when out of memory: its CPU is then missed. */
static struct thread *add_thread(pid_t tid, unsigned polls, uint64_t seen_ns)
{
    if (thread_count == thread_capacity) {
        size_t capacity = thread_capacity ? 2 * thread_capacity : 16;
        struct thread *grown = realloc(threads, capacity * sizeof *grown);

        if (!grown)
            return NULL;
        threads = grown;
        thread_capacity = capacity;
    }
    threads[thread_count] = (struct thread){.tid = tid, .polls = polls, .seen_ns = seen_ns};
    return &threads[thread_count++];
}

static void remove_thread(struct thread *thread)
{
    *thread = threads[--thread_count];
}

/* Add what a thread has used since it was last looked at; false when it has ended (or its number has gone to
 * another thread, whose clock shows less). What it used between the last look and its end is lost. */
static bool look_at(struct thread *thread)
{
    uint64_t cpu_ns;

    if (gp_clock_tid_cpu_ns(thread->tid, &cpu_ns) < 0 || cpu_ns < thread->seen_ns)
        return false;
    unclaimed_ns += cpu_ns - thread->seen_ns;
    thread->seen_ns = cpu_ns;
    return true;
}

static void for_each_tid(void (*visit)(pid_t tid))
{
    DIR *directory = opendir("/proc/self/task");
    struct dirent *entry;

    if (!directory)
        return;
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            visit((pid_t)atoi(entry->d_name));
    closedir(directory);
}

static void adopt_if_library(pid_t tid)
{
    struct thread *thread;

    if (find_thread(tid) || is_foreign(tid) || !is_library(tid))
        return;
    thread = add_thread(tid, 0, 0);
    if (thread && !look_at(thread))
        remove_thread(thread);
}

static void look_at_all(void)
{
    for (size_t i = 0; i < thread_count;) {
        if (look_at(&threads[i]))
            i++;
        else
            remove_thread(&threads[i]);
    }
    for_each_tid(adopt_if_library);
}

static void note_foreign(pid_t tid)
{
    pid_t *grown = realloc(foreign, (foreign_count + 1) * sizeof *grown);

    if (!grown)
        return;
    foreign = grown;
    foreign[foreign_count++] = tid;
}

void gp_usage_begin(void)
{
    pthread_mutex_lock(&lock);
    for_each_tid(note_foreign);
    pthread_mutex_unlock(&lock);
}

void gp_usage_join(struct gp_usage *usage, const void *owner)
{
    *usage = (struct gp_usage){.owner = owner ? owner : usage};
    pthread_mutex_lock(&lock);
    usage->next = users;
    users = usage;
    pthread_mutex_unlock(&lock);
}

static void stop_polling(struct gp_usage *usage)
{
    struct thread *thread = find_thread(usage->tid);

    usage->tid = 0;
    if (!thread || thread->polls == 0 || --thread->polls > 0)
        return;
    look_at(thread);
    remove_thread(thread);
}

/* A thread that begins to poll brings none of its past with it. */
static void start_polling(struct gp_usage *usage, pid_t tid)
{
    struct thread *thread = find_thread(tid);
    uint64_t cpu_ns = gp_clock_thread_cpu_ns();

    if (usage->tid == tid && thread)
        return;
    stop_polling(usage);
    usage->tid = tid;
    thread = find_thread(tid);
    if (thread)
        thread->polls++;
    else
        add_thread(tid, 1, cpu_ns);
}

void gp_usage_poller(struct gp_usage *usage)
{
    pthread_mutex_lock(&lock);
    start_polling(usage, gettid());
    pthread_mutex_unlock(&lock);
}

static void note_departed(const void *owner, uint64_t active_ns)
{
    struct departed now = {owner, active_ns};

    if (owner == latest.owner) {
        if (active_ns > latest.active_ns)
            latest = now;
    } else if (active_ns >= latest.active_ns) {
        latest_other = latest;
        latest = now;
    } else if (active_ns > latest_other.active_ns) {
        latest_other = now;
    }
}

void gp_usage_leave(struct gp_usage *usage)
{
    pthread_mutex_lock(&lock);
    for (struct gp_usage **at = &users; *at; at = &(*at)->next)
        if (*at == usage) {
            *at = usage->next;
            break;
        }
    stop_polling(usage);
    note_departed(usage->owner, atomic_load(&usage->active_ns));
    pthread_mutex_unlock(&lock);
}

uint64_t gp_usage_claim(struct gp_usage *usage)
{
    uint64_t claimed_ns;

    pthread_mutex_lock(&lock);
    look_at_all();
    usage->claimed_ns += unclaimed_ns;
    unclaimed_ns = 0;
    claimed_ns = usage->claimed_ns;
    pthread_mutex_unlock(&lock);
    return claimed_ns;
}

bool gp_usage_alone(const struct gp_usage *usage, uint64_t since_ns)
{
    const struct departed *other;
    bool alone;

    pthread_mutex_lock(&lock);
    other = latest.owner == usage->owner ? &latest_other : &latest;
    alone = !other->owner || other->active_ns < since_ns;
    for (const struct gp_usage *user = users; alone && user; user = user->next)
        if (user->owner != usage->owner && atomic_load(&user->active_ns) >= since_ns)
            alone = false;
    pthread_mutex_unlock(&lock);
    return alone;
}
