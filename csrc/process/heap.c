/* heap: mallinfo, under whichever name this glibc has it. */
#include "process/heap.h"

#include <malloc.h>

struct gp_heap gp_heap_read(void)
{
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return (struct gp_heap){
        .alloc = info.uordblks + info.hblkhd, .sys = info.arena + info.hblkhd, .idle = info.fordblks};
#else
    struct mallinfo info = mallinfo(); /* wraps at 4 GiB */
    return (struct gp_heap){.alloc = (uint64_t)(unsigned)info.uordblks + (unsigned)info.hblkhd,
                            .sys = (uint64_t)(unsigned)info.arena + (unsigned)info.hblkhd,
                            .idle = (unsigned)info.fordblks};
#endif
}
