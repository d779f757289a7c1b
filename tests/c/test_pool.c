/* pool: whose turn it is, who has least to do, and that the lock is there for those who asked for it. */
#include "client/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "wire_fixture.h"

#define PLACES 8u
#define CALLS 64u

static struct gp_pool pool_of(enum gp_pick pick, uint32_t connections)
{
    struct gp_pool pool;

    CHECK(gp_pool_init(&pool, pick, PLACES, CALLS, NULL) == 0);
    for (uint32_t i = 0; i < connections; i++)
        gp_pool_add(&pool, 0);
    return pool;
}

static void each_connection_has_its_turn(enum gp_pick pick)
{
    for (uint32_t connections = 1; connections <= 3; connections++) {
        struct gp_pool pool = pool_of(pick, connections);

        for (uint32_t call = 0; call < 10; call++)
            CHECK(gp_pool_take(&pool) == call % connections);
        gp_pool_fini(&pool);
    }
}

/* Connections come and go: those that are there still have their turns. */
static void turns_go_on_among_fewer_or_more(void)
{
    struct gp_pool pool = pool_of(GP_PICK_ROUND_ROBIN, 3);
    unsigned taken[4] = {0};

    gp_pool_take(&pool);
    gp_pool_take(&pool);
    gp_pool_remove(&pool, 2); /* the one whose turn it was is gone */
    CHECK(gp_pool_take(&pool) == 0 && gp_pool_take(&pool) == 1 && gp_pool_take(&pool) == 0);
    gp_pool_remove(&pool, 0);
    gp_pool_remove(&pool, 0);
    for (unsigned i = 0; i < 4; i++)
        gp_pool_add(&pool, 0);
    for (unsigned call = 0; call < 12; call++)
        taken[gp_pool_take(&pool)]++;
    for (unsigned i = 0; i < 4; i++)
        CHECK(taken[i] == 3);
    gp_pool_fini(&pool);
}

/* One that is slow keeps its calls, and gets no more than the others have. */
static void a_slow_one_is_spared(void)
{
    struct gp_pool pool = pool_of(GP_PICK_LEAST_LOADED, 3);
    unsigned taken[3] = {0};

    gp_pool_load(&pool, 1, 5);
    for (unsigned call = 0; call < 100; call++) {
        uint32_t place = gp_pool_take(&pool);

        taken[place]++;
        gp_pool_load(&pool, place, 1);
        gp_pool_load(&pool, place, 0);
    }
    CHECK(taken[1] == 0 && taken[0] == 50 && taken[2] == 50);
    gp_pool_fini(&pool);
}

static uint32_t least_of(const uint32_t *loads, uint32_t count)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++)
        least = loads[i] < least ? loads[i] : least;
    return least;
}

/* Against a plain array, through everything that may happen to a pool. */
static void least_loaded_is_least_loaded(void)
{
    struct gp_pool pool = pool_of(GP_PICK_LEAST_LOADED, 0);
    uint32_t loads[PLACES], count = 0;

    for (uint64_t step = 0; step < 100000; step++) {
        uint64_t draw = gp_random_at(1, step);
        uint32_t what = draw % 8, place = count > 0 ? (uint32_t)(draw >> 8) % count : 0;
        uint32_t load = (uint32_t)(draw >> 32) % (CALLS + 1);

        if (what == 0 && count < PLACES) {
            gp_pool_add(&pool, load);
            loads[count++] = load;
        } else if (what == 1 && count > 0) {
            gp_pool_remove(&pool, place);
            loads[place] = loads[--count];
        } else if (what == 2 && count > 0) {
            gp_pool_load(&pool, place, loads[place] = load);
        } else if (count > 0) {
            place = gp_pool_take(&pool);
            CHECK(place < count && loads[place] == least_of(loads, count));
            if (loads[place] < CALLS)
                gp_pool_load(&pool, place, ++loads[place]);
        }
        CHECK(pool.connections == count);
    }
    gp_pool_fini(&pool);
}

static void more_than_there_can_be_counts_as_most(void)
{
    struct gp_pool pool = pool_of(GP_PICK_LEAST_LOADED, 2);

    gp_pool_load(&pool, 0, CALLS + 1000);
    CHECK(gp_pool_take(&pool) == 1);
    gp_pool_fini(&pool);
}

static atomic_bool entered;

