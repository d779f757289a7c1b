/* What processes that were started with the preload object (preload/) allocate, read from outside: nothing is
 * asked of them, so it works for one that is stopped or stuck, and what was counted outlives it. */
#ifndef GP_PROCESS_ALLOCATIONS_H
#define GP_PROCESS_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_error;
struct gp_allocations;

/* Since the process's image began, or was forked: a forked child begins with its parent's. */
struct gp_allocation_counts {
    uint64_t mallocs, frees, allocated_bytes, freed_bytes;
};

/* A file that processes may count in; to be created in the process that stays. */
int gp_allocations_create(struct gp_allocations **allocations, struct gp_error *err);

/* The name and the value of the environment variable by which a process finds the file, while this process
 * lives and the handle does. */
const char *gp_allocations_variable(void);
const char *gp_allocations_path(const struct gp_allocations *allocations);

/* Whether a process counts (or has counted) here, and what. Exact while it is at rest; else never more frees
 * than mallocs. Of several with the same number, or several programs that it has executed, the last. */
bool gp_allocations_read(const struct gp_allocations *allocations, pid_t pid,
                         struct gp_allocation_counts *counts);

void gp_allocations_destroy(struct gp_allocations *allocations);

#endif
