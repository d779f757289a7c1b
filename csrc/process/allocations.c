/* allocations: see the header. The processes may write what they like into the file, so nothing in it is
 * trusted: it cannot shrink, and its numbers are used as indices within bounds alone. */
#include "process/allocations.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "preload/slots.h"
#include "process/memory_file.h"

struct gp_allocations {
    int fd;
    struct gp_slots *file;
    char path[64];
};

/* Sealed: a reader of a file that somebody has cut would get SIGBUS. */
static int make_file(struct gp_allocations *allocations)
{
    int fd = gp_lift_fd(memfd_create(GP_SLOTS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING), STDERR_FILENO + 1);
    allocations->fd = fd;
    if (fd < 0 || ftruncate(fd, sizeof(struct gp_slots)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -1;
    allocations->file = mmap(NULL, sizeof(struct gp_slots), PROT_READ, MAP_SHARED, fd, 0);
    return allocations->file == MAP_FAILED ? -1 : 0;
}

int gp_allocations_create(struct gp_allocations **allocations, struct gp_error *err)
{
    struct gp_allocations *a = calloc(1, sizeof *a);
    if (!a)
        return gp_error_errno(err, "cannot count allocations");
    a->fd = -1;
    a->file = MAP_FAILED;
    if (make_file(a) < 0) {
        gp_error_errno(err, "cannot make a memory file to count allocations in");
        gp_allocations_destroy(a);
        return -1;
    }
    snprintf(a->path, sizeof a->path, "/proc/%d/fd/%d", (int)getpid(), a->fd);
    *allocations = a;
    return 0;
}

const char *gp_allocations_variable(void)
{
    return GP_SLOTS_VARIABLE;
}

const char *gp_allocations_path(const struct gp_allocations *allocations)
{
    return allocations->path;
}

static uint32_t used(const struct gp_slots *file)
{
    uint32_t count = atomic_load_explicit(&file->used, memory_order_acquire);
    return count < GP_SLOTS_COUNT ? count : GP_SLOTS_COUNT;
}

static uint64_t value(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_acquire);
}

/* Slots are taken in turn, so the last with this number is of the process that has it now. 0: none. */
static uint64_t last_owner(const struct gp_slots *file, pid_t pid)
{
    for (uint32_t i = used(file); i > 0; i--) {
        uint64_t owner = value(&file->slots[i - 1].owner);
        if (pid > 0 && owner >> 32 == (uint64_t)pid)
            return owner;
    }
    return 0;
}

/* Whether the process has since executed another program, one that does not count
 * here. A dead one has not. */
static bool executed_another(const struct gp_slots *file, uint64_t owner)
{
    char path[32];
    struct stat st;
    uint32_t first = (uint32_t)owner;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)(owner >> 32));
    if (first >= GP_SLOTS_COUNT || value(&file->slots[first].program_inode) == 0 || stat(path, &st) < 0)
        return false;
    return value(&file->slots[first].program_inode) != st.st_ino ||
           value(&file->slots[first].program_device) != st.st_dev;
}

/* All frees are read before any malloc: each free that is seen had its malloc before. */
bool gp_allocations_read(const struct gp_allocations *allocations, pid_t pid,
                         struct gp_allocation_counts *counts)
{
    const struct gp_slots *file = allocations->file;
    uint64_t owner = last_owner(file, pid);
    if (owner && executed_another(file, owner))
        owner = 0;
    *counts = (struct gp_allocation_counts){0};
    for (uint32_t i = 0, end = used(file); owner && i < end; i++)
        if (value(&file->slots[i].owner) == owner) {
            counts->frees += value(&file->slots[i].frees);
            counts->freed_bytes += value(&file->slots[i].freed_bytes);
        }
    for (uint32_t i = 0, end = used(file); owner && i < end; i++)
        if (value(&file->slots[i].owner) == owner) {
            counts->mallocs += value(&file->slots[i].mallocs);
            counts->allocated_bytes += value(&file->slots[i].allocated_bytes);
        }
    return owner != 0;
}

void gp_allocations_destroy(struct gp_allocations *allocations)
{
    if (!allocations)
        return;
    if (allocations->file != MAP_FAILED)
        munmap(allocations->file, sizeof(struct gp_slots));
    if (allocations->fd >= 0)
        close(allocations->fd);
    free(allocations);
}
