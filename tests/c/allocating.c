/* A program whose allocations are known, for test_allocations: it says what it has made, and stops.
 *
 *   nothing    none
 *   known      one call of each function that allocates
 *   threads N  N threads that come and go, then a fork whose child does the same; told by oracle.c, for the C
 *              library allocates for each thread, too
 *   exec       many allocations, then this program again as `known`
 *
 * A line is "pid mallocs frees allocated_bytes freed_bytes", written without allocating. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define AT_ONCE 50
#define BLOCKS 40

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Also when a test that has failed leaves it stopped. */
static void die_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void say_and_stop(const uint64_t counts[4])
{
    char line[128];
    int length = snprintf(line, sizeof line, "%d %lu %lu %lu %lu\n", (int)getpid(), (unsigned long)counts[0],
                          (unsigned long)counts[1], (unsigned long)counts[2], (unsigned long)counts[3]);
    if (write(STDOUT_FILENO, line, (size_t)length) == length)
        raise(SIGSTOP);
}

/* ---- known ---- */

static uint64_t known[4];

static void *made(void *block)
{
    memset(block, 1, malloc_usable_size(block)); /* all of it is ours */
    known[0]++;
    known[2] += malloc_usable_size(block);
    return block;
}

static void gone(void *block)
{
    known[1]++;
    known[3] += malloc_usable_size(block);
}

static void *grown(void *block, size_t size)
{
    gone(block);
    return made(realloc(block, size));
}

static void released(void *block)
{
    gone(block);
    free(block);
}

static void call_each_once(void)
{
    void *volatile aligned = NULL;
    void *volatile nothing;
    if (posix_memalign((void **)&aligned, 256, 1000) == 0)
        released(made(aligned));
    made(malloc(1000));
    made(malloc(0));
    made(calloc(10, 100));
    made(realloc(NULL, 33));
    made(strdup("a text"));
    made(memalign(64, 100));
    made(aligned_alloc(4096, 8192));
    require((uintptr_t)made(valloc(100)) % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
    require(malloc_usable_size(made(pvalloc(100))) >= (size_t)sysconf(_SC_PAGESIZE));
    made(reallocarray(NULL, 3, 1000));
    made(malloc(1 << 20)); /* a mapping of its own */
    released(grown(made(malloc(10)), 5000));
    released(grown(made(malloc(5000)), 10));
    released(grown(made(malloc(1 << 20)), 1 << 22));
    void *freed = made(malloc(77));
    gone(freed);
    nothing = realloc(freed, 0);
    free(NULL);
    size_t volatile too_much = PTRDIFF_MAX;
    nothing = realloc(made(malloc(123)), too_much); /* what fails leaves the old block */
    nothing = reallocarray(made(malloc(123)), too_much, 4);
    nothing = malloc(too_much);
    nothing = calloc(too_much, 4);
    nothing = aligned_alloc(64, too_much);
    nothing = pvalloc(SIZE_MAX);
    nothing = posix_memalign((void **)&aligned, 3, 100) == 0 ? made(aligned) : NULL;
    (void)nothing;
}

/* ---- threads ---- */

static pthread_key_t late;

/* Allocates and frees when the thread's slot has been given back, as often as destructors are called. */
static void run_late(void *block)
{
    for (int i = 0; i < 2 * BLOCKS; i++) {
        void *volatile more = malloc(999);
        free(more);
    }
    pthread_setspecific(late, block);
}

/* Half of the blocks are left for another thread to free. */
static void *come_and_go(void *blocks)
{
    void **kept = blocks;
    for (size_t i = 0; i < 2 * BLOCKS; i++) {
        void *volatile block = malloc(16 + 8 * i);
        if (i % 2)
            kept[i / 2] = realloc(block, 4000);
        else
            free(block);
    }
    pthread_setspecific(late, &late);
    return NULL;
}

static void run_threads(int count)
{
    static void *blocks[AT_ONCE][BLOCKS];
    pthread_t threads[AT_ONCE];
    for (int done = 0; done < count; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            require(pthread_create(&threads[i], NULL, come_and_go, blocks[i]) == 0);
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_join(threads[i], NULL);
            for (int k = 0; k < BLOCKS; k++)
                free(blocks[i][k]);
        }
    }
}

static void fork_among_threads(int count)
{
    void (*oracle)(uint64_t *) = (void (*)(uint64_t *))dlsym(RTLD_DEFAULT, "oracle_counts");
    uint64_t counts[4];
    pthread_key_create(&late, run_late);
    run_threads(count);
    pid_t child = fork();
    if (child == 0)
        die_with_parent();
    run_threads(child ? AT_ONCE : count);
    oracle(counts);
    say_and_stop(counts);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "known";
    die_with_parent();
    if (strcmp(what, "threads") == 0) {
        fork_among_threads(argc > 2 ? atoi(argv[2]) : AT_ONCE);
    } else if (strcmp(what, "exec") == 0) {
        call_each_once();
        call_each_once();
        execl(argv[0], argv[0], "known", (char *)NULL);
    } else {
        if (strcmp(what, "nothing") != 0)
            call_each_once();
        say_and_stop(known);
    }
    return 0;
}