static void *enter(void *pool)
{
    gp_pool_enter(pool);
    atomic_store(&entered, true);
    gp_pool_leave(pool);
    return NULL;
}

static bool waits_for(enum gp_pick pick, pthread_mutex_t *lock)
{
    struct timespec pause = {.tv_nsec = 50000000};
    struct gp_pool pool;
    pthread_t thread;
    bool waits;

    CHECK(gp_pool_init(&pool, pick, PLACES, CALLS, lock) == 0);
    atomic_store(&entered, false);
    pthread_mutex_lock(lock);
    CHECK(pthread_create(&thread, NULL, enter, &pool) == 0);
    for (int i = 0; i < 100 && !atomic_load(&entered); i += pick == GP_PICK_LOCKED ? 100 : 1)
        nanosleep(&pause, NULL);
    waits = !atomic_load(&entered);
    pthread_mutex_unlock(lock);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&entered));
    gp_pool_fini(&pool);
    return waits;
}

struct calling {
    struct gp_client_opts opts;
    struct tally tally;
    atomic_bool over;
};

static void *call(void *argument)
{
    struct calling *calling = argument;

    calling->tally = run_calls(&calling->opts, CALLS);
    atomic_store(&calling->over, true);
    return NULL;
}

/* No call gets past a lock that another has, in either transport; then all do. */
static void clients_take_the_lock(const char *transport, enum gp_pick pick, bool wait)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct calling calling = {0};
    struct test_server server;
    struct timespec pause = {.tv_nsec = 100000000};
    pthread_t thread;

    test_server_start(&server, NULL);
    calling.opts = opts_of(&server, GP_KIND_UNARY);
    calling.opts.transport = transport;
    calling.opts.connections = 2;
    calling.opts.pick = pick;
    calling.opts.lock = &lock;
    pthread_mutex_lock(&lock);
    CHECK(pthread_create(&thread, NULL, call, &calling) == 0);
    for (int i = 0; i < (wait ? 3 : 100) && !atomic_load(&calling.over); i++)
        nanosleep(&pause, NULL);
    CHECK(atomic_load(&calling.over) == !wait);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    CHECK(calling.tally.classes[GP_CLASS_OK] == CALLS);
    test_server_stop(&server);
}

/* Connections come and go under the load, and none of it is missed. */
static void connections_are_replaced(enum gp_pick pick, uint64_t each, bool streams)
{
    const uint64_t calls = 600;
    struct gp_client_opts opts;
    struct gp_client_stats stats;
    struct test_server server;
    struct gp_client *client;

    test_server_start(&server, NULL);
    opts = opts_of(&server, streams ? GP_KIND_BIDI : GP_KIND_UNARY);
    opts.transport = "wire";
    opts.connections = 3;
    opts.pick = pick;
    opts.calls_per_connection = each;
    client = connected(&opts);
    CHECK(keep_calling(client, 16, calls).classes[GP_CLASS_OK] == calls);
    gp_client_stats(client, &stats);
    CHECK(stats.connected == 3 && stats.reconnects == 0);
    CHECK(stats.opened >= calls / each && stats.opened <= calls / each + 2 * opts.connections);
    CHECK(stats.messages_received == (streams ? 5 : 1) * calls);
    gp_client_destroy(client);
    test_server_stop(&server);
}

int main(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    each_connection_has_its_turn(GP_PICK_ROUND_ROBIN);
    each_connection_has_its_turn(GP_PICK_LOCKED);
    turns_go_on_among_fewer_or_more();
    a_slow_one_is_spared();
    least_loaded_is_least_loaded();
    more_than_there_can_be_counts_as_most();
    CHECK(waits_for(GP_PICK_LOCKED, &lock));
    CHECK(!waits_for(GP_PICK_ROUND_ROBIN, &lock) && !waits_for(GP_PICK_LEAST_LOADED, &lock));
    clients_take_the_lock("wire", GP_PICK_LOCKED, true);
    clients_take_the_lock("core", GP_PICK_LOCKED, true);
    clients_take_the_lock("wire", GP_PICK_LEAST_LOADED, false);
    connections_are_replaced(GP_PICK_ROUND_ROBIN, 1, false);
    connections_are_replaced(GP_PICK_LEAST_LOADED, 1, false);
    connections_are_replaced(GP_PICK_LEAST_LOADED, 7, true);
    return 0;
}
