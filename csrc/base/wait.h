/* How long a blocking function may wait, and whom it asks meanwhile whether it still should. */
#ifndef GP_BASE_WAIT_H
#define GP_BASE_WAIT_H

#include <stdint.h>

struct gp_wait {
    uint64_t timeout_ns;
    /* Asked about every 20 ms; anything but 0 makes the function give up with GP_ERROR_STOPPED. NULL: never
     * asked. */
    int (*interrupted)(void *context);
    void *context;
};

#endif
