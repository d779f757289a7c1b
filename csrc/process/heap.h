/* The heap of this process, as glibc tells of it. Counts chunk headers and what is
 * cached per thread as live. */
#ifndef GP_PROCESS_HEAP_H
#define GP_PROCESS_HEAP_H

#include <stdint.h>

struct gp_heap {
    uint64_t alloc, sys, idle; /* bytes, as Go names them: live, taken from the kernel, free in it */
};

/* 15 to 50 µs; 16 ms when thousands of threads have freed in many arenas. */
struct gp_heap gp_heap_read(void);

#endif
