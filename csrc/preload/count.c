/* The life of slots in one process: its first, which threads without one share; a thread's, from its first
 * allocation until its key's destructor runs; a forked child's new ones.
 *
 * What is not atomic here is written before there is a second thread: at the first allocation, which creating
 * a thread itself makes, and in a forked child. */
#include "preload/count.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__thread struct gp_slot *gp_count_own;
static __thread bool departed; /* it has given its slot back, and will end soon */
static __thread struct counts {
    uint64_t mallocs, frees, allocated_bytes, freed_bytes;
} at_fork; /* the process's; for each thread, as two may fork at once */

static enum { FRESH, STARTING, COUNTING, OFF } state;
static struct gp_slot early;            /* of the time before COUNTING */
static struct gp_slot *shared = &early; /* by threads without a slot of their own: added to atomically */
static struct gp_slots *file;
static uint64_t owner; /* of this process's slots */
static pthread_key_t key;
static _Atomic uint64_t vacant; /* (changes << 32) + index + 1 of the last slot given back, or 0 */

static uint32_t index_of(const struct gp_slot *slot)
{
    return (uint32_t)(slot - file->slots);
}

/* A slot that was never used, NULL when all are. */
static struct gp_slot *claim(void)
{
    uint32_t index = atomic_load_explicit(&file->used, memory_order_relaxed);
    do {
        if (index >= GP_SLOTS_COUNT)
            return NULL;
    } while (!atomic_compare_exchange_weak(&file->used, &index, index + 1));
    return &file->slots[index];
}

static struct gp_slot *claim_for_thread(void)
{
    struct gp_slot *slot = claim();
    if (slot)
        atomic_store_explicit(&slot->owner, owner, memory_order_release);
    return slot;
}

/* The count of changes keeps a slot that was taken and given back meanwhile from
 * being taken for unchanged. */
static uint64_t vacant_head(uint64_t before, uint32_t index_and_one)
{
    return ((before >> 32) + 1) << 32 | index_and_one;
}

static struct gp_slot *take_vacant(void)
{
    uint64_t head = atomic_load(&vacant);
    struct gp_slot *slot;
    do {
        if ((uint32_t)head == 0)
            return NULL;
        slot = &file->slots[(uint32_t)head - 1];
    } while (!atomic_compare_exchange_weak(&vacant, &head, vacant_head(head, atomic_load(&slot->next))));
    return slot;
}

static void give_back(struct gp_slot *slot)
{
    uint64_t head = atomic_load(&vacant);
    do
        atomic_store(&slot->next, (uint32_t)head);
    while (!atomic_compare_exchange_weak(&vacant, &head, vacant_head(head, index_of(slot) + 1)));
}

/* The key's destructor. Others may run after it, and allocate and free: from now on in the shared slot. */
static void depart(void *unused)
{
    struct gp_slot *slot = gp_count_own;
    departed = true;
    gp_count_own = NULL;
    if (slot) /* else this is the thread that forked, in the child */
        give_back(slot);
}

/* By this a reader knows when the process has executed a program that does not count. */
static void name_program(struct gp_slot *slot)
{
    struct stat st;
    if (stat("/proc/self/exe", &st) < 0)
        return;
    atomic_store(&slot->program_device, st.st_dev);
    atomic_store(&slot->program_inode, st.st_ino);
}

static void add_slot(struct counts *counts, const struct gp_slot *slot)
{
    counts->mallocs += atomic_load(&slot->mallocs);
    counts->frees += atomic_load(&slot->frees);
    counts->allocated_bytes += atomic_load(&slot->allocated_bytes);
    counts->freed_bytes += atomic_load(&slot->freed_bytes);
}

/* This process's first slot, in which it begins with what it has already. */
static void begin(const struct counts *so_far)
{
    struct gp_slot *slot = claim();
    state = slot ? COUNTING : OFF;
    if (!slot)
        return;
    owner = (uint64_t)getpid() << 32 | index_of(slot);
    atomic_store(&slot->mallocs, so_far->mallocs);
    atomic_store(&slot->frees, so_far->frees);
    atomic_store(&slot->allocated_bytes, so_far->allocated_bytes);
    atomic_store(&slot->freed_bytes, so_far->freed_bytes);
    name_program(slot);
    atomic_store_explicit(&slot->owner, owner, memory_order_release);
    shared = slot;
}

/* Before a fork. The child's heap is a copy of its parent's, and so are its counts; only what other threads
 * do until the copy is made escapes. In the child it would be too late: the parent may have gone on. */
static void before_fork(void)
{
    uint32_t used = atomic_load(&file->used);
    at_fork = (struct counts){0};
    for (uint32_t i = 0; i < used; i++)
        if (atomic_load_explicit(&file->slots[i].owner, memory_order_acquire) == owner)
            add_slot(&at_fork, &file->slots[i]);
}

static void after_fork(void)
{
    gp_count_own = NULL;
    atomic_store(&vacant, 0);
    begin(&at_fork);
}

/* The parent may be gone and its number another's by now: what is not our file is not opened. */
static bool is_ours(const char *path)
{
    static const char name[] = "/memfd:" GP_SLOTS_NAME;
    char target[sizeof name];
    return readlink(path, target, sizeof target) == (ssize_t)sizeof target &&
           memcmp(target, name, sizeof name - 1) == 0;
}

static struct gp_slots *map(const char *path)
{
    struct stat st;
    int fd = is_ours(path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = MAP_FAILED;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_size == sizeof(struct gp_slots))
        at = mmap(NULL, sizeof(struct gp_slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

void gp_count_start(void)
{
    int saved = errno;
    if (state != FRESH || !environ)
        return;
    struct counts so_far = {0};
    state = STARTING; /* what the calls below allocate is counted early */
    const char *path = getenv(GP_SLOTS_VARIABLE);
    file = path ? map(path) : NULL;
    bool able =
        file && pthread_key_create(&key, depart) == 0 && pthread_atfork(before_fork, NULL, after_fork) == 0;
    add_slot(&so_far, &early);
    if (able)
        begin(&so_far);
    else
        state = OFF;
    errno = saved;
}

struct gp_slot *gp_count_arrive(void)
{
    int saved = errno;
    gp_count_start();
    if (state != COUNTING || departed)
        return NULL;
    struct gp_slot *slot = take_vacant();
    if (!slot)
        slot = claim_for_thread();
    gp_count_own = slot;
    if (slot && pthread_setspecific(key, slot) != 0) /* nothing would give it back */
        depart(NULL);
    errno = saved;
    return gp_count_own;
}

void gp_count_shared_malloc(size_t bytes)
{
    if (state == OFF)
        return;
    atomic_fetch_add_explicit(&shared->mallocs, 1, memory_order_release);
    atomic_fetch_add_explicit(&shared->allocated_bytes, bytes, memory_order_release);
}

void gp_count_shared_free(size_t bytes)
{
    if (state == OFF)
        return;
    atomic_fetch_add_explicit(&shared->frees, 1, memory_order_release);
    atomic_fetch_add_explicit(&shared->freed_bytes, bytes, memory_order_release);
}
