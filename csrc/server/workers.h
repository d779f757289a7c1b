/* Threads that are used again, and the calls that wait for one (model_workers.c). */
#ifndef GP_SERVER_WORKERS_H
#define GP_SERVER_WORKERS_H

#include <pthread.h>
#include <stddef.h>

#include "server/fifo.h"

struct gp_workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct gp_fifo line;
    size_t most;  /* calls that have a worker or wait for one, at most */
    size_t taken; /* ... and now */
};

#endif
