/* pool, in whole runs: the lock of GP_PICK_LOCKED is one for all load threads, taken once for each call. All
 * locking of this process comes by here first. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "run_fixture.h"

#define LOCKS 64u
#define CALLS 300u

static struct {
    _Atomic(pthread_mutex_t *) lock;
    atomic_uint taken, threads;
} seen[LOCKS];

static _Thread_local unsigned self;
static atomic_uint thread_count;

static void note(pthread_mutex_t *lock)
{
    if (self == 0)
        self = atomic_fetch_add(&thread_count, 1) + 1;
    for (unsigned i = 0; i < LOCKS; i++) {
        pthread_mutex_t *nobody = NULL;

        if (!atomic_compare_exchange_strong(&seen[i].lock, &nobody, lock) && nobody != lock)
            continue;
        atomic_fetch_add(&seen[i].taken, 1);
        atomic_fetch_or(&seen[i].threads, 1u << self % 32);
        return;
    }
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *lock)
{
    static int (*_Atomic real)(pthread_mutex_t *);

    if (!real)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    note(lock);
    return real(lock);
}

/* Locks that two threads took, once for each call of a run. */
static unsigned shared_locks(const char *target, enum gp_pick pick)
{
    struct gp_run_opts opts = opts_for(target);
    struct gp_run *run;
    unsigned found = 0;

    memset(seen, 0, sizeof seen);
    opts.client.transport = "wire";
    opts.client.connections = opts.threads = 2;
    opts.client.pick = pick;
    opts.duration_ns = 0;
    opts.warmup_ns = 0;
    opts.calls = CALLS;
    run = started(&opts);
    CHECK(result_of(run)->classes[GP_CLASS_OK] == CALLS);
    for (unsigned i = 0; i < LOCKS; i++)
        found += seen[i].taken == CALLS && __builtin_popcount(seen[i].threads) == 2;
    gp_run_destroy(run);
    return found;
}

int main(void)
{
    struct test_server server;

    test_server_start(&server, NULL);
    CHECK(shared_locks(server.target, GP_PICK_LOCKED) == 1);
    CHECK(shared_locks(server.target, GP_PICK_ROUND_ROBIN) == 0);
    CHECK(shared_locks(server.target, GP_PICK_LEAST_LOADED) == 0);
    test_server_stop(&server);
    return 0;
}
