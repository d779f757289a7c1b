/* The file in which counted processes tell their parent what they allocate: the preload object writes it,
 * process/allocations reads it. It is a memory file of the parent's, found through the parent's folder in
 * /proc, so that it is in nobody's way (no descriptor is inherited, nothing is left on a disk) and is reached
 * from behind any number of execs and launchers.
 *
 * A slot has one writer at a time, a thread, which adds by a plain load and store. It belongs to one process
 * for good, told by `owner`, and is never set to zero: a thread that ends leaves it to the next one, which
 * goes on from there. What a process has allocated is the sum over its slots. */
#ifndef GP_PRELOAD_SLOTS_H
#define GP_PRELOAD_SLOTS_H

#include <stdatomic.h>
#include <stdint.h>

#define GP_SLOTS_VARIABLE "GRPCPERF_ALLOCATIONS" /* of the environment: the file's path */
#define GP_SLOTS_NAME "grpcperf-allocations"     /* of the memory file */
#define GP_SLOTS_COUNT 65535u /* threads alive at once, all processes together; then they share */

struct gp_slot {
    /* (pid << 32) + index of the process's first slot: also after an exec, and when a pid comes again, no two
     * have the same. 0: of nobody yet. */
    _Alignas(64) _Atomic uint64_t owner;
    _Atomic uint64_t mallocs, frees, allocated_bytes, freed_bytes;
    _Atomic uint64_t program_device, program_inode; /* of the first slot: the file executed, 0 not known */
    _Atomic uint32_t next; /* while vacant: index + 1 of the process's next vacant slot, or 0 */
};

struct gp_slots {
    _Alignas(64) _Atomic uint32_t used; /* slots that are somebody's: the first ones */
    struct gp_slot slots[GP_SLOTS_COUNT];
};

#endif
